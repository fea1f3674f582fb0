"""Jobs of random shape."""

import random

import msgspec

from firesteel.core.execution.topology import Topology
from firesteel.model.ids import DataSetID, JobID, JobVertexID, derived_id
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    Function,
    FunctionKind,
    IntermediateDataSet,
    InvalidJobGraph,
    JobEdge,
    JobGraph,
    JobVertex,
    Partitioner,
    RuntimeEnvironment,
)


def random_job(chance: random.Random, number: int, vertices_max: int = 6, parallelism_max: int = 6) -> JobGraph:
    """A connected or scattered graph of sources, transforms and sinks; what nobody reads is a sink."""
    job_id = JobID(derived_id("job", number, chance.random()))
    count = chance.randint(1, vertices_max)
    shared = chance.randint(1, parallelism_max)
    widths = [chance.choice((1, shared, shared, chance.randint(1, parallelism_max))) for _ in range(count)]
    ids = [JobVertexID(derived_id(job_id, index)) for index in range(count)]
    edges: list[JobEdge] = []
    readers: dict[int, int] = dict.fromkeys(range(count), 0)
    for target in range(1, count):
        for source in sorted(chance.sample(range(target), min(target, chance.choice((0, 1, 1, 2))))):
            edges.append(_edge(chance, (ids[source], widths[source]), (ids[target], widths[target])))
            readers[source] += 1
    vertices = tuple(_vertex(ids[i], i, widths[i], sink=not readers[i]) for i in range(count))
    datasets = tuple(
        IntermediateDataSet(id=DataSetID(ids[i]), name=f"v{i}", producer=ids[i]) for i in range(count) if readers[i]
    )
    environment = RuntimeEnvironment(python="3.11", pyspark="4.3.0")
    graph = JobGraph(
        job_id=job_id,
        name=f"job-{number}",
        vertices=vertices,
        datasets=datasets,
        edges=tuple(edges),
        environment=environment,
    )
    return _without_circles(graph)


def _vertex(vertex_id: JobVertexID, index: int, parallelism: int, *, sink: bool) -> JobVertex:
    kind = FunctionKind.SINK if sink else FunctionKind.TRANSFORM
    function = Function(name=f"v{index}", uid=f"v{index}", kind=kind)
    return JobVertex(id=vertex_id, name=f"v{index}", functions=(function,), parallelism=parallelism)


def _edge(chance: random.Random, source: tuple[JobVertexID, int], target: tuple[JobVertexID, int]) -> JobEdge:
    pointwise = source[1] == target[1] and chance.random() < 0.6
    pipelined = pointwise and chance.random() < 0.5
    return JobEdge(
        source=DataSetID(source[0]),
        target=target[0],
        pattern=DistributionPattern.POINTWISE if pointwise else DistributionPattern.ALL_TO_ALL,
        exchange=ExchangeMode.PIPELINED if pipelined else ExchangeMode.BLOCKING,
        partitioner=Partitioner.FORWARD if pointwise else Partitioner.REBALANCE,
    )


def _without_circles(graph: JobGraph) -> JobGraph:
    """Make every edge blocking when regions would wait for one another."""
    try:
        Topology(graph)
    except InvalidJobGraph:
        edges = tuple(msgspec.structs.replace(edge, exchange=ExchangeMode.BLOCKING) for edge in graph.edges)
        return msgspec.structs.replace(graph, edges=edges)
    return graph
