"""Sources with input splits, as they are declared."""

import re
from datetime import UTC, date, datetime
from typing import Any

import pytest

import firesteel as fs
from firesteel.cli.jobs.plan import plan_lines
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import ExchangeMode, FunctionKind, JobGraph, Partitioner
from firesteel.pipeline.build import BuiltJob
from firesteel.pipeline.graph import build_job_graph


def built(splits: Any, parallelism: int | None = 3, **options: Any) -> JobGraph:
    pipeline = fs.Pipeline("p")

    def lines(spark: Any, splits: fs.FileSplits) -> Any: ...
    def out(lines: Any) -> None: ...

    ours: dict[str, Any] = {} if parallelism is None else {"parallelism": parallelism}
    pipeline.source(splits=splits, **ours)(lines)
    spread: dict[str, Any] = {**ours, "inputs": {"lines": fs.forward()}} if ours else {}
    pipeline.sink(**spread)(out)
    return build_job_graph(pipeline, job_id=JobID("0" * 32), require_parameters=False, **options)


FILES = fs.file_splits(fs.param("input"), "json", split_size="64m", multiLine=True)


def test_splits_are_found_by_a_vertex_of_their_own_and_results_are_stored() -> None:
    graph = built(FILES)
    assert [(vertex.name, vertex.parallelism) for vertex in graph.vertices] == [
        ("lines.splits", 1),
        ("lines", 3),
        ("out", 3),
    ]
    assert graph.vertices[0].functions[0].kind is FunctionKind.SPLITS
    assert {edge.exchange for edge in graph.edges} == {ExchangeMode.BLOCKING}
    assert sum(edge.partitioner is Partitioner.SPLITS for edge in graph.edges) == 1
    assert graph.parameter_types == {"input": "str"}
    shown = "\n".join(plan_lines(BuiltJob(graph=graph)))
    assert "splits: json files of parameter input, 64 MiB each" in shown
    assert "<- lines.splits  drawn batch by batch, while the subtasks run" in shown


KAFKAS_OWN: dict[str, Any] = {"kafka.x": "1"}
KAFKA = fs.kafka_splits(
    ["orders", "returns"],
    fs.param("servers"),
    starting=datetime(2026, 1, 1, tzinfo=UTC),
    ending={"orders": {0: 7}},
    properties={"kafka.security.protocol": "SSL", "ssl.key.password": "env:KEY"},
    includeHeaders=True,
)


def test_offsets_of_kafka_are_found_once_even_for_one_subtask() -> None:
    for parallelism in (1, 3):
        graph = built(KAFKA, parallelism)
        assert [vertex.name for vertex in graph.vertices] == ["lines.splits", "lines", "out"]
        assert graph.vertices[1].draws_splits
        assert {edge.exchange for edge in graph.edges} == {ExchangeMode.BLOCKING}
        assert graph.parameter_types == {"servers": "str"}
    shown = "\n".join(plan_lines(BuiltJob(graph=built(KAFKA))))
    assert "splits: Kafka topics orders,returns at parameter servers, from 2026-01-01T00:00:00+00:00 to" in shown


def test_what_is_said_of_kafka_reaches_spark_as_it_means_it() -> None:
    assert KAFKA.topics == "orders,returns"
    assert KAFKA.ending == '{"orders": {"0": 7}}'
    assert KAFKA.properties == {"security.protocol": "SSL", "ssl.key.password": "env:KEY"}
    assert KAFKA.options == {"includeHeaders": "true"}
    in_other_letters = fs.kafka_splits("t", "b", includeheaders=True, MINPARTITIONS=4)
    assert in_other_letters.options == {"includeHeaders": "true", "minPartitions": "4"}


def test_with_parallelism_one_nothing_is_drawn() -> None:
    graph = built(FILES, None)
    assert [vertex.name for vertex in graph.vertices] == ["lines -> out"]
    assert "splits: json files of parameter input" in "\n".join(plan_lines(BuiltJob(graph=graph)))
    assert not graph.edges


def test_a_source_with_splits_follows_the_default_parallelism() -> None:
    pipeline = fs.Pipeline("p")

    def days(splits: Any) -> Any: ...
    def out(days: Any) -> None: ...

    pipeline.source(splits=fs.date_splits(fs.param("start", date(2024, 1, 1)), fs.param("end")))(days)
    pipeline.sink(parallelism=1)(out)
    graph = build_job_graph(pipeline, job_id=JobID("0" * 32), parallelism=4, require_parameters=False)
    assert [vertex.parallelism for vertex in graph.vertices] == [1, 4, 1]
    assert (graph.parameters, graph.parameter_types) == ({"start": "2024-01-01"}, {"start": "date", "end": "date"})


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: fs.file_splits(""), "give a path"),
        (lambda: fs.file_splits("x", "excel"), "must be one of parquet, csv"),
        (lambda: fs.file_splits("x", split_size="much"), "split_size='much'"),
        (lambda: fs.range_splits(" ", 0, 1, 1), "name the column"),
        (lambda: fs.range_splits("n", 0.5, 1, 1), "lower=0.5"),  # type: ignore[arg-type]
        (lambda: fs.date_splits("tomorrow", "2024-01-01"), "start='tomorrow'"),
        (lambda: fs.date_splits("2024-01-01", "2024-01-02", days=0), "days=0"),
        (lambda: fs.kafka_splits("", "b:9092"), "topics=''"),
        (lambda: fs.kafka_splits("t", ""), "servers=''"),
        (lambda: fs.kafka_splits("t", "b", split_records=0), "split_records=0"),
        (lambda: fs.kafka_splits("t", "b", starting="latest"), "would read nothing"),
        (lambda: fs.kafka_splits("t", "b", ending="2026-01-01"), "has no time zone"),
        (lambda: fs.kafka_splits("t", "b", starting=7), "starting=7"),
        (lambda: fs.kafka_splits("t", "b", failOnDataLoss=False), "always fail the job"),
        (lambda: fs.kafka_splits("t", "b", startingOffsets="{}"), "is said by starting=... here"),
        (lambda: fs.kafka_splits("t", "b", includeHeader=True), "did you mean 'includeHeaders'?"),
        (lambda: fs.kafka_splits("t", "b", **KAFKAS_OWN), 'properties={"x": ...}'),
        (lambda: fs.kafka_splits("t", "b", properties={"bootstrap.servers": "c"}), "set by what the call says"),
        (
            lambda: fs.kafka_splits("t", "b", properties={"sasl.jaas.config": "s"}),
            "property sasl.jaas.config is a secret",
        ),
        (
            lambda: fs.kafka_splits("t", "b", properties={"ssl.keystore.key": "s"}),
            "property ssl.keystore.key is a secret",
        ),
        (lambda: fs.param("no name"), 'like param("input")'),
        (lambda: built("files"), "must be file_splits"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_written(make: Any, named: str) -> None:
    with pytest.raises(fs.InvalidPipeline, match=re.escape(named)):
        make()


def test_splits_belong_to_a_source_that_takes_them() -> None:
    pipeline = fs.Pipeline("p")
    with pytest.raises(fs.InvalidPipeline, match="takes the argument `splits`"):
        pipeline.source(splits=FILES)(lambda_like)
    with pytest.raises(fs.InvalidPipeline, match="only a source has input splits"):
        pipeline.sink(splits=FILES)(lambda_like)  # type: ignore[call-overload]


def lambda_like(spark: Any) -> Any: ...
