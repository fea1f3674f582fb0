"""Sinks that write to a bucket."""

import io
import posixpath
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from firesteel.adapters.storage import rivals
from firesteel.adapters.storage.errors import CommitRefused, TargetRefused, Unusable
from firesteel.adapters.storage.keys import Keys, Patient
from firesteel.adapters.storage.lease import Lease
from firesteel.adapters.storage.objectcommit import ObjectCommit, key_of, remove_staged, write_note
from firesteel.adapters.storage.schemes import bucket_and_path, scheme_name, scheme_of
from firesteel.adapters.storage.sinkstore import STAGING_NAME, is_hidden
from firesteel.model.tasks import SinkCommit

END_BYTES = 1024 * 1024
"""Of a file whose end is wanted: a footer is seldom larger."""


class ObjectSinks:
    """A `SinkStore` in one bucket. Targets keep the scheme that the user has written; locations are s3://."""

    def __init__(
        self, keys: Keys, *, clock: Callable[[], float] = time.monotonic, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._keys, self._clock, self._wait = keys, clock, wait

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

    def as_spark(self, staging: str) -> str:
        return f"{scheme_of(staging).spark}://{'/'.join(bucket_and_path(staging))}"

    def files(self, staging: str) -> dict[str, int]:
        prefix = f"{key_of(staging)}/"
        below = ((each.key.removeprefix(prefix), each.size_bytes) for each in self._keys.found(prefix))
        return {
            name: size for name, size in below if name and not any(map(is_hidden, name.split("/"))) and name[-1] != "/"
        }

    def end_of(self, staging: str, name: str) -> BinaryIO:
        key = f"{key_of(staging)}/{name}"
        (found,) = self._keys.found(key, at_most=1)
        return io.BytesIO(self._keys.get_range(key, max(0, found.size_bytes - END_BYTES), found.size_bytes))

    def commit(self, commit: SinkCommit) -> str:
        target = self.place(commit.target)
        lock = f"{key_of(self.staging(target))}/{rivals.lock_name(target)}.lock"
        calm = Patient(self._keys, lambda: None, self._wait)
        with Lease(calm, lock, commit.commit_id, clock=self._clock, wait=self._wait) as lease:
            try:
                return ObjectCommit(commit, Patient(self._keys, lease.check, self._wait), lease.check).carry_out()
            except CommitRefused:
                lease.check()  # who was late has no say: others have moved what it looked for
                raise

    def remove(self, location: str) -> None:
        remove_staged(self._keys, key_of(location))

    def advice(self, error: OSError, target: str) -> str:
        text = str(error)
        shown = text if "://" in text else f"{target}: {text}"
        return shown if isinstance(error, Unusable) else f"{shown}; its output is still staged: retry the job"

    def _is_object(self, key: str) -> bool:
        return any(each.key == key for each in self._keys.found(key, at_most=1))
