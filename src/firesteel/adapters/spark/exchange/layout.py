"""The layout of a stored result for its consumers: which row goes into which subpartition.

Keys are hashed as one canonical type per family, so that equal keys of different producers meet: an int and a
bigint of equal value have different hashes in Spark. What is equal by a collation has one hash in Spark's partitioning, and
only there: hash() and xxhash64() look at the bytes. The hash is not the one Spark's own shuffles use, but begins with a
constant: a share whose keys have equal remainders would else fill only some of the consumer's shuffle partitions, and of its
buckets.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from firesteel.adapters.spark.exchange.buckets import NONE, Buckets, buckets_for, placed
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.model.ids import DataSetID
from firesteel.model.jobgraph import ExchangeMode, JobEdge, JobGraph, JobVertex, Partitioner

SUBPARTITION = "subpartition"
"""Column that says where a row belongs. Spark makes a directory of each of its values; it is in no file."""
UNSHUFFLED_MAX = 8
"""For up to so many subpartitions each of Spark's tasks writes a file for each it meets. For more the rows are shuffled first,
and there is a file a subpartition: 200 tasks and 100 subpartitions would make 20,000."""
_SALT = 0xF1E57EE1
"""First value in the hash of every key."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a data set, one for all its consumers."""

    subpartitions: int = 1
    keys: tuple[str, ...] = ()
    """Columns to hash by; none: rows are spread evenly."""
    consumer: str = ""
    """The function that wants it so, with its place, for messages."""

    def shown(self, key: str) -> str:
        """How the user's code asks for `key`."""
        return f"hash_by({key!r}) of {self.consumer}" if self.consumer else f"hash_by({key!r})"


WHOLE = Layout()


def layout_of(graph: JobGraph, dataset: DataSetID) -> Layout | None:
    """The layout its blocking readers expect, or None when it has none."""
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    for edge in graph.edges:
        if edge.source == dataset and edge.exchange is ExchangeMode.BLOCKING:
            consumers = vertices[edge.target].parallelism
            if consumers == 1 or edge.partitioner in (Partitioner.FORWARD, Partitioner.BROADCAST):
                return WHOLE
            if edge.partitioner is not Partitioner.HASH:
                return Layout(consumers)
            return Layout(consumers, edge.keys, _shown_consumer(graph, edge, vertices[edge.target]))
    return None


def _shown_consumer(graph: JobGraph, edge: JobEdge, vertex: JobVertex) -> str:
    name = next(dataset.name for dataset in graph.datasets if dataset.id == edge.source)
    reader = next((function for function in vertex.functions if name in function.inputs), vertex.functions[0])
    return f"{reader.name} ({reader.location})" if reader.location else reader.name


class Spread(NamedTuple):
    """A frame whose rows know where they belong."""

    frame: Any
    """With the column SUBPARTITION when there are several, which says the bucket, too, where there are buckets."""
    key_types: tuple[str, ...] = ()
    files_open: int = 1
    """Files that one of Spark's tasks writes at a time."""
    key_column_types: tuple[str, ...] = ()
    buckets: Buckets = NONE


def spread(frame: Any, schema: Any, names: tuple[str, ...], layout: Layout, *, cores: int = 0) -> Spread:
    """`frame`, whose columns are `c0`, `c1`, ..., laid out, in buckets for so many cores. `names` and `schema` are the user's.

    A row belongs where Spark's `repartition(subpartitions, ...)` would put it. For a few subpartitions that is computed and
    nothing shuffled. Raises PipelineRefused for a key that can't be hashed.
    """
    if layout.subpartitions == 1:
        return Spread(frame)
    from pyspark.sql import functions as F

    positions = [key_position(key, names, layout) for key in layout.keys]
    types = [schema.fields[position].dataType for position in positions]
    families = tuple(
        _family(layout.shown(names[position]), each) for position, each in zip(positions, types, strict=True)
    )
    shown = tuple(each.simpleString() for each in types)
    hashed: list[Any] = [F.lit(_SALT)] if positions else []
    for position, family in zip(positions, families, strict=True):
        hashed += _canonical(F.col(f"c{position}"), family)
    if layout.subpartitions > UNSHUFFLED_MAX or any(" collate " in family for family in families):
        shuffled = frame.repartition(layout.subpartitions, *hashed)
        return Spread(shuffled.withColumn(SUBPARTITION, F.spark_partition_id()), families, key_column_types=shown)
    turn = F.hash(*hashed) if hashed else F.monotonically_increasing_id() + F.spark_partition_id()
    buckets = buckets_for(positions, layout.subpartitions, cores)
    where = placed(F.pmod(turn, F.lit(layout.subpartitions)).cast("int"), buckets)
    files_open = layout.subpartitions * buckets.number
    return Spread(frame.withColumn(SUBPARTITION, where), families, files_open, shown, buckets)


def key_position(key: str, names: tuple[str, ...], layout: Layout = WHOLE) -> int:
    found = [index for index, name in enumerate(names) if name == key]
    found = found or [index for index, name in enumerate(names) if name.lower() == key.lower()]
    if len(found) == 1:
        return found[0]
    problem = "there is no such column" if not found else "several columns have that name"
    raise PipelineRefused(f"its result is to be distributed by {layout.shown(key)}, but {problem}: {', '.join(names)}")


def _family(shown: str, data_type: Any) -> str:
    """The canonical type of a key column: types of one family compare equal by value. `shown`: what asks for it."""
    from pyspark.sql import types as T

    match data_type:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return "bigint"
        case T.FloatType() | T.DoubleType():
            return "double"
        case T.DecimalType() | T.StringType():
            return str(data_type.simpleString())
        case T.BooleanType() | T.DateType() | T.TimestampType() | T.TimestampNTZType() | T.BinaryType():
            return str(data_type.typeName())
        case T.DayTimeIntervalType():
            return "interval day to second"
        case T.YearMonthIntervalType():
            return "interval year to month"
        case T.NullType():
            return "void"
        case _:
            pass
    raise PipelineRefused(
        f"{shown}: a column of type {data_type.simpleString()} can't be a key;"
        " use numbers, text, booleans, dates, timestamps, intervals or binary"
    )


def _canonical(column: Any, family: str) -> list[Any]:
    """Columns that are hashed for a key: functions of its value alone, not of its width or scale."""
    if family in ("bigint", "double"):  # the hash itself takes -0.0 for 0.0, and every NaN for one
        return [column.cast(family)]
    if family.startswith("decimal"):  # rounding to a fixed scale depends on the value only; what is too large is null
        return [column.try_cast("decimal(38,6)"), column.try_cast("decimal(38,18)")]
    return [column]
