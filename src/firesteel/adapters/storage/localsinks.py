"""Sinks that write to directories of this machine, or mounted on it."""

import os
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from firesteel.adapters.storage import local
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.rivals import write_note
from firesteel.adapters.storage.sinkstore import STAGING_NAME, is_hidden
from firesteel.model.tasks import SinkCommit


class LocalSinks:
    """A `SinkStore`. Targets and locations are absolute paths."""

    def resolve(self, path: str, base: Path, *, replaces: bool) -> str:
        found = local_path(path, base)
        if os.path.ismount(found):
            raise TargetRefused(f"{found} is a mount point; write to a directory below it")
        if replaces and base.resolve().is_relative_to(found):
            raise TargetRefused(
                f"{found} is where the job was submitted, or holds that, and would be replaced: write to a directory below it"
            )
        return str(found)

    def place(self, target: str) -> str:
        return target

    def staging(self, target: str, *steps: str) -> str:
        return str(Path(target).parent.joinpath(STAGING_NAME, *steps))

    def holds_data(self, target: str) -> bool:
        return local.holds_data(Path(target))

    def prepare(self, target: str, staging: str) -> None:
        # Not Spark: other jobs that end remove a directory that they share with this one and is empty.
        local.make_directory(Path(staging).parent)
        write_note(Path(target), Path(staging))

    def as_spark(self, staging: str) -> str:
        return staging

    def files(self, staging: str) -> dict[str, int]:
        found = {}
        for parent, directories, names in os.walk(staging):
            directories[:] = [name for name in directories if not is_hidden(name)]
            for path in (os.path.join(parent, name) for name in names if not is_hidden(name)):
                found[os.path.relpath(path, staging)] = os.stat(path).st_size
        return found

    def end_of(self, staging: str, name: str) -> BinaryIO:
        return open(Path(staging, name), "rb")

    def commit(self, commit: SinkCommit) -> str:
        # All parts are staged beside one target, so on one file system.
        return local.commit(commit, as_path(commit.target), as_path(commit.staging))

    def remove(self, location: str) -> None:
        local.remove(as_path(location))

    def advice(self, error: OSError, target: str) -> str:
        return local.advice(error, as_path(target))


def local_path(path: str, base: Path) -> Path:
    """`path` or `file:` URI as an absolute path with links resolved, so that a swap replaces data and not a link.

    Raises TargetRefused.
    """
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise TargetRefused(f"{parts.scheme}:// is not supported here yet, only local paths: {path}")
    plain = unquote(parts.path) if parts.scheme == "file" else path
    if not plain.strip():
        raise TargetRefused(f"the target {path!r} names no path: is a parameter or a variable empty?")
    return Path(os.path.realpath(base / os.path.expanduser(plain)))


def as_path(location: str) -> Path:
    """The path that an absolute path or `file:` URI names."""
    parts = urlsplit(location)
    return Path(unquote(parts.path) if parts.scheme == "file" else location)
