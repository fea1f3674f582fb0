"""Sinks that write to directories of this machine, or mounted on it."""

import os
from pathlib import Path

from firesteel.adapters.storage import local
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.localdirectories import LocalDirectories, as_path, written_path
from firesteel.adapters.storage.rivals import write_note
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.adapters.storage.trees import holds_data
from firesteel.model.tasks import Committed, SinkCommit


class LocalSinks(LocalDirectories):
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
        return holds_data(local.TREE, target)

    def prepare(self, target: str, staging: str) -> None:
        # Not Spark: other jobs that end remove a directory that they share with this one and is empty.
        local.make_directory(Path(staging).parent)
        write_note(local.TREE, target, staging)

    def commit(self, commit: SinkCommit) -> Committed:
        # All parts are staged beside one target, so on one file system.
        return local.commit(commit, as_path(commit.target), as_path(commit.staging))

    def advice(self, error: OSError, target: str) -> str:
        return local.advice(error, as_path(target))


def local_path(path: str, base: Path) -> Path:
    """`path` or `file:` URI as an absolute path with links resolved, so that a swap replaces data and not a link.

    Raises TargetRefused.
    """
    scheme, plain = written_path(path)
    if scheme not in ("", "file"):
        raise TargetRefused(f"{scheme}:// is not supported here yet, only local paths: {path}")
    if not plain.strip():
        raise TargetRefused(f"the target {path!r} names no path: is a parameter or a variable empty?")
    return Path(os.path.realpath(base / os.path.expanduser(plain)))
