"""Directories of archives, by URI."""

from collections.abc import Mapping
from pathlib import Path

from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.files import DirectoryFiles, Files, ObjectFiles
from firesteel.adapters.storage.localdirectories import as_path
from firesteel.adapters.storage.s3 import NotInstalled, S3Objects
from firesteel.adapters.storage.s3settings import S3Access
from firesteel.adapters.storage.schemes import bucket_and_path, scheme_of
from firesteel.model.options import ConfigurationError


def archive_files(key: str, uri: str, settings: Mapping[str, str], cache: Path) -> Files:
    """The files at a URI, that of option `key`. `settings` are those of `hadoop_settings`, `cache` a directory of this process.

    Raises ConfigurationError.
    """
    try:
        if scheme_of(uri).ours == "local":
            directory = as_path(uri)
            if not directory.is_absolute():
                raise ConfigurationError(f"{key}: {uri!r} is no absolute path, and no URI like s3://BUCKET/PATH")
            return DirectoryFiles(directory)
        if scheme_of(uri).ours != "s3":
            raise ConfigurationError(f"{key}: {uri}: archives are kept in paths and in s3://, not elsewhere yet")
        bucket, path = bucket_and_path(uri)
        return ObjectFiles(S3Objects(bucket, f"{path}/", S3Access.of(settings).obstore()), "", cache)
    except (TargetRefused, NotInstalled) as error:
        raise ConfigurationError(f"{key}: {error}") from None
    except ValueError as error:
        raise ConfigurationError(f"{key}: {error}") from None
