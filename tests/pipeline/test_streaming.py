"""Streaming pipelines: one query a sink, and what they can't be made of."""

from collections.abc import Callable
from typing import Any

import pytest

import firesteel as fs
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import ExchangeMode, InvalidJobGraph, JobGraph, JobType
from firesteel.model.options import ConfigurationError
from firesteel.pipeline.graph import build_job_graph
from firesteel.pipeline.regions import pipelined_regions
from firesteel.pipeline.streaming import computed_often

JOB = JobID("0" * 32)


def build(pipeline: fs.Pipeline, **options: Any) -> JobGraph:
    return build_job_graph(pipeline, job_id=JOB, **options)


def two_sinks(
    source: dict[str, Any] | None = None,
    counts: dict[str, Any] | None = None,
    sink: dict[str, Any] | None = None,
) -> fs.Pipeline:
    pipeline = fs.Pipeline("p", mode="streaming")

    @pipeline.source(**source or {})
    def lines(spark, splits=None): ...

    @pipeline.transform(**counts or {})
    def counts_of(lines): ...

    @pipeline.sink(**sink or {})
    def first(counts_of): ...

    @pipeline.sink
    def second(counts_of): ...

    return pipeline


def test_what_several_sinks_read_is_one_region_without_stored_results() -> None:
    pipeline = fs.Pipeline("p", mode="streaming")

    @pipeline.source
    def lines(spark): ...

    @pipeline.transform(inputs={"lines": fs.forward()})
    def words(lines): ...

    @pipeline.sink
    def first(words): ...

    @pipeline.sink
    def second(words): ...

    graph = build(pipeline)
    assert graph.job_type is JobType.STREAMING
    assert {edge.exchange for edge in graph.edges} == {ExchangeMode.PIPELINED}
    assert len(pipelined_regions(graph)) == 1
    told = computed_often(pipeline.definitions)
    assert [text.partition(":")[0] for text in told] == [
        "'lines' is computed once for each of its sinks (first, second)",
        "'words' is computed once for each of its sinks (first, second)",
    ]


def test_streams_that_share_nothing_are_regions_of_their_own() -> None:
    pipeline = fs.Pipeline("p", mode="streaming")
    for name in ("a", "b"):
        scope: dict[str, Any] = {}
        exec(f"def {name}(spark): ...\ndef {name}_out({name}): ...", scope)
        pipeline.source(scope[name])
        pipeline.sink(scope[f"{name}_out"])
    assert len(pipelined_regions(build(pipeline))) == 2
    assert computed_often(pipeline.definitions) == ()


def with_result() -> fs.Pipeline:
    pipeline = two_sinks()

    @pipeline.result
    def rows(counts_of): ...

    return pipeline


def with_noop() -> fs.Pipeline:
    pipeline = two_sinks()
    pipeline.add(fs.noop("idle"))
    return pipeline


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: two_sinks(counts={"parallelism": 2}),
            "parallelism=2: a function of a streaming pipeline sees each batch",
        ),
        (lambda: two_sinks(source={"splits": fs.file_splits("x", format="text")}), "has no splits"),
        (with_result, "a streaming pipeline returns no rows"),
        (with_noop, "a noop is no part of a streaming pipeline"),
        (lambda: two_sinks(counts={"share": "store"}), "share='store': a streaming pipeline stores nothing"),
        (lambda: two_sinks(counts={"share": "cache"}), "share='cache' is for batch pipelines"),
        (lambda: two_sinks(counts={"inputs": {"lines": fs.hash_by("k")}}), "input 'lines' is distributed by hash"),
        (lambda: two_sinks(counts={"slot_sharing_group": "b"}), "slot_sharing_group='b', and 'lines' has 'default'"),
        (lambda: two_sinks(counts={"on": "big"}), "on='big', and 'lines' has on='': a streaming pipeline stores"),
        (lambda: two_sinks(sink={"uid": "a/b"}), "uid 'a/b' of a streaming sink names directories"),
    ],
)
def test_what_a_stream_cannot_be_made_of(make: Callable[[], fs.Pipeline], words: str) -> None:
    with pytest.raises(InvalidJobGraph, match=words) as refused:
        build(make())
    assert "test_streaming.py:" in str(refused.value), "it names the line"


def test_parallelism_for_all_is_refused_too() -> None:
    with pytest.raises(InvalidJobGraph, match="parallelism=3"):
        build(two_sinks(), parallelism=3)


@pytest.mark.parametrize("trigger", ["available-now", "Available Now", "10 s", "0"])
def test_triggers_are_options_of_the_job(trigger: str) -> None:
    key = "execution.streaming.trigger"
    assert build(two_sinks(), configuration={key: trigger}).configuration == {key: trigger}


def test_a_trigger_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match="like 500 ms or 10 s, or available-now"):
        build(two_sinks(), configuration={"execution.streaming.trigger": "sometimes"})
