"""Storages for savepoints, in memory and of a server: a bucket and an HDFS, whose requests fail or are the last."""

import itertools
import posixpath
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from firesteel.adapters.spark.streams.snapshots import remoteplace
from firesteel.adapters.spark.streams.snapshots.bucketplace import BucketPlace
from firesteel.adapters.spark.streams.snapshots.hdfsplace import HdfsPlace
from firesteel.adapters.spark.streams.snapshots.manifest import MANIFEST
from firesteel.adapters.spark.streams.snapshots.partials import PREFIX
from firesteel.adapters.spark.streams.snapshots.places import SavepointPlace
from firesteel.adapters.spark.streams.snapshots.savepoints import read_manifest
from firesteel.adapters.storage.webhdfs import Status
from tests.integration.storage.fakehdfs import SILENT, FakeHdfs, FaultyHdfs
from tests.integration.storage.fakekeys import FakeKeys

ROOT = "sp/savepoint-012345-1"
OTHER = "sp/savepoint-012345-2"
LATER_S = remoteplace.LEFT_AFTER_S + 1
"""So much later nobody can be at work on what was begun before."""


class Storage(ABC):
    """`faults`: what makes its requests, and can be told to fail. Names are paths in it, without a slash before them."""

    faults: Any
    failure: str
    """What is told of a request that fails."""

    @abstractmethod
    def uri(self, name: str = ROOT) -> str: ...

    @abstractmethod
    def at(self, name: str = ROOT, *, later: bool = False) -> SavepointPlace: ...

    @abstractmethod
    def names(self) -> list[str]:
        """All that is there."""

    @abstractmethod
    def read(self, name: str) -> bytes: ...

    @abstractmethod
    def write(self, name: str, data: bytes) -> None: ...

    @abstractmethod
    def delete(self, name: str) -> None: ...

    @abstractmethod
    def gives_name(self, what: str) -> bool:
        """Whether this request is the one that makes a savepoint of what was uploaded."""

    def savepoints(self, *names: str) -> set[str]:
        """What belongs to the savepoints there."""
        found = set()
        for name in names:
            found |= {f"{name}/{each.name}" for each in read_manifest(self.at(name)).files} | {f"{name}/{MANIFEST}"}
        return found

    def arm(self, *, cut_at: int = -1, fail_at: frozenset[int] = frozenset(), done: bool = False) -> None:
        """From now on."""
        self.faults.cut_at, self.faults.fail_at, self.faults.done = cut_at, fail_at, done
        self.faults.requests, self.faults.is_dark = 0, False

    def before(self, work: Callable[[], object], when: Callable[[str], bool]) -> None:
        """Do that once, before the request for which `when` says so."""

        def told(what: str) -> None:
            if when(what):
                self.faults.before = lambda what: None
                work()

        self.faults.before = told


class Bucket(Storage):
    failure = "503 SlowDown"

    def __init__(self, keys: Any = None) -> None:
        self.keys = self.faults = FakeKeys() if keys is None else keys

    def uri(self, name: str = ROOT) -> str:
        return f"s3://firesteel/{name}"

    def at(self, name: str = ROOT, *, later: bool = False) -> SavepointPlace:
        passed_s = LATER_S if later else 0.0
        return BucketPlace(self.uri(name), self.keys, clock=lambda: time.time() + passed_s, wait=lambda seconds: None)

    def names(self) -> list[str]:
        return [each.key for each in self.keys.found("")]

    def read(self, name: str) -> bytes:
        data: bytes = self.keys.get(name).data
        return data

    def write(self, name: str, data: bytes) -> None:
        self.keys.write(name, data)

    def delete(self, name: str) -> None:
        self.keys.delete([name])

    def gives_name(self, what: str) -> bool:
        return what == f"put {ROOT}/{MANIFEST}"


class InHdfs(Storage):
    failure = SILENT

    def __init__(self, client: Any = None, top: str = "") -> None:
        """`top`: the directory that stands for all of it, in a real one."""
        self.client = FakeHdfs() if client is None else client
        self.faults, self._top = FaultyHdfs(self.client), top
        self.wait: Callable[[float], None] = lambda seconds: None

    def uri(self, name: str = ROOT) -> str:
        uri: str = self.client.uri(f"{self._top}/{name}")
        return uri

    def at(self, name: str = ROOT, *, later: bool = False) -> SavepointPlace:
        if later:
            for hidden in (each for each in self.names() if posixpath.basename(each).startswith(PREFIX)):
                self._age(f"{self._top}/{hidden}")
        return HdfsPlace(self.uri(name), self.faults, wait=self.wait)

    def _age(self, path: str) -> None:
        """Have it be from yesterday."""
        found = self.client.status(path)
        assert found is not None, path
        modified_ms = found.modified_ms - round(LATER_S * 1_000)
        if isinstance(self.client, FakeHdfs):
            self.client.modified_ms[found.file_id] = modified_ms
        else:
            self.client._asked("PUT", path, "SETTIMES", modificationtime=str(modified_ms))

    def names(self) -> list[str]:
        """Files, and hidden directories."""
        found, directories = [], [""]
        for directory in directories:  # grows meanwhile
            for each in self._listed(directory):
                name = posixpath.join(directory, each.name)
                if each.is_directory:
                    directories.append(name)
                if not each.is_directory or each.name.startswith(PREFIX):
                    found.append(name)
        return sorted(found)

    def _listed(self, directory: str) -> list[Status]:
        try:
            found: list[Status] = self.client.listed(f"{self._top}/{directory}".rstrip("/"))
        except FileNotFoundError:
            return []
        return found

    def read(self, name: str) -> bytes:
        data: bytes = self.client.read(f"{self._top}/{name}")
        return data

    def write(self, name: str, data: bytes) -> None:
        self.client.write(f"{self._top}/{name}", data)

    def delete(self, name: str) -> None:
        self.client.delete(f"{self._top}/{name}", recursive=True)

    def gives_name(self, what: str) -> bool:
        return what.startswith("rename /.reserved")


FAKES: tuple[type[Storage], ...] = (Bucket, InHdfs)


def nth_upload(number: int) -> Callable[[str], bool]:
    """For `Storage.before`."""
    uploads = itertools.count(1)
    return lambda what: what.startswith("upload") and next(uploads) == number
