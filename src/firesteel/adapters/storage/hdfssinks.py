"""Sinks that write to HDFS."""

import posixpath
import time
from collections.abc import Callable
from pathlib import Path

from firesteel.adapters.storage import renames, rivals
from firesteel.adapters.storage.errors import CommitRefused, TargetRefused, Unusable
from firesteel.adapters.storage.hdfsdirectories import HdfsDirectories
from firesteel.adapters.storage.hdfslocks import HdfsLocks
from firesteel.adapters.storage.hdfssettings import RPC_PORT
from firesteel.adapters.storage.hdfstree import HdfsTree
from firesteel.adapters.storage.lease import Lease, LeaseLost
from firesteel.adapters.storage.schemes import authority_and_path
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.adapters.storage.trees import holds_data
from firesteel.adapters.storage.webhdfs import WebHdfs
from firesteel.model.tasks import Committed, SinkCommit


class HdfsSinks(HdfsDirectories):
    """A `SinkStore` in one file system. Targets and locations are URIs, as Spark has them."""

    def __init__(
        self,
        client: WebHdfs,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(client, patient=False)
        self._clock, self._wait = clock, wait

    def resolve(self, path: str, base: Path, *, replaces: bool) -> str:
        authority, steps = authority_and_path(path)
        return f"hdfs://{authority}/{steps}"

    def place(self, target: str) -> str:
        authority, steps = authority_and_path(target)
        host, _, port = authority.lower().partition(":")
        return f"hdfs://{host}:{port or RPC_PORT}/{steps}"

    def staging(self, target: str, *steps: str) -> str:
        return posixpath.join(posixpath.dirname(target), STAGING_NAME, *steps)

    def holds_data(self, target: str) -> bool:
        return holds_data(self._tree, target)

    def prepare(self, target: str, staging: str) -> None:
        if (found := self._tree.status(target)) is not None and not found.is_directory:
            raise TargetRefused(f"{target} is a file, and rows are written into a directory; name another one")
        self._tree.make_directory(posixpath.dirname(staging))
        rivals.write_note(self._tree, target, staging)
        self._tree.check_heeds_options(staging + rivals.NOTE, target)

    def commit(self, commit: SinkCommit) -> Committed:
        place = self.place(commit.target)
        lock = f"{self.staging(commit.target)}/{rivals.lock_name(place)}.lock"
        locks = HdfsLocks(self._client, self._wait)
        path = f"/{authority_and_path(lock)[1]}"
        with Lease(locks, path, commit.commit_id, clock=self._clock, wait=self._wait) as lease:
            try:
                return renames.carry_out(HdfsTree(self._client, lease.check, wait=self._wait), commit)
            except CommitRefused:
                lease.check()  # who was late has no say: others have moved what it looked for
                raise

    def advice(self, error: OSError, target: str) -> str:
        text = str(error)
        shown = text if "://" in text else f"{target}: {text}"
        return shown if isinstance(error, Unusable | LeaseLost) else f"{shown}; nothing of it is visible: retry the job"
