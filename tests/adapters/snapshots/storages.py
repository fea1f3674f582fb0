"""Storages for savepoints, in memory and of a server: buckets, whose requests fail or are the last."""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from firesteel.adapters.spark.streams.snapshots import remoteplace
from firesteel.adapters.spark.streams.snapshots.bucketplace import BucketPlace
from firesteel.adapters.spark.streams.snapshots.manifest import MANIFEST
from firesteel.adapters.spark.streams.snapshots.places import SavepointPlace
from firesteel.adapters.spark.streams.snapshots.savepoints import read_manifest
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


FAKES: tuple[type[Storage], ...] = (Bucket,)


def nth_upload(number: int) -> Callable[[str], bool]:
    """For `Storage.before`."""
    uploads = itertools.count(1)
    return lambda what: what.startswith("upload") and next(uploads) == number
