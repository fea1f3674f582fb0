"""Streaming pipelines of random shape: which queries, what they read, and how often a seed has one."""

import dataclasses
import random

import msgspec

from firesteel.core.checkpoint.savepoints import SavepointSettings
from firesteel.core.scheduler.backoff import FixedDelay, NoRestart
from firesteel.model.checkpoints import CheckpointRetention, CheckpointSettings
from firesteel.model.ids import DataSetID, JobID, JobVertexID, derived_id
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    Function,
    FunctionKind,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobType,
    JobVertex,
    Partitioner,
    RuntimeEnvironment,
)
from firesteel.model.options import RESTORE_PATH
from firesteel.testing.simulation.cores.settings import ClusterSettings
from firesteel.testing.simulation.streams.storage import RETAINED

STREAMS = 0.2
"""Share of the seeds that have a streaming pipeline."""

QUERIES_MAX = 3
ENDING = " once"
"""Ends the names of sources whose queries read what is there, and end."""
SAVEPOINTS = "/savepoints"


def has_stream(chance: random.Random) -> bool:
    return chance.random() < STREAMS


def with_streams(chance: random.Random, settings: ClusterSettings) -> ClusterSettings:
    """Settings under which a stream may run for long, and is looked at and copied now and then."""
    scheduler = settings.job_master.scheduler
    strategy = scheduler.strategy
    if isinstance(strategy, NoRestart) and chance.random() < 0.8:
        strategy = FixedDelay(100, 500)
    timeout_ms = chance.choice((5_000, 60_000))
    scheduler = dataclasses.replace(
        scheduler,
        strategy=strategy,
        timeout_ms=0,
        savepoints=SavepointSettings(SAVEPOINTS, timeout_ms),
        checkpoints=CheckpointSettings(
            interval_ms=chance.choice((0, 1_000, 8_000)),
            timeout_ms=timeout_ms,
            min_pause_ms=chance.choice((0, 2_000)),
            tolerable_failures=chance.choice((0, 2, 1_000)),
            retained_max=chance.choice((1, 3)),
        ),
    )
    return dataclasses.replace(settings, job_master=dataclasses.replace(settings.job_master, scheduler=scheduler))


def with_retention(chance: random.Random, settings: ClusterSettings, *, is_shared: bool) -> ClusterSettings:
    """Settings under which the last checkpoint of a job stays, or not."""
    scheduler = settings.job_master.scheduler
    checkpoints = msgspec.structs.replace(
        scheduler.checkpoints,
        retention=chance.choice(tuple(CheckpointRetention)),
        shared_dir=RETAINED if is_shared else "",
    )
    scheduler = dataclasses.replace(scheduler, checkpoints=checkpoints)
    return dataclasses.replace(settings, job_master=dataclasses.replace(settings.job_master, scheduler=scheduler))


def random_stream(chance: random.Random, queries_max: int) -> JobGraph:
    """Sources with one or two sinks each: each sink is a query, and those of a source are one region."""
    job_id = JobID(derived_id("stream", chance.random()))
    vertices: list[JobVertex] = []
    datasets: list[IntermediateDataSet] = []
    edges: list[JobEdge] = []
    for number in range(chance.randint(1, queries_max)):
        ending = ENDING if number and chance.random() < 0.3 else ""  # one goes on at least
        source = _vertex(job_id, f"source-{number}{ending}", FunctionKind.SOURCE)
        dataset = DataSetID(source.id)
        vertices.append(source)
        datasets.append(IntermediateDataSet(id=dataset, name=source.name, producer=source.id))
        for twin in range(chance.choice((1, 1, 2))):
            sink = _vertex(job_id, f"sink-{number}-{twin}", FunctionKind.SINK)
            vertices.append(sink)
            edges.append(_edge(dataset, sink.id))
    return JobGraph(
        job_id=job_id,
        name="stream",
        job_type=JobType.STREAMING,
        vertices=tuple(vertices),
        datasets=tuple(datasets),
        edges=tuple(edges),
        environment=RuntimeEnvironment(python="3.11", pyspark="4.3.0"),
    )


def resumed(graph: JobGraph, number: int, savepoint: str) -> JobGraph:
    """The job that goes on where a savepoint is, as the `number`th of its pipeline."""
    return JobGraph(
        job_id=JobID(derived_id(graph.job_id, number)),
        name=f"stream {number}",
        job_type=JobType.STREAMING,
        vertices=graph.vertices,
        datasets=graph.datasets,
        edges=graph.edges,
        configuration={RESTORE_PATH.key: savepoint},
        environment=graph.environment,
    )


def uids_of(graph: JobGraph) -> list[str]:
    """Of its sinks: its queries."""
    functions = (each for vertex in graph.vertices for each in vertex.functions)
    return [each.uid for each in functions if each.kind is FunctionKind.SINK]


def ending_uids(graph: JobGraph) -> list[str]:
    """Of sinks whose queries end by themselves."""
    sources = [DataSetID(vertex.id) for vertex in graph.vertices if vertex.name.endswith(ENDING)]
    sinks = [edge.target for edge in graph.edges if edge.source in sources]
    return [each.uid for vertex in graph.vertices if vertex.id in sinks for each in vertex.functions]


def _vertex(job_id: JobID, name: str, kind: FunctionKind) -> JobVertex:
    function = Function(name=name, uid=name, kind=kind)
    return JobVertex(id=JobVertexID(derived_id(job_id, name)), name=name, functions=(function,), parallelism=1)


def _edge(source: DataSetID, target: JobVertexID) -> JobEdge:
    return JobEdge(
        source=source,
        target=target,
        pattern=DistributionPattern.POINTWISE,
        exchange=ExchangeMode.PIPELINED,
        partitioner=Partitioner.FORWARD,
    )
