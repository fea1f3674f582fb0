"""Buckets of a stored result: within each subpartition rows lie as Spark's own hash partitioning would have them.

Spark plans a read of buckets as rows that were shuffled by these keys: what groups or joins by them shuffles nothing again.
It believes what it is told, so that the hash must be its own, of the values in their own type. What it compares as another
type it shuffles as before.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_OF_FILE = re.compile(r"_(\d+)\.\w+$")
"""The end of a file's name, as Spark has it."""
_FILES_MAX = 64
"""Files that one of Spark's tasks writes at a time."""
_BYTES_MIN, _BYTES_MAX = 1 << 20, 256 << 20
"""Of a bucket, which is one partition of Spark's: what is less on average Spark brings together when it has shuffled it
(`spark.sql.adaptive.coalescePartitions.minPartitionSize`), and of what is more it makes better ones itself."""
_UNEVEN = 1.5
"""The largest bucket may be so many times as large as they are on average: a core is not to work alone at the end."""


class Buckets(msgspec.Struct, frozen=True):
    """Number of a subpartition's buckets, and positions of the columns that are hashed, in their order."""

    number: int = 1
    keys: tuple[int, ...] = ()

    def options(self) -> dict[str, str]:
        """How our data source is told of them."""
        return {"buckets": str(self.number), "keys": ",".join(f"c{position}" for position in self.keys)}


NONE = Buckets()


def buckets_for(keys: Sequence[int], subpartitions: int, cores: int) -> Buckets:
    """Two for each core that is to read them, or one where that would be too many files."""
    fitting = (each for each in (2 * cores, cores) if each * subpartitions <= _FILES_MAX)
    number = next(fitting, 1) if keys else 1
    return Buckets(number, tuple(keys)) if number > 1 else NONE


def placed(subpartition: Any, buckets: Buckets) -> Any:
    """The column that says to which bucket of which subpartition a row belongs: those of the first come first."""
    from pyspark.sql import functions as F

    if buckets == NONE:
        return subpartition
    bucket = F.pmod(F.hash(*(f"c{position}" for position in buckets.keys)), F.lit(buckets.number))
    return subpartition * F.lit(buckets.number) + bucket.cast("int")


def bucket_of(name: str) -> int:
    """The bucket that a file holds, by its name."""
    found = _OF_FILE.search(name)
    assert found is not None, f"not a file of a bucket: {name}"
    return int(found[1])


def common_buckets(sizes: Mapping[str, int], written: Sequence[Buckets], cores: int) -> Buckets:
    """The buckets as which these files are best read, NONE for as what they are otherwise: `sizes` in bytes, by name;
    `written` by each of the producers."""
    first, *others = written
    if first == NONE or first.number < cores or any(each != first for each in others):
        return NONE
    each = [0] * first.number
    for name, size in sizes.items():
        each[bucket_of(name)] += size
    mean = sum(each) / first.number
    return first if mean >= _BYTES_MIN and max(each) <= min(_BYTES_MAX, _UNEVEN * mean) else NONE
