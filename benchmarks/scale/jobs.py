"""Jobs of two vertices in the shapes of Flink's scheduler benchmarks, and what their attempts leave."""

from firesteel.core.execution.topology import Topology
from firesteel.model.ids import DataSetID, JobID, JobVertexID, RegionAttemptID, derived_id
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
from firesteel.model.tasks import ResultPartition, SinkCommit, TaskOutcome

STORAGE = "/srv/firesteel/storage/partitions"
COLUMNS = ("word", "day", "count")
SOURCE, SINK = (JobVertexID(derived_id(name)) for name in ("source", "sink"))
DATASET = DataSetID(derived_id("source", "dataset"))


def batch(parallelism: int, name: str = "batch") -> JobGraph:
    """source => sink, all to all and blocking: 2 × `parallelism` regions."""
    exchange = (DistributionPattern.ALL_TO_ALL, ExchangeMode.BLOCKING, Partitioner.REBALANCE)
    return _two_vertices(parallelism, name, exchange)


def streaming(parallelism: int, name: str = "streaming") -> JobGraph:
    """source -> sink, subtask to subtask: `parallelism` regions of two subtasks. Pipelined all-to-all there is not."""
    return _two_vertices(
        parallelism, name, (DistributionPattern.POINTWISE, ExchangeMode.PIPELINED, Partitioner.FORWARD)
    )


def small(number: int) -> JobGraph:
    """A job of one subtask."""
    return JobGraph(
        job_id=JobID(derived_id("small", number)),
        name=f"small {number}",
        vertices=(_vertex(SINK, "sink", FunctionKind.SINK, 1),),
        environment=RuntimeEnvironment(python="3.11", pyspark="4.3.0"),
    )


def outcome(graph: JobGraph, topology: Topology, attempt: RegionAttemptID) -> TaskOutcome:
    """What an attempt leaves: a stored result of a batch source, a staged output of a sink."""
    logical = topology.logical_of(attempt.region)
    base = f"{STORAGE}/{graph.job_id}/{attempt.region}-{attempt.attempt}"
    if logical.vertices[-1].id == SOURCE:
        stored = ResultPartition(
            dataset_id=DATASET,
            subtask=attempt.region - logical.offset,
            location=f"{base}/{DATASET}",
            rows=1_000_000,
            size_bytes=20_000_000,
            columns=COLUMNS,
            subpartitions=logical.parallelism,
        )
        return TaskOutcome(partitions=(stored,))
    staged = SinkCommit(
        commit_id=derived_id(attempt, SINK),
        vertex_id=SINK,
        function="sink",
        format="parquet",
        mode="overwrite",
        target="/srv/warehouse/counts",
        staging=f"/srv/warehouse/counts/_firesteel/{graph.job_id}/{attempt.region}-{attempt.attempt}",
        files=("part-00000-c000.snappy.parquet",),
        rows=1_000_000,
        size_bytes=20_000_000,
    )
    return TaskOutcome(sinks=(staged,))


def _two_vertices(
    parallelism: int, name: str, exchange: tuple[DistributionPattern, ExchangeMode, Partitioner]
) -> JobGraph:
    pattern, mode, partitioner = exchange
    edge = JobEdge(source=DATASET, target=SINK, pattern=pattern, exchange=mode, partitioner=partitioner)
    return JobGraph(
        job_id=JobID(derived_id(name, parallelism)),
        name=f"{name} {parallelism} + {parallelism}",
        vertices=(
            # No source: those have splits when they are divided, and something that finds these before them.
            _vertex(SOURCE, "source", FunctionKind.TRANSFORM, parallelism),
            _vertex(SINK, "sink", FunctionKind.SINK, parallelism),
        ),
        datasets=(IntermediateDataSet(id=DATASET, name="source", producer=SOURCE),),
        edges=(edge,),
        configuration={"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "100"},
        environment=RuntimeEnvironment(python="3.11", pyspark="4.3.0"),
    )


def _vertex(vertex_id: JobVertexID, name: str, kind: FunctionKind, parallelism: int) -> JobVertex:
    function = Function(name=name, uid=name, kind=kind, entry_point=f"pipeline:{name}", wants_session=True)
    return JobVertex(id=vertex_id, name=name, functions=(function,), parallelism=parallelism)
