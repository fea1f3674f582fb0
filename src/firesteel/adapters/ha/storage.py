"""The storage that `high-availability.storageDir` names: a directory that all masters share, or a place in a bucket."""

import os
import re
import shutil
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from firesteel.adapters.blob.local import BlobStore, LocalBlobStore
from firesteel.adapters.blob.objects import ObjectBlobStore
from firesteel.adapters.ha.disk import Directory, Disk
from firesteel.adapters.ha.fileregister import FileRegister
from firesteel.adapters.ha.objectdirectory import ObjectDirectory
from firesteel.adapters.ha.objectregister import ObjectRegister
from firesteel.adapters.storage.durability import sync
from firesteel.adapters.storage.files import DirectoryFiles, Files, ObjectFiles
from firesteel.adapters.storage.objects import Objects, check_conditions
from firesteel.adapters.storage.s3 import NotInstalled, S3Objects
from firesteel.adapters.storage.s3settings import S3Access, hadoop_settings
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.register import LeaderRegister


class Storage(Protocol):
    """The place where a cluster keeps what outlives its masters."""

    def prepare(self) -> None:
        """Blocking. Raises OSError when it can't be used."""

    def jobs(self) -> Directory:
        """Directory of the log of jobs."""

    def register(self) -> LeaderRegister:
        """Register of the leader, when nothing else says who leads."""

    def blobs(self, work_dir: Path) -> BlobStore:
        """Store of artifacts and other blobs. `work_dir` is this process's own."""

    def files(self, name: str, work_dir: Path) -> Files:
        """Files of all masters, apart from those of other names."""

    def archive(self, work_dir: Path) -> Path:
        """A directory for what is shown of ended jobs: of all masters, where that can be."""


class SharedDirectory:
    """A `Storage` on a file system."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def prepare(self) -> None:
        """The directories, on a file system that can do what is needed."""
        for name in ("jobs", "leader"):
            (self._root / name).mkdir(parents=True, exist_ok=True)
            Disk(self._root / name).check()
        for directory in (self._root, self._root.parent, self._root.parent.parent):
            sync(directory)

    def jobs(self) -> Directory:
        return Disk(self._root / "jobs")

    def register(self) -> LeaderRegister:
        return FileRegister(Disk(self._root / "leader"))

    def blobs(self, work_dir: Path) -> BlobStore:
        return LocalBlobStore(self._root / "blobs")

    def files(self, name: str, work_dir: Path) -> Files:
        return DirectoryFiles(self._root / name)

    def archive(self, work_dir: Path) -> Path:
        return self._root / "archive"


class Bucket:
    """A `Storage` in a store of objects. What was used of it lies in the master's own directory too.

    The archive is there only: who takes over looks through all of it, which with objects would keep jobs waiting.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def prepare(self) -> None:
        check_conditions(self._objects)

    def jobs(self) -> Directory:
        return ObjectDirectory(self._objects, "jobs/")

    def register(self) -> LeaderRegister:
        return ObjectRegister(self._objects, "leader")

    def blobs(self, work_dir: Path) -> BlobStore:
        return ObjectBlobStore(self._objects, LocalBlobStore(_cache("blobs", work_dir)))

    def files(self, name: str, work_dir: Path) -> Files:
        return ObjectFiles(self._objects, f"{name}/", _cache(name, work_dir))

    def archive(self, work_dir: Path) -> Path:
        return work_dir / "archive"


def _cache(name: str, work_dir: Path) -> Path:
    """Directory of the cache, without what a process before this one, which may have been killed, has left there."""
    cache = work_dir / name
    shutil.rmtree(cache, ignore_errors=True)
    return cache


def configured_storage(config: Configuration) -> Storage | None:
    """The storage; None when nothing outlives the masters. Raises ConfigurationError."""
    if config.get_option(options.HA_TYPE) == "none":
        return None
    where, cluster_id = config.get_option(options.HA_STORAGE_DIR), config.get_option(options.CLUSTER_ID)
    if re.fullmatch(r"[\w.-]*\w[\w.-]*", cluster_id) is None:
        raise ConfigurationError(f"{options.CLUSTER_ID.key}: {cluster_id!r} can't be the name of a directory")
    parts = urlsplit(where)
    if parts.scheme in ("s3", "s3a"):
        return Bucket(_s3_objects(config, where, cluster_id))
    if parts.scheme not in ("", "file") or parts.netloc or not parts.path.startswith("/"):
        raise ConfigurationError(
            f"{options.HA_STORAGE_DIR.key}: {where!r} is neither the absolute path of a directory that all masters"
            " share, nor s3://BUCKET/PATH"
        )
    return SharedDirectory(Path(unquote(parts.path) if parts.scheme else where) / cluster_id)


def _s3_objects(config: Configuration, where: str, cluster_id: str) -> S3Objects:
    settings = S3Access.of(hadoop_settings(config, os.environ)).obstore()
    _, _, bucket, *path = where.split("/")
    if not bucket:
        raise ConfigurationError(f"{options.HA_STORAGE_DIR.key}: {where!r} names no bucket: write s3://BUCKET/PATH")
    try:
        return S3Objects(bucket, "".join(f"{part}/" for part in (*path, cluster_id) if part), settings)
    except (NotInstalled, ValueError) as error:
        raise ConfigurationError(f"{options.HA_STORAGE_DIR.key}: {error}") from None
