"""What holds for the job graph of any pipeline."""

import itertools
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

import firesteel as fs
from firesteel.model.ids import DataSetID, JobID, JobVertexID
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    JobGraph,
    RuntimeEnvironment,
    decode_job_graph,
    encode_job_graph,
)
from firesteel.pipeline.graph import build_job_graph
from firesteel.pipeline.regions import pipelined_regions

ENVIRONMENT = RuntimeEnvironment(python="3.11", pyspark="")
DISTRIBUTIONS = (fs.rebalance(), fs.broadcast(), fs.hash_by("k"))


@st.composite
def pipelines(draw: st.DrawFn) -> fs.Pipeline:
    """Noop vertices with random edges, shares and options, declared in random order."""
    count = draw(st.integers(1, 9))
    uniform = draw(st.booleans())
    parallelism = [1 if uniform else draw(st.integers(1, 3)) for _ in range(count)]
    vertices = []
    for target in range(count):
        inputs = {}
        for source in draw(st.sets(st.integers(0, target - 1), max_size=3)) if target else ():
            equal = parallelism[source] == parallelism[target]
            choices = (fs.forward(), *DISTRIBUTIONS) if equal else DISTRIBUTIONS
            inputs[f"v{source}"] = draw(st.sampled_from(choices))
        share = draw(st.sampled_from((None, "store", "recompute")))
        options = {} if share is None else {"share": share}
        if draw(st.booleans()):
            options["timeout"] = "1 s"
        vertices.append(fs.noop(f"v{target}", inputs=inputs, parallelism=parallelism[target], **options))
    pipeline = fs.Pipeline("random")
    for vertex in draw(st.permutations(vertices)):
        pipeline.add(vertex)
    return pipeline


def build(pipeline: fs.Pipeline) -> JobGraph:
    return build_job_graph(pipeline, job_id=JobID("0" * 32), environment=ENVIRONMENT)


def declared_edges(pipeline: fs.Pipeline) -> set[tuple[str, str]]:
    return {(argument.name, each.name) for each in pipeline.definitions for argument in each.arguments}


@given(pipelines())
def test_every_function_and_edge_is_there_once(pipeline: fs.Pipeline) -> None:
    graph = build(pipeline)
    chains = [[function.name for function in vertex.functions] for vertex in graph.vertices]
    assert sorted(name for chain in chains for name in chain) == sorted(each.name for each in pipeline.definitions)
    heads = {vertex.id: chain[0] for vertex, chain in zip(graph.vertices, chains, strict=True)}
    names = {dataset.id: dataset.name for dataset in graph.datasets}
    chained = [pair for chain in chains for pair in itertools.pairwise(chain)]
    between = [(names[edge.source], heads[edge.target]) for edge in graph.edges]
    assert sorted(chained + between) == sorted(declared_edges(pipeline))


@given(pipelines())
def test_vertices_are_in_topological_order(pipeline: fs.Pipeline) -> None:
    graph = build(pipeline)
    ranks = {vertex.id: rank for rank, vertex in enumerate(graph.vertices)}
    producers = producer_of(graph)
    assert all(ranks[producers[edge.source]] < ranks[edge.target] for edge in graph.edges)


@given(pipelines())
def test_pipelined_edges_are_pointwise_between_equals(pipeline: fs.Pipeline) -> None:
    graph = build(pipeline)
    parallelism = {vertex.id: vertex.parallelism for vertex in graph.vertices}
    producers = producer_of(graph)
    for edge in graph.edges:
        if edge.pattern is DistributionPattern.POINTWISE:
            assert parallelism[producers[edge.source]] == parallelism[edge.target]
        else:
            assert edge.exchange is ExchangeMode.BLOCKING


@given(pipelines())
def test_regions_wait_for_one_another_in_one_direction(pipeline: fs.Pipeline) -> None:
    graph = build(pipeline)
    region = {vertex: index for index, group in enumerate(pipelined_regions(graph)) for vertex in group}
    producers = producer_of(graph)
    blocking = [edge for edge in graph.edges if edge.exchange is ExchangeMode.BLOCKING]
    waits = {(region[producers[edge.source]], region[edge.target]) for edge in blocking}
    assert is_acyclic(waits)


def is_acyclic(edges: set[tuple[int, int]]) -> bool:
    while edges:
        targets = {target for _, target in edges}
        kept = {(source, target) for source, target in edges if source in targets}
        if kept == edges:
            return False
        edges = kept
    return True


@given(pipelines())
def test_a_result_is_stored_when_several_read_it(pipeline: fs.Pipeline) -> None:
    graph = build(pipeline)
    share = {each.name: each.share for each in pipeline.definitions}
    consumers = [source for source, _ in declared_edges(pipeline)]
    names = {dataset.id: dataset.name for dataset in graph.datasets}
    for edge in graph.edges:
        name = names[edge.source]
        if share[name] == "store" or (share[name] is None and consumers.count(name) > 1):
            assert edge.exchange is ExchangeMode.BLOCKING


@given(pipelines())
def test_bytes_are_a_function_of_the_pipeline(pipeline: fs.Pipeline) -> None:
    graph = build(pipeline)
    encoded = encode_job_graph(graph)
    assert encoded == encode_job_graph(build(pipeline))
    assert decode_job_graph(encoded) == graph
    assert len({vertex.id for vertex in graph.vertices}) == len(graph.vertices)


def producer_of(graph: JobGraph) -> Mapping[DataSetID, JobVertexID]:
    return {dataset.id: dataset.producer for dataset in graph.datasets}
