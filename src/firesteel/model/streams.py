"""Streaming queries, as a master sees them."""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from firesteel.model.ids import JobID, RegionIndex


class QueryProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Progress of one sink's query, in the current attempt. Figures are of the batch that was done last. -1: not known."""

    uid: str
    """The sink's."""
    batch_id: int = -1
    """Last committed batch."""
    input_rows: int = 0
    """Rows that all batches of the attempt have read."""
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    batch_duration_ms: int = -1
    state_rows: int = -1
    """Rows in the state of all of its stateful operators."""
    state_bytes: int = -1
    watermark_ms: int = -1
    """Milliseconds since the epoch."""


AVAILABLE_NOW = -1
"""Trigger of a query that ends when it has read what was there at its start."""


class AfterSavepoint(Enum):
    """What becomes of a job when its savepoint is there."""

    GO_ON = "go-on"
    CANCEL = "cancel"
    STOP = "stop"
    """Its queries are stopped first, a batch in flight is abandoned; then it is FINISHED."""
    DRAIN = "drain"
    """The same, when they have read what is there."""

    @property
    def stops_first(self) -> bool:
        """Whether the savepoint is taken of queries that have ended."""
        return self in (AfterSavepoint.STOP, AfterSavepoint.DRAIN)


class SavepointQueries(msgspec.Struct, frozen=True, kw_only=True):
    """The queries of an attempt, whose points belong to a savepoint."""

    region: RegionIndex
    attempt: int
    uids: tuple[str, ...]


class SavepointOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A savepoint that a worker is to write. The same again is no other one."""

    savepoint_id: str
    location: str
    """Where it is to be: a directory, or a URI in a bucket or in HDFS."""
    queries: tuple[SavepointQueries, ...]
    job_name: str
    vertices: tuple[tuple[str, str], ...]
    """uid and name of each function."""
    checkpoints_dir: str = ""
    """The job's own `execution.checkpointing.dir`."""
    timeout_ms: int = 0
    """After this time it is given up, and is not to be made any more. 0: never."""


STATE_ROWS_MAX = 10_000
"""Most rows of state that are told in one answer."""


class StateQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a query's state that is to be read."""

    keys: dict[str, str] = {}
    """Columns of the key, with dots between the names of nested ones, and their values as text: as rows have it in JSON, or as
    Spark casts them; `null` for none. Only rows with all of them."""
    operator: int = 0
    """Stateful operators are numbered from 0 on, by Spark."""
    store: str = ""
    """Of a join `left` or `right`, of `transformWithState` the state variable; empty for the first."""
    limit: int = 100


class StateOrder(msgspec.Struct, frozen=True, kw_only=True):
    """State that a worker is to read: of a running job's query, or of one in a savepoint."""

    uid: str
    """The sink's; empty for the only query of a savepoint."""
    job_id: str = ""
    checkpoints_dir: str = ""
    """The job's own `execution.checkpointing.dir`."""
    savepoint: str = ""
    question: StateQuestion


class StateOperator(msgspec.Struct, frozen=True, kw_only=True):
    """One of a query's stateful operators."""

    number: int
    name: str
    """Spark's, like `stateStoreSave`."""
    stores: tuple[str, ...]
    """Names that `store` of a question may have; none where there is one store."""
    partitions: int


class QueryState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a query after its last committed batch."""

    uid: str
    batch_id: int
    operators: tuple[StateOperator, ...]
    rows: tuple[dict[str, Any], ...]
    """Of the operator and store that were asked for: `key`, `value` or what Spark has in its place, `partition_id`."""
    is_complete: bool
    """Whether these are all that there are."""


STREAM_FILES = "stream_files"
SPARK_FILES = "file sink"
"""Kinds of outputs that are files: of `fs.stream_files`, and of Spark's own sink."""
FAN_OUT = "fan_out"
"""Kind of the outputs of `fs.fan_out`."""
FOREACH_BATCH = "foreachBatch"
"""Kind of what a function is given batch by batch."""
HARMLESS = ("console", "memory", "noop")
"""Formats of sinks that two queries may have without harm to either."""


class StreamOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a streaming query writes, as far as it can be told."""

    kind: str
    """STREAM_FILES, SPARK_FILES, FAN_OUT, or Spark's word for any other sink."""
    place: str = ""
    """Of files: their directory, or its URI."""
    format: str = ""
    """Of files: `parquet`, `csv` ..."""
    mode: str = "append"
    options: dict[str, str] = {}
    """Options of the writer that matter to who reads the files: `header` and `sep` of CSV."""
    parts: dict[str, "StreamOutput"] = {}
    """Of FAN_OUT: its outputs, by name. They have none themselves."""

    def named(self) -> dict[str, "StreamOutput"]:
        """All that it writes to: its parts, or itself under an empty name."""
        return self.parts if self.kind == FAN_OUT else {"": self}

    def with_mode(self, mode: str) -> "StreamOutput":
        """The same, and its parts, written in that output mode."""
        parts = {name: each.with_mode(mode) for name, each in self.parts.items()}
        return msgspec.structs.replace(self, mode=mode, parts=parts)


def csv_options(given: Mapping[str, object]) -> dict[str, str]:
    """What whoever reads files of CSV needs to know of a writer's options: `header` where files begin with one, `sep` where it
    is no comma."""
    values = {name.lower(): str(value) for name, value in given.items()}
    separator = values.get("sep", values.get("delimiter", ","))
    has_header = values.get("header", "").lower() == "true"
    return ({"header": "true"} if has_header else {}) | ({"sep": separator} if separator != "," else {})


class QueryPosition(msgspec.Struct, frozen=True):
    """The end of a batch: what a query had read by then, as a text that is equal for two that have read the same."""

    batch: int
    read: str


class QuerySight(msgspec.Struct, frozen=True, kw_only=True):
    """A query as its worker finds it on the disk."""

    uid: str
    output: StreamOutput | None = None
    """None before it is known."""
    positions: tuple[QueryPosition, ...] = ()
    """The newest committed batches, in order; none where it can't be told what they have read."""


class QueriesOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Queries that a worker is to look at."""

    job_id: JobID
    uids: tuple[str, ...]
    savepoint: str = ""
    """Location of a savepoint of the job: then its queries as they are there."""
    checkpoints_dir: str = ""
    """The job's own `execution.checkpointing.dir`."""


def savepoint_name(job_id: str, savepoint_id: str) -> str:
    """Name of the directory of a savepoint: as in Flink, the job's id, cut off, and what tells it from others."""
    return f"savepoint-{job_id[:6]}-{savepoint_id[:12]}"


RETAINED_NAME = re.compile(r"chk-\d+-([0-9a-f]+)")
"""Names of retained checkpoints; the group is `ended_ms`."""


def retained_name(checkpoint_id: int, ended_ms: int) -> str:
    """Name of the directory of a checkpoint that stays when its job has ended: as in Flink, `chk-` and its number; and when that
    was, since a job of the same id may come later."""
    return f"chk-{checkpoint_id}-{ended_ms:x}"


class ClaimedSavepoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A savepoint that a job has claimed and needs no more, among locations that a worker is to delete."""

    job_id: JobID
    location: str
    is_given_back: bool = False
    """It stays, and is nobody's from here on: the job has nothing newer to go back to."""
    newer: str = ""
    """A retained checkpoint that is to be there first; where it is not, the savepoint is given back."""
    sinks: tuple[str, ...] = ()
    """uids of the job's sinks: `newer` has to have each of them that the savepoint has. Empty: any."""

    def reference(self) -> str:
        return _CLAIMED + msgspec.json.encode(self).decode()


def claimed_referred(location: str) -> ClaimedSavepoint | None:
    """What such a reference says; None for any other location."""
    text = location.removeprefix(_CLAIMED)
    return msgspec.json.decode(text, type=ClaimedSavepoint) if text != location else None


CHECKPOINTS_BELOW = "checkpoints"
"""Where checkpoints are in a directory that workers share for results."""
_CHECKPOINTS = "checkpoints"
_CLAIMED = "claimed-savepoint:"


def checkpoints_reference(job_id: JobID, checkpoints_dir: str) -> str:
    """Names all checkpoints of a job, among locations that a worker is to delete. The job's own `execution.checkpointing.dir`
    may be empty."""
    return f"{_CHECKPOINTS}:{job_id}:{checkpoints_dir}"


def checkpoints_referred(location: str) -> tuple[JobID, str] | None:
    """Job and directory of such a reference; None for any other location."""
    scheme, _, rest = location.partition(":")
    job_id, _, directory = rest.partition(":")
    return (JobID(job_id), directory) if scheme == _CHECKPOINTS else None
