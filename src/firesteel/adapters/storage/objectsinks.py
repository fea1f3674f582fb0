"""Sinks that write to a bucket."""

import posixpath
import time
from collections.abc import Callable
from pathlib import Path

from firesteel.adapters.storage import rivals
from firesteel.adapters.storage.errors import CommitRefused, TargetRefused, Unusable
from firesteel.adapters.storage.keys import Keys, Patient
from firesteel.adapters.storage.lease import Lease, LeaseLost
from firesteel.adapters.storage.objectcommit import ObjectCommit, key_of, write_note
from firesteel.adapters.storage.objectdirectories import ObjectDirectories
from firesteel.adapters.storage.schemes import bucket_and_path, scheme_name
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.model.tasks import Committed, SinkCommit


class ObjectSinks(ObjectDirectories):
    """A `SinkStore` in one bucket. Targets keep the scheme that the user has written; locations are s3://."""

    def __init__(
        self, keys: Keys, *, clock: Callable[[], float] = time.monotonic, wait: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(keys)
        self._clock, self._wait = clock, wait

    def resolve(self, path: str, base: Path, *, replaces: bool) -> str:
        bucket, steps = bucket_and_path(path)
        return f"{scheme_name(path)}://{bucket}/{steps}"

    def place(self, target: str) -> str:
        bucket, steps = bucket_and_path(target)
        return f"s3://{bucket}/{steps}"

    def staging(self, target: str, *steps: str) -> str:
        bucket, key = bucket_and_path(target)
        return f"s3://{bucket}/{posixpath.join(posixpath.dirname(key), STAGING_NAME, *steps)}"

    def holds_data(self, target: str) -> bool:
        key = key_of(target)
        return self._is_object(key) or any(each.key != f"{key}/" for each in self._keys.found(f"{key}/", at_most=2))

    def prepare(self, target: str, staging: str) -> None:
        if self._is_object(key_of(target)):
            raise TargetRefused(f"{target} is an object, and rows are written below a path; name another one")
        write_note(self._keys, target, staging)

    def commit(self, commit: SinkCommit) -> Committed:
        target = self.place(commit.target)
        lock = f"{key_of(self.staging(target))}/{rivals.lock_name(target)}.lock"
        calm = Patient(self._keys, lambda: None, self._wait)
        with Lease(calm, lock, commit.commit_id, clock=self._clock, wait=self._wait) as lease:
            try:
                return ObjectCommit(commit, Patient(self._keys, lease.check, self._wait), lease.check).carry_out()
            except CommitRefused:
                lease.check()  # who was late has no say: others have moved what it looked for
                raise

    def advice(self, error: OSError, target: str) -> str:
        text = str(error)
        shown = text if "://" in text else f"{target}: {text}"
        if isinstance(error, Unusable | LeaseLost):
            return shown
        return f"{shown}; retry the job. Who lists the target may find some of its rows, in copies that no record names"

    def _is_object(self, key: str) -> bool:
        return any(each.key == key for each in self._keys.found(key, at_most=1))
