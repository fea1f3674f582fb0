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
from firesteel.model.labels import Labels
from firesteel.model.splits import RangeInputFormat
from firesteel.pipeline.splits import with_finders

ANY_SPLITS = RangeInputFormat(column="n", lower=0, upper=1, count=1)
"""Splits of every source that has any; a fake Spark finds as many as it likes."""


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
    fed = {edge.target: None for edge in edges}
    vertices = tuple(_vertex(chance, (ids[i], i), widths[i], (ids[i] in fed, bool(readers[i]))) for i in range(count))
    datasets = tuple(
        IntermediateDataSet(id=DataSetID(ids[i]), name=f"v{i}", producer=ids[i]) for i in range(count) if readers[i]
    )
    environment = RuntimeEnvironment(python="3.11", pyspark="4.3.0")
    drawing = {DataSetID(vertex.id): None for vertex in vertices if vertex.draws_splits}
    stored = [_blocking(edge) if edge.source in drawing else edge for edge in edges]  # a draw has no result of its own
    vertices, datasets, all_edges = with_finders(vertices, datasets, stored)
    graph = JobGraph(
        job_id=job_id,
        name=f"job-{number}",
        vertices=vertices,
        datasets=datasets,
        edges=all_edges,
        environment=environment,
    )
    return _without_circles(graph)


def with_auto_parallelism(chance: random.Random, graph: JobGraph) -> JobGraph:
    """Of most vertices nobody has said how many subtasks they have."""
    is_auto = {vertex.id: vertex.functions[0].kind is not FunctionKind.SOURCE for vertex in graph.vertices}
    vertices = (
        msgspec.structs.replace(each, auto_parallelism=is_auto[each.id] and chance.random() < 0.8)
        for each in graph.vertices
    )
    return msgspec.structs.replace(graph, vertices=tuple(vertices))


def with_retries(chance: random.Random, graph: JobGraph) -> JobGraph:
    """Some vertices of some jobs limit their attempts."""
    if chance.random() < 0.7:
        return graph
    limits = (None, None, 1, 2, 4, 20)
    limited = (msgspec.structs.replace(each, max_attempts=chance.choice(limits)) for each in graph.vertices)
    return msgspec.structs.replace(graph, vertices=tuple(limited))


def with_labels(chance: random.Random, graph: JobGraph) -> JobGraph:
    """Some vertices run on workers with labels only; those with others are not in one region."""
    kinds: tuple[Labels, ...] = ((), (), ("a",), ("b",), ("a", "b"))
    labels = {vertex.id: chance.choice(kinds) for vertex in graph.vertices}
    vertices = (
        msgspec.structs.replace(each, resources=each.resources.labelled(labels[each.id])) for each in graph.vertices
    )
    producer = {dataset.id: dataset.producer for dataset in graph.datasets}
    edges = tuple(
        edge if labels[producer[edge.source]] == labels[edge.target] else _blocking(edge) for edge in graph.edges
    )
    return _without_circles(msgspec.structs.replace(graph, vertices=tuple(vertices), edges=edges))


def _vertex(
    chance: random.Random, place: tuple[JobVertexID, int], parallelism: int, is_read_and_reads: tuple[bool, bool]
) -> JobVertex:
    vertex_id, index = place
    has_input, has_reader = is_read_and_reads
    kind = FunctionKind.TRANSFORM if has_reader else FunctionKind.SINK
    splits = None
    if has_reader and not has_input and chance.random() < 0.5:
        kind, splits = FunctionKind.SOURCE, ANY_SPLITS
    function = Function(name=f"v{index}", uid=f"v{index}", kind=kind, splits=splits)
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


def _blocking(edge: JobEdge) -> JobEdge:
    return msgspec.structs.replace(edge, exchange=ExchangeMode.BLOCKING)


def _without_circles(graph: JobGraph) -> JobGraph:
    """Make every edge blocking when regions would wait for one another."""
    try:
        Topology(graph)
    except InvalidJobGraph:
        return msgspec.structs.replace(graph, edges=tuple(map(_blocking, graph.edges)))
    return graph
