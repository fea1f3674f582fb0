"""Files of stored results, without Spark: which a consumer reads, whether they are there, how many rows they hold.

The manifest beside the files says which are whose. It is written last, so a result without one is not there.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from firesteel.adapters.spark.exchange.buckets import NONE, Buckets
from firesteel.adapters.spark.exchange.forms import Counted, counted, form_of, may_be_counted
from firesteel.adapters.spark.refusals import StorageFailed
from firesteel.adapters.storage.directories import Directories
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.model.stored import UNREADABLE, StoredRecord
from firesteel.model.tasks import ResultPartition

MANIFEST_FILE = "_firesteel.json"
"""Spark ignores names that begin with an underscore."""

R = TypeVar("R")


class Manifest(StoredRecord, frozen=True, kw_only=True):
    """Contents of the files in a result's directory."""

    schema: str
    """Spark's, as JSON: of the files, columns by position."""
    voids: tuple[int, ...]
    """Positions of columns that hold nothing but null, and have the type void."""
    files: tuple[tuple[str, ...], ...]
    """Names of files by subpartition."""
    ordered: bool = False
    """The rows are in an order that their producer has given them: that of the files' names, and of each file."""
    buckets: Buckets = NONE
    row_bytes: int = 0
    """What all rows have in memory, 0 when that is not known."""


class Share(NamedTuple):
    """What one consumer subtask reads of one producer's result."""

    location: str
    """As Spark names it."""
    manifest: Manifest
    sizes: dict[str, int]
    """Of its files, in their order."""


class PartitionLost(Exception):
    """A registered result is not where it was: its producer must run again."""

    def __init__(self, location: str) -> None:
        super().__init__(f"the stored result {location} is gone")
        self.location = location


class ResultsUnreachable(StorageFailed):
    """The storage of results does not answer, or says no: nobody's fault who has written the pipeline."""


class ResultFiles:
    """Stored results of one job, for one attempt. `directories_at` gives what serves a location. Blocking.

    Raises ResultsUnreachable.
    """

    def __init__(self, directories_at: Callable[[str], Directories]) -> None:
        self._at = directories_at
        self._manifests: dict[str, Manifest] = {}
        """Those that were read: they don't change."""

    def written(self, location: str) -> dict[str, int]:
        """Sizes of the files that Spark has written there, in the order of its tasks."""
        with _told():
            found = self._at(location).files(location)
        return {name: found[name] for name in sorted(found, key=_place_of_task) if form_of(name)}

    def as_spark(self, location: str) -> str:
        return self._at(location).as_spark(location)

    def describe(self, location: str, manifest: Manifest) -> None:
        """From here on the result is there."""
        with _told():
            self._at(location).write(location, MANIFEST_FILE, msgspec.json.encode(manifest))

    def check_there(self, stored: Sequence[ResultPartition], shares: range | None) -> list[Share]:
        """What a consumer that has these shares reads of each producer, or all when it is None. Raises PartitionLost when a
        file of that is gone.

        Spark itself fails of a file that is gone, as of any error; this says which result it was. It is asked before a
        query is made and when it has ended.
        """
        with _told():
            return self._each(stored, partial(self._share, shares=shares))

    def rows_of(self, stored: Sequence[ResultPartition], shares: range) -> int:
        """Number of rows of these results that a consumer that has these shares reads, -1 when they are not counted."""
        if all(partition.subpartitions == 1 for partition in stored):
            return -1 if any(partition.rows < 0 for partition in stored) else sum(each.rows for each in stored)
        with _told():
            named = [(each, names_of(each, self._manifest(each), shares)) for each in stored]
        if not may_be_counted(name for _, names in named for name in names):
            return -1
        counts = [self.counted(partition.location, names).rows for partition, names in named]
        return -1 if min(counts) < 0 else sum(counts)

    def counted(self, location: str, names: Iterable[str]) -> Counted:
        """What these files hold."""
        return counted(partial(self._at(location).end_of, location), tuple(names))

    def _share(self, partition: ResultPartition, shares: range | None) -> Share:
        manifest, directories = self._manifest(partition), self._at(partition.location)
        names = names_of(partition, manifest, shares)
        sizes = directories.sizes(partition.location, names)
        if len(sizes) < len(names):
            raise PartitionLost(partition.location)
        return Share(directories.as_spark(partition.location), manifest, sizes)

    def _manifest(self, partition: ResultPartition) -> Manifest:
        location = partition.location
        if location not in self._manifests:
            try:
                data = self._at(location).read(location, MANIFEST_FILE)
                self._manifests[location] = msgspec.json.decode(data, type=Manifest)
            except (FileNotFoundError, *UNREADABLE):  # gone, torn by a power cut, or of another version
                raise PartitionLost(location) from None
        return self._manifests[location]

    def _each(self, stored: Sequence[ResultPartition], call: Callable[[ResultPartition], R]) -> list[R]:
        at_once = min((self._at(each.location).at_once for each in stored[:1]), default=1)
        if at_once == 1 or len(stored) == 1:
            return [call(each) for each in stored]
        with ThreadPoolExecutor(at_once, thread_name_prefix="look-at-results") as threads:
            return list(threads.map(call, stored))


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (OSError, TargetRefused) as error:
        raise ResultsUnreachable(f"the storage of results: {error}") from None


def names_of(partition: ResultPartition, manifest: Manifest, shares: range | None) -> tuple[str, ...]:
    """Files of it that a consumer that has these shares reads, or all when it is None."""
    chosen = manifest.files
    if shares is not None and partition.subpartitions > 1:
        chosen = chosen[shares.start : shares.stop]
    return tuple(name for names in chosen for name in names)


def _place_of_task(name: str) -> tuple[int, str]:
    """From 100,000 on numbers of tasks have more digits."""
    number = name.rpartition("/")[2].split("-")[1:2]
    return len("".join(number)), name
