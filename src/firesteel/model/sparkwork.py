"""What Spark tells of an attempt's work: its queries with their plans and figures, and the stages that these came to."""

from collections.abc import Sequence

import msgspec

from firesteel.model.ids import RegionAttemptID


def operation_tag(attempt: RegionAttemptID) -> str:
    """The tag of all that an attempt has Spark do; Spark puts it at the end of its own."""
    return f"firesteel-{attempt.job_id}-{attempt.region}-{attempt.attempt}"


class SparkFigure(msgspec.Struct, frozen=True, array_like=True):
    """A metric of a plan's node, as Spark words it."""

    name: str
    value: str


class SparkPlanNode(msgspec.Struct, frozen=True, kw_only=True):
    node: int
    name: str
    description: str = ""
    feeds: int = -1
    """The node that its rows go to; -1: it is the last one."""
    codegen: int = -1
    """Which of the query's stages of generated code it is in; -1: none."""
    figures: tuple[SparkFigure, ...] = ()


class SparkQuery(msgspec.Struct, frozen=True, kw_only=True):
    """An SQL execution of Spark's. Times in milliseconds."""

    query: int
    """Its number in Spark's own pages."""
    status: str
    """`RUNNING`, `COMPLETED` or `FAILED`."""
    started: int = -1
    duration: int = -1
    """So far, of one that runs."""
    plan: str = ""
    """As text."""
    nodes: tuple[SparkPlanNode, ...] = ()


class SparkStage(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a stage. Times in milliseconds, -1 for what has not happened."""

    stage: int
    attempt: int
    name: str
    query: int = -1
    """The query that it belongs to; -1: none."""
    status: str
    """`PENDING`, `ACTIVE`, `COMPLETE`, `FAILED` or `SKIPPED`."""
    tasks: int = 0
    done: int = 0
    failed: int = 0
    started: int = -1
    ended: int = -1
    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    shuffle_bytes_read: int = 0
    shuffle_bytes_written: int = 0
    memory_bytes_spilled: int = 0
    disk_bytes_spilled: int = 0
    task_ms: int = 0
    """What its tasks took, one after the other."""


class SparkTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over what is told of an attempt, attempts of stages that have failed among it."""

    spark_ms: int = 0
    """Time in which a query ran."""
    tasks: int = 0
    """Those that have ended well."""
    task_ms: int = 0
    """What all tasks took, one after the other."""
    shuffle_bytes_read: int = 0
    shuffle_bytes_written: int = 0
    memory_bytes_spilled: int = 0
    disk_bytes_spilled: int = 0


class SparkWork(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first."""

    queries: tuple[SparkQuery, ...] = ()
    stages: tuple[SparkStage, ...] = ()
    total: SparkTotal = SparkTotal()
    truncated: bool = False
    """Whether there are older ones that are not told, and not in the total."""


def total_of(queries: Sequence[SparkQuery], stages: Sequence[SparkStage]) -> SparkTotal:
    """The sums; of queries that ran at the same time it counts once."""
    spark_ms, until = 0, -1
    for query in sorted(queries, key=lambda each: each.started):
        end = query.started + max(0, query.duration)
        spark_ms += max(0, end - max(until, query.started))
        until = max(until, end)
    return SparkTotal(
        spark_ms=spark_ms,
        tasks=sum(each.done for each in stages),
        task_ms=sum(each.task_ms for each in stages),
        shuffle_bytes_read=sum(each.shuffle_bytes_read for each in stages),
        shuffle_bytes_written=sum(each.shuffle_bytes_written for each in stages),
        memory_bytes_spilled=sum(each.memory_bytes_spilled for each in stages),
        disk_bytes_spilled=sum(each.disk_bytes_spilled for each in stages),
    )
