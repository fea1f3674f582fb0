"""Storages of results, for tests of what is stored."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.spark.exchange import buckets, partitions
from firesteel.adapters.spark.exchange.partitions import StoredResults

CORES = 2
"""Of the JVM that Spark's tasks run in."""


@contextlib.contextmanager
def always_in_buckets() -> Iterator[None]:
    """What has buckets is read so, also where it is tiny and uneven."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "_SMALL_BYTES", 0)
        patch.setattr(buckets, "_BYTES_MIN", 0)
        patch.setattr(buckets, "_UNEVEN", math.inf)
        yield


class Storage:
    """Where a test stores results: in a directory, in our form if Spark's tasks know our classes."""

    def __init__(self, root: str, *, has_classes: bool = True) -> None:
        self.root, self.has_classes = root, has_classes
        self.settings: dict[str, str] = {}

    @property
    def holds_rows(self) -> bool:
        """Whether results are in our form there: as files of a directory only."""
        return self.has_classes and "://" not in self.root

    @property
    def results(self) -> StoredResults:
        """As an attempt has them that has read nothing yet."""
        return StoredResults(self.settings, jvm_cores=CORES if self.has_classes else 0)

    def delete(self, location: str, name: str) -> None:
        Path(location, name).unlink()
