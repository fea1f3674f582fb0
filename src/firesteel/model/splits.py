"""Input splits: how a source declares them, what an enumeration finds, and what a subtask is given.

The names are Flink's: an input format creates input splits. The master reads weights and hosts, and nothing else.
"""

from collections.abc import Mapping
from typing import Union, assert_never

import msgspec

MAX_SPLITS = 100_000
"""Input splits of one source."""


class ParameterReference(msgspec.Struct, frozen=True, tag="parameter"):
    """Stands for the value of a job parameter; for `default` when there is none."""

    name: str
    default: int | str | None = None


SplitArgument = Union[int, str, ParameterReference]


# ── what a source declares ───────────────────────────────────────────────────────────────────
class FileInputFormat(msgspec.Struct, frozen=True, kw_only=True, tag="files"):
    """The files that `spark.read.load(path, format, schema, **options)` reads."""

    path: str | ParameterReference
    format: str
    schema: str = ""
    """Schema as DDL text; empty: found out once, by the enumeration."""
    options: dict[str, str] = {}
    split_mib: int


class RangeInputFormat(msgspec.Struct, frozen=True, kw_only=True, tag="range"):
    """Ranges of a numeric column, cut as Spark's JDBC source cuts them."""

    column: str
    lower: int | ParameterReference
    upper: int | ParameterReference
    count: int | ParameterReference


class DateInputFormat(msgspec.Struct, frozen=True, kw_only=True, tag="dates"):
    """The days from `start` until before `end`, `days` in a split."""

    start: str | ParameterReference
    end: str | ParameterReference
    days: int = 1


class KafkaInputFormat(msgspec.Struct, frozen=True, kw_only=True, tag="kafka"):
    """The records that topics hold, from one offset of each partition until before another."""

    servers: str | ParameterReference
    topics: str | ParameterReference
    """Names between commas."""
    starting: str | ParameterReference
    ending: str | ParameterReference
    """`earliest`, `latest`, a time, or offsets as JSON: `pipeline/kafkasplits.py` reads it."""
    split_records: int
    properties: dict[str, str] = {}
    """The Kafka client's own, without secrets."""
    options: dict[str, str] = {}


InputFormat = Union[FileInputFormat, RangeInputFormat, DateInputFormat, KafkaInputFormat]


def places_read(declared: InputFormat, parameters: Mapping[str, object]) -> tuple[str, ...]:
    """URIs and paths of what it reads, as far as it says so: ranges and days say which rows, not of what."""

    def value(text: str | ParameterReference) -> str:
        return str(parameters.get(text.name, text.default or "")) if isinstance(text, ParameterReference) else text

    match declared:
        case FileInputFormat(path=path):
            return (value(path),) if value(path) else ()
        case KafkaInputFormat(servers=servers, topics=topics):
            server = value(servers).split(",")[0].strip()
            return tuple(f"kafka://{server}/{topic.strip()}" for topic in value(topics).split(",") if topic.strip())
        case RangeInputFormat() | DateInputFormat():
            return ()
        case _:
            assert_never(declared)


def is_moving(declared: InputFormat) -> bool:
    """Whether who looks later finds something else: then it is found once a job, and drawn, also by a single subtask."""
    return isinstance(declared, KafkaInputFormat)


# ── what an enumeration finds ────────────────────────────────────────────────────────────────
class Split(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields that every input split has."""

    weight: int = 1
    """Share of the work, in any unit that is the same for all splits of a source."""
    hosts: tuple[str, ...] = ()
    """Hosts with its data, when the storage says so."""


class FileInputSplit(Split, frozen=True, tag="files"):
    """Whole files. `weight` is in bytes, with what it costs to open each."""

    files: tuple[str, ...]
    """Paths as Spark names them, not encoded."""


class RangeInputSplit(Split, frozen=True, tag="range"):
    """`lower` <= value < `upper`. The first split has the nulls and what is below, the last what is above."""

    lower: int
    upper: int
    is_first: bool
    is_last: bool


class DateInputSplit(Split, frozen=True, tag="dates"):
    """`days` days from `start`, an ISO date, on."""

    start: str
    days: int


class KafkaInputSplit(Split, frozen=True, tag="kafka"):
    """Offsets `start` <= offset < `end` of a partition. `weight` is their number: of records there may be fewer."""

    topic: str
    partition: int
    start: int
    end: int


InputSplit = Union[FileInputSplit, RangeInputSplit, DateInputSplit, KafkaInputSplit]


class SplitEnumeration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All splits of a source, the heaviest first."""

    splits: tuple[InputSplit, ...]
    schema: str = ""
    """Schema of what Spark reads from all files, as JSON. So no split has a schema of its own."""
    batch_weight: int = 1
    """Less than this is not worth a query of its own."""


# ── what a subtask is given ──────────────────────────────────────────────────────────────────
class DrawnSplits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Draw `number` of an attempt, counted from 0."""

    number: int
    splits: tuple[InputSplit, ...] = ()
    schema: str = ""
    is_end: bool = False
    """There is no more. When an attempt has had nothing at all, `splits` has one whose rows are not wanted, so that
    it can still find out its result's columns."""
