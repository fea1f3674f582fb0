"""What the subtasks of one vertex leave, taken together: hash keys that can meet, commits of one target."""

import msgspec

from firesteel.core.execution.keytypes import KeyTypes
from firesteel.core.execution.topology import Topology
from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.backoff import NoRestart
from firesteel.core.scheduler.commit import gather_commits
from firesteel.core.scheduler.jobstates import Created
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import DataSetID, JobID, JobVertexID
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    Function,
    FunctionKind,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    Partitioner,
    RuntimeEnvironment,
)
from firesteel.model.states import JobStatus
from firesteel.model.tasks import ResultPartition, SinkCommit, StagedPart, TaskOutcome


def vertex(name: str, parallelism: int = 1) -> JobVertex:
    function = Function(name=name, uid=name, kind=FunctionKind.NOOP)
    return JobVertex(id=JobVertexID(name), name=name, functions=(function,), parallelism=parallelism)


def topology(left: tuple[str, ...], right: tuple[str, ...]) -> Topology:
    """`a` and `b` hashed by these keys, and `c` broadcast, into the two subtasks of `out`."""

    def edge(source: str, partitioner: Partitioner, keys: tuple[str, ...] = ()) -> JobEdge:
        return JobEdge(
            source=DataSetID(f"of-{source}"),
            target=JobVertexID("out"),
            pattern=DistributionPattern.ALL_TO_ALL,
            exchange=ExchangeMode.BLOCKING,
            partitioner=partitioner,
            keys=keys,
        )

    names = ("a", "b", "c")
    return Topology(
        JobGraph(
            job_id=JobID("0" * 32),
            name="job",
            vertices=(*map(vertex, names), vertex("out", 2)),
            datasets=tuple(
                IntermediateDataSet(id=DataSetID(f"of-{name}"), name=name, producer=JobVertexID(name)) for name in names
            ),
            edges=(
                edge("a", Partitioner.HASH, left),
                edge("b", Partitioner.HASH, right),
                edge("c", Partitioner.BROADCAST),
            ),
            environment=RuntimeEnvironment(python="", pyspark=""),
        )
    )


def stored(name: str, *key_types: str) -> TaskOutcome:
    return TaskOutcome(
        partitions=(ResultPartition(dataset_id=DataSetID(f"of-{name}"), subtask=0, location=name, key_types=key_types),)
    )


def note(graph: Topology, *outcomes: tuple[str, TaskOutcome]) -> KeyTypes:
    key_types = KeyTypes(graph)
    for name, outcome in outcomes:
        key_types.note(graph.by_vertex[JobVertexID(name)], outcome)
    return key_types


def test_keys_of_one_type_meet() -> None:
    graph = topology(("k", "l"), ("m", "n"))
    given = note(
        graph, ("a", stored("a", "bigint", "void")), ("b", stored("b", "bigint", "string")), ("c", stored("c"))
    )
    assert given.conflict is None


def test_keys_of_two_types_never_meet_and_both_are_named() -> None:
    graph = topology(("k",), ("m",))
    given = note(graph, ("a", stored("a", "bigint")), ("b", stored("b", "string")), ("b", stored("b", "date")))
    assert given.conflict is not None
    assert (given.conflict.kind, given.conflict.vertex) == (FailureKind.NON_RECOVERABLE, "out")
    assert "'k' of 'a' is bigint, 'm' of 'b' is string" in given.conflict.message


def test_types_of_keys_are_told_as_the_columns_have_them() -> None:
    graph = topology(("k",), ("m",))
    (narrow,) = stored("a", "bigint").partitions
    narrow = msgspec.structs.replace(narrow, key_column_types=("smallint",))
    given = note(graph, ("a", TaskOutcome(partitions=(narrow,))), ("b", stored("b", "string")))
    assert given.conflict is not None
    assert "'k' of 'a' is smallint, 'm' of 'b' is string" in given.conflict.message


def test_decimals_meet_where_one_type_has_all_their_digits() -> None:
    graph = topology(("k",), ("m",))

    def conflict(*types: str) -> FailureInfo | None:
        return note(graph, *((name, stored(name, each)) for name, each in zip("aba", types, strict=False))).conflict

    assert conflict("decimal(10,2)", "decimal(38,10)") is None
    assert conflict("decimal(20,0)", "decimal(18,18)", "decimal(20,18)") is None
    refused = conflict("decimal(20,0)", "decimal(20,18)", "decimal(22,0)")
    assert refused is not None
    assert "'k' of 'a' is decimal(20,0), 'm' of 'b' is decimal(20,18), 'k' of 'a' is decimal(22,0)" in refused.message
    refused = conflict("decimal(38,0)", "decimal(3,1)")
    assert refused is not None
    assert "'k' of 'a' is decimal(38,0), 'm' of 'b' is decimal(3,1); cast one" in refused.message
    assert conflict("decimal(3,1)", "string") is not None


def test_different_numbers_of_keys_are_not_compared() -> None:
    graph = topology(("k",), ("m", "n"))
    assert note(graph, ("a", stored("a", "bigint")), ("b", stored("b", "string", "date"))).conflict is None


def test_a_job_whose_keys_cannot_meet_fails_at_once() -> None:
    graph = topology(("k",), ("m",)).graph
    settings = SchedulerSettings(NoRestart(), 16)
    scheduler = DefaultScheduler(graph, JobState(job_id=graph.job_id), settings, lambda record: None)
    scheduler._enter(Created().start(), 0)
    scheduler._executions.partitions.key_types.conflict = FailureInfo(
        kind=FailureKind.NON_RECOVERABLE, message="never meet"
    )
    for now_ms in (1, 2):
        scheduler.advance((), now_ms)
    assert scheduler.status is JobStatus.FAILED
    assert scheduler._executions.state.failure == scheduler._executions.partitions.key_types.conflict


def commit(number: int, target: str = "t", rows: int = 1, function: str = "out") -> SinkCommit:
    return SinkCommit(
        commit_id=str(number),
        vertex_id=JobVertexID("out"),
        function=function,
        format="parquet",
        mode="overwrite",
        target=target,
        staging=f"s{number}",
        files=(f"f{number}",),
        rows=rows,
        size_bytes=10,
    )


def test_subtasks_of_a_sink_are_committed_together() -> None:
    (one,) = gather_commits([TaskOutcome(sinks=(commit(number, rows=number),)) for number in (1, 2, 3)])
    assert (one.commit_id, one.rows, one.size_bytes) == ("1", 6, 30)
    assert one.parts == (StagedPart(staging="s2", files=("f2",)), StagedPart(staging="s3", files=("f3",)))
    assert one.stagings == ("s1", "s2", "s3")


def test_rows_are_unknown_when_one_part_does_not_know() -> None:
    (one,) = gather_commits([TaskOutcome(sinks=(commit(1, rows=-1),)), TaskOutcome(sinks=(commit(2),))])
    assert one.rows == -1


def test_other_targets_other_functions_and_second_writes_are_commits_of_their_own() -> None:
    outcomes = [
        TaskOutcome(sinks=(commit(1), commit(2), commit(3, "u"))),
        TaskOutcome(sinks=(commit(4), commit(5), commit(6, function="other"))),
    ]
    found = gather_commits(outcomes)
    assert [each.stagings for each in found] == [("s1", "s4"), ("s2", "s5"), ("s3",), ("s6",)]
