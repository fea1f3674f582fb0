"""What serves a URI, by the table in `schemes`: a store for sinks, or directories for whatever Spark writes and reads."""

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from firesteel.adapters.storage.directories import Directories
from firesteel.adapters.storage.keys import Keys, Patient
from firesteel.adapters.storage.localdirectories import LocalDirectories
from firesteel.adapters.storage.localsinks import LocalSinks
from firesteel.adapters.storage.schemes import authority_and_path, bucket_and_path, scheme_of
from firesteel.adapters.storage.sinkstore import SinkStore

if TYPE_CHECKING:
    from firesteel.adapters.storage.webhdfs import WebHdfs

NOTHING_SET: Mapping[str, str] = {}
"""`settings`, here and elsewhere, are those of `hadoop_settings`."""
_NOBODYS = "_firesteel_nobodys"
"""Name of nothing."""
_BY_SPARK = "; let Spark write there itself, with df.write in a sink that is declared idempotent=True"


def sink_store(uri: str, settings: Mapping[str, str] = NOTHING_SET) -> SinkStore:
    """What serves sinks at this URI. Raises TargetRefused."""
    ours = scheme_of(uri, instead=_BY_SPARK).ours
    if ours == "local":
        return LocalSinks()
    if ours == "hdfs":
        from firesteel.adapters.storage.hdfssinks import HdfsSinks

        return HdfsSinks(hdfs_of(uri, settings))
    from firesteel.adapters.storage.objectsinks import ObjectSinks

    return ObjectSinks(keys_of(uri, settings))


def directories_at(uri: str, settings: Mapping[str, str] = NOTHING_SET, *, patient: bool = True) -> Directories:
    """What serves directories at this URI; it waits for a busy storage if it is `patient`. Raises TargetRefused."""
    ours = scheme_of(uri).ours
    if ours == "local":
        return LocalDirectories()
    if ours == "hdfs":
        from firesteel.adapters.storage.hdfsdirectories import HdfsDirectories

        return HdfsDirectories(hdfs_of(uri, settings), patient=patient)
    from firesteel.adapters.storage.objectdirectories import ObjectDirectories

    keys = keys_of(uri, settings)
    return ObjectDirectories(Patient(keys, lambda: None) if patient else keys)


def check_takes_writes(storage: str, settings: Mapping[str, str] = NOTHING_SET) -> None:
    """Ask for what changes nothing, once: of a NameNode for a write, to which it says no in safe mode. `storage` is one of
    `storage_of`. Raises OSError, and ValueError where its name is none that could be asked."""
    if scheme_of(storage).ours == "hdfs":
        hdfs_of(f"{storage}/{_NOBODYS}", settings).make_directory("/")
    else:
        with contextlib.suppress(FileNotFoundError):  # a tenth of the price of a listing
            keys_of(f"{storage}/{_NOBODYS}", settings).get(_NOBODYS)


def hdfs_of(uri: str, settings: Mapping[str, str] = NOTHING_SET) -> "WebHdfs":
    """The client of an `hdfs://` URI's file system. Raises TargetRefused."""
    from firesteel.adapters.storage.hdfssettings import addresses_of, user_name
    from firesteel.adapters.storage.webhdfs import web_hdfs

    authority, _ = authority_and_path(uri)
    return web_hdfs(authority, addresses_of(uri, settings), user_name(os.environ))


def keys_of(uri: str, settings: Mapping[str, str] = NOTHING_SET) -> Keys:
    """The bucket of an `s3://` or `s3a://` URI. Raises TargetRefused."""
    from firesteel.adapters.storage.s3keys import S3Keys
    from firesteel.adapters.storage.s3settings import S3Access

    bucket, _ = bucket_and_path(uri)
    return S3Keys(bucket, S3Access.of(settings))
