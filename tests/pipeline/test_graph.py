"""Pipeline -> JobGraph: exchanges, chaining, ids, and the wire format."""

import importlib.metadata
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import firesteel as fs
from firesteel.core.execution.topology import Topology
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    InvalidJobGraph,
    JobGraph,
    Partitioner,
    RuntimeEnvironment,
    decode_job_graph,
    encode_job_graph,
)
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.graph import build_job_graph, current_environment
from firesteel.pipeline.regions import pipelined_regions

JOB = JobID("0123456789abcdef0123456789abcdef")
ENVIRONMENT = RuntimeEnvironment(python="3.11", pyspark="4.3.0")


def build(pipeline: fs.Pipeline, **options) -> JobGraph:
    return build_job_graph(pipeline, job_id=JOB, environment=ENVIRONMENT, **options)


def noops(*vertices) -> fs.Pipeline:
    pipeline = fs.Pipeline("noops")
    for vertex in vertices:
        pipeline.add(vertex)
    return pipeline


def edges(graph: JobGraph) -> dict[str, tuple[ExchangeMode, DistributionPattern, Partitioner]]:
    datasets = {dataset.id: dataset.name for dataset in graph.datasets}
    names = {vertex.id: vertex.functions[0].name for vertex in graph.vertices}
    return {
        f"{datasets[edge.source]}->{names[edge.target]}": (edge.exchange, edge.pattern, edge.partitioner)
        for edge in graph.edges
    }


def shape(graph: JobGraph) -> dict[str, str]:
    return {name: mode.value for name, (mode, _, _) in edges(graph).items()}


def wordcount() -> fs.Pipeline:
    pipeline = fs.Pipeline("wordcount")

    @pipeline.source
    def lines(spark, input: str): ...

    @pipeline.transform
    def words(lines): ...

    @pipeline.transform(inputs={"words": fs.hash_by("word")}, uid="counts-v1", retries=2)
    def counts(words, context, at_least: int = 1): ...

    @pipeline.transform(inputs={"counts": fs.broadcast()})
    def top(counts): ...

    @pipeline.sink(timeout="5 min", cpu=1, memory="1g")
    def result(counts, top, output: str): ...

    return pipeline


def test_functions_are_chained_into_one_vertex() -> None:
    pipeline = noops(fs.noop("lines"), fs.noop("words", inputs=["lines"]), fs.noop("counts", inputs=["words"]))
    graph = build(pipeline)
    assert [vertex.name for vertex in graph.vertices] == ["lines -> words -> counts"]
    assert (graph.datasets, graph.edges) == ((), ())


def test_chaining_can_be_switched_off() -> None:
    pipeline = noops(fs.noop("a"), fs.noop("b", inputs=["a"]))
    graph = build(pipeline, configuration={"pipeline.operator-chaining.enabled": "false"})
    assert shape(graph) == {"a->b": "pipelined"}
    assert len(pipelined_regions(graph)) == 1


def test_functions_with_other_limits_are_not_chained() -> None:
    pipeline = noops(fs.noop("a"), fs.noop("b", inputs=["a"], timeout=1), fs.noop("c", inputs=["b"], timeout=1))
    graph = build(pipeline)
    assert [vertex.name for vertex in graph.vertices] == ["a", "b -> c"]
    assert shape(graph) == {"a->b": "pipelined"}


def test_slot_sharing_groups_are_kept_apart_and_co_location_is_handed_on() -> None:
    apart = noops(fs.noop("a"), fs.noop("b", inputs=["a"], slot_sharing_group="big"), fs.noop("c", inputs=["b"]))
    assert shape(build(apart)) == {"a->b": "blocking", "b->c": "blocking"}
    near = noops(fs.noop("a", co_location="x"), fs.noop("b", inputs=["a"], co_location="x"), fs.noop("c", inputs=["b"]))
    graph = build(near)
    assert [(vertex.name, vertex.co_location_group) for vertex in graph.vertices] == [("a -> b", "x"), ("c", "")]
    for wrong in ({"slot_sharing_group": ""}, {"co_location": 3}):
        with pytest.raises(fs.InvalidPipeline, match="must be a text that is not empty"):
            noops(fs.noop("a", **wrong))


def test_functions_that_run_on_other_workers_are_kept_apart() -> None:
    apart = noops(
        fs.noop("a"),
        fs.noop("b", inputs=["a"], on="gpu, big"),
        fs.noop("c", inputs=["b"], on="big,gpu", cpu=1, memory=512),
        fs.noop("d", inputs=["c"], on=""),
    )
    graph = build(apart)
    assert shape(graph) == {"a->b": "blocking", "b->c": "pipelined", "c->d": "blocking"}
    assert [vertex.resources.labels for vertex in graph.vertices] == [(), ("big", "gpu"), ("big", "gpu"), ()]
    for wrong in (3, "a b", "-x", ",".join(f"l{number}" for number in range(17))):
        with pytest.raises(fs.InvalidPipeline, match="must be labels of workers, like"):
            noops(fs.noop("a", on=wrong))


def test_all_to_all_is_blocking() -> None:
    pipeline = noops(fs.noop("a", parallelism=20_000), fs.noop("b", inputs={"a": fs.rebalance()}, parallelism=20_000))
    graph = build(pipeline)
    assert edges(graph) == {"a->b": (ExchangeMode.BLOCKING, DistributionPattern.ALL_TO_ALL, Partitioner.REBALANCE)}
    assert [vertex.parallelism for vertex in graph.vertices] == [20_000, 20_000]


def test_forward_is_pipelined_and_needs_equal_parallelism() -> None:
    one, other = fs.noop("a", parallelism=3), fs.noop("b", inputs=["a"], parallelism=3, timeout=1)
    assert edges(build(noops(one, other))) == {
        "a->b": (ExchangeMode.PIPELINED, DistributionPattern.POINTWISE, Partitioner.FORWARD)
    }
    with pytest.raises(InvalidJobGraph, match="forward\\(\\) from parallelism 3 to 4"):
        build(noops(one, fs.noop("b", inputs=["a"], parallelism=4)))


def test_distribution_has_no_meaning_between_single_shares() -> None:
    graph = build(noops(fs.noop("a"), fs.noop("b", inputs={"a": fs.hash_by("k")})))
    assert [vertex.name for vertex in graph.vertices] == ["a -> b"]


def test_a_share_declares_where_its_rows_come_from() -> None:
    pipeline = noops(fs.noop("a", parallelism=2), msgspec.structs.replace(fs.noop("b", inputs=["a"]), distributions={}))
    assert edges(build(pipeline))["a->b"][2] is Partitioner.REBALANCE, "all shares are gathered in one"
    with pytest.raises(InvalidJobGraph, match=r'inputs=\{"a": hash_by'):
        build(pipeline, parallelism=2)


def test_a_result_with_two_consumers_is_stored_once() -> None:
    pipeline = noops(fs.noop("a"), fs.noop("b", inputs=["a"]), fs.noop("c", inputs=["a"]))
    graph = build(pipeline)
    assert shape(graph) == {"a->b": "blocking", "a->c": "blocking"}
    assert len(graph.datasets) == 1
    assert {edge.partitioner for edge in graph.edges} == {Partitioner.FORWARD}


def test_share_recompute_and_store() -> None:
    pipeline = noops(fs.noop("a", share="recompute"), fs.noop("b", inputs=["a"]), fs.noop("c", inputs=["a"]))
    assert shape(build(pipeline)) == {"a->b": "pipelined", "a->c": "pipelined"}
    assert shape(build(noops(fs.noop("a", share="store"), fs.noop("b", inputs=["a"])))) == {"a->b": "blocking"}


def test_share_cache_fuses_all_readers_or_is_refused_by_name() -> None:
    wide = {"parallelism": 2}
    forward = {"a": fs.forward()}
    pipeline = noops(
        fs.noop("a", share="cache", **wide), fs.noop("b", inputs=forward, **wide), fs.noop("c", inputs=forward, **wide)
    )
    graph = build(pipeline)
    assert shape(graph) == {"a->b": "pipelined", "a->c": "pipelined"}
    assert [function.cached for vertex in graph.vertices for function in vertex.functions] == [True, False, False]
    assert len(pipelined_regions(graph)) == 1
    cases: list[tuple[dict[str, Any], str]] = [
        ({"inputs": {"a": fs.hash_by("k")}, **wide}, "distributed by hash"),
        ({"inputs": {"a": fs.rebalance()}}, "distributed by rebalance"),
        ({"inputs": forward, "slot_sharing_group": "x", **wide}, "another slot sharing group"),
        ({"inputs": forward, "on": "x", **wide}, "'b' runs on='x'"),
        ({"inputs": {**forward, "d": fs.rebalance()}, **wide}, "a result that is made from its own"),
    ]
    for options, reason in cases:
        later = [fs.noop("d", inputs=forward, **wide)] if "d" in options["inputs"] else []
        with pytest.raises(InvalidPipeline) as refused:
            build(noops(fs.noop("a", share="cache", **wide), fs.noop("b", **options), *later))
        for part in (reason, "a (tests", "'b'", "share='store'", "share='recompute'"):
            assert part in str(refused.value), (part, refused.value)


def test_consumers_of_different_layouts_read_different_datasets() -> None:
    wide = {"parallelism": 2}
    pipeline = noops(
        fs.noop("a", **wide),
        fs.noop("b", inputs={"a": fs.hash_by("k")}, **wide),
        fs.noop("c", inputs={"a": fs.hash_by("k")}, **wide),
        fs.noop("d", inputs={"a": fs.broadcast()}, **wide),
    )
    graph = build(pipeline)
    assert [dataset.name for dataset in graph.datasets] == ["a", "a"]
    assert graph.edges[0].keys == ("k",)


def test_regions_never_wait_for_each_other() -> None:
    """a -> b alone could be fused; but b also waits for c, which waits for a's stored result."""
    pipeline = noops(
        fs.noop("a", parallelism=2, share="recompute"),
        fs.noop("c", parallelism=2, inputs={"a": fs.rebalance()}),
        fs.noop("b", parallelism=2, inputs={"a": fs.forward(), "c": fs.rebalance()}),
    )
    assert set(shape(build(pipeline)).values()) == {"blocking"}


def test_regions_never_wait_for_each_other_by_different_functions() -> None:
    """a -> t could be fused, as no way leads from a to t otherwise; but z and y are one region: x waits for a, t for y."""
    wide = {"parallelism": 2}
    pipeline = noops(
        fs.noop("a", share="recompute", **wide),
        fs.noop("y", share="recompute", **wide),
        fs.noop("x", inputs={"a": fs.rebalance()}, **wide),
        fs.noop("z", inputs={"x": fs.forward(), "y": fs.forward()}, **wide),
        fs.noop("t", inputs={"a": fs.forward(), "y": fs.rebalance()}, **wide),
    )
    graph = build(pipeline)
    assert Topology(graph).logical
    assert shape(graph)["a->t"] == "blocking"
    assert len(pipelined_regions(graph)) == 3


def test_a_diamond_that_is_recomputed_is_one_region() -> None:
    pipeline = noops(
        fs.noop("a", share="recompute"), fs.noop("b", inputs=["a"]), fs.noop("c", inputs=["a", "b"]),
    )  # fmt: skip
    graph = build(pipeline)
    assert set(shape(graph).values()) == {"pipelined"}
    assert len(pipelined_regions(graph)) == 1


def test_ids_come_from_the_uid_of_the_chains_head() -> None:
    before = build(noops(fs.noop("a", uid="stable"), fs.noop("b", inputs=["a"])))
    after = build(noops(fs.noop("renamed", uid="stable"), fs.noop("more", inputs=["renamed"])), name="other")
    assert before.vertices[0].id == after.vertices[0].id
    assert after.name == "other"


def test_order_is_that_of_definition_where_edges_leave_a_choice() -> None:
    pipeline = noops(fs.noop("z"), fs.noop("b", inputs=["y"]), fs.noop("a"), fs.noop("y"))
    assert [vertex.name for vertex in build(pipeline).vertices] == ["z", "a", "y -> b"]


def test_a_function_says_what_it_takes() -> None:
    graph = build(wordcount(), parameters={"input": "in", "output": "out"})
    functions = {function.name: function for vertex in graph.vertices for function in vertex.functions}
    counts = functions["counts"]
    assert (counts.inputs, counts.parameters, counts.wants_context) == (("words",), ("at_least",), True)
    assert functions["lines"].wants_session
    assert functions["result"].inputs == ("counts", "top")
    assert counts.location.startswith("test_graph.py:")
    assert shape(graph) == {"words->counts": "pipelined", "counts->top": "blocking", "counts->result": "blocking", "top->result": "pipelined"}  # fmt: skip


def test_wire_format_is_pinned(golden: Callable[[str, str], None]) -> None:
    graph = build(wordcount(), parameters={"input": "in", "output": "out"})
    vertices = tuple(
        msgspec.structs.replace(
            vertex, functions=tuple(msgspec.structs.replace(each, location="f.py:1") for each in vertex.functions)
        )
        for vertex in graph.vertices
    )
    graph = msgspec.structs.replace(graph, vertices=vertices)
    encoded = encode_job_graph(graph)
    golden("jobgraph_v1.json", msgspec.json.format(encoded, indent=2).decode() + "\n")
    assert decode_job_graph(encoded) == graph


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"schema": 1}', b'{"schema": "x"}', b"\xff", b'{"schema": 1, "job_id": 3}']
)
def test_what_is_no_job_graph_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidJobGraph, match="not a job graph"):
        decode_job_graph(data)


def test_another_schema_is_refused_by_number() -> None:
    with pytest.raises(InvalidJobGraph, match="schema 99"):
        decode_job_graph(b'{"schema": 99, "vertices": "anything"}')


def test_the_environment_names_the_pyspark_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert current_environment().pyspark == importlib.metadata.version("pyspark")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert current_environment().pyspark == ""
