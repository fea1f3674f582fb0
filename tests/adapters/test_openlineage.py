"""Run events of OpenLineage: what the specification asks for, with inputs and outputs as far as they are known."""

import re
import uuid
from datetime import datetime
from typing import Any

import msgspec
import pytest

from firesteel.adapters.notifications.openlineage import Lineage
from firesteel.model.ids import JobVertexID
from firesteel.model.jobgraph import Function, FunctionKind, JobGraph, JobVertex, RuntimeEnvironment
from firesteel.model.splits import FileInputFormat, KafkaInputFormat, ParameterReference, RangeInputFormat
from firesteel.model.states import JobStatus
from firesteel.model.statuschange import JobStatusChange
from firesteel.model.views import CommittedSink, JobResult
from tests.adapters.statuschanges import FAILURE, JOB, change


def source(name: str, splits: Any) -> JobVertex:
    function = Function(name=name, uid=name, kind=FunctionKind.SOURCE, splits=splits)
    return JobVertex(id=JobVertexID(name), name=name, functions=(function,))


GRAPH = JobGraph(
    job_id=JOB,
    name="wordcount",
    vertices=(
        source("files", FileInputFormat(path=ParameterReference("input"), format="csv", split_mib=1)),
        source("same", FileInputFormat(path="s3a://bucket/in/words", format="csv", split_mib=1)),
        source("local", FileInputFormat(path="/data/in", format="csv", split_mib=1)),
        source("absent", FileInputFormat(path=ParameterReference("nothing"), format="csv", split_mib=1)),
        source("range", RangeInputFormat(column="id", lower=0, upper=9, count=3)),
        source(
            "topics",
            KafkaInputFormat(servers="k1:9092,k2:9092", topics="a, b", starting="", ending="", split_records=9),
        ),
    ),
    datasets=(),
    edges=(),
    environment=RuntimeEnvironment(python="3.11", pyspark="4.1"),
    parameters={"input": "s3a://bucket/in/words"},
)
RESULT = JobResult(
    job_id=JOB,
    name="wordcount",
    status=JobStatus.FINISHED,
    start_time_ms=1_700_000_000_000,
    end_time_ms=1_700_000_005_000,
    sinks=(
        CommittedSink(
            function="result",
            target="/out/words",
            mode="overwrite",
            files=2,
            rows=7,
            size_bytes=900,
            columns=(("word", "string"), ("n", "bigint")),
        ),
        CommittedSink(function="lake", target="spark_catalog.default.t", mode="append", files=1, rows=1, size_bytes=1),
        CommittedSink(function="table", target="jdbc:postgresql://u:pw@db:5432/shop public.t", mode="append", files=0),
    ),
)


def check_run_event(event: Any) -> None:
    """What the schema of OpenLineage 2-0-2 asks of a RunEvent and its facets."""
    assert set(event) >= {"eventTime", "producer", "schemaURL", "run", "job"}
    assert event["eventType"] in ("START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER")
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    uris = [event["producer"], event["schemaURL"]]
    assert str(uuid.UUID(event["run"]["runId"])) == event["run"]["runId"]
    assert all(isinstance(event["job"][name], str) and event["job"][name] for name in ("namespace", "name"))
    facets = [*event["run"]["facets"].values(), *event["job"]["facets"].values()]
    for dataset in (*event["inputs"], *event["outputs"]):
        assert all(isinstance(dataset[name], str) and dataset[name] for name in ("namespace", "name"))
        facets += [*dataset.get("facets", {}).values(), *dataset.get("outputFacets", {}).values()]
    for facet in facets:
        uris += [facet["_producer"], facet["_schemaURL"]]
    assert all(re.fullmatch(r"https://\S+", uri) for uri in uris)


def lineage_of(*changes: JobStatusChange) -> list[Any]:
    lineage = Lineage("prod")
    events = [msgspec.json.decode(body) for each in changes for body in lineage.events(each)]
    for event in events:
        check_run_event(event)
    return events


def test_a_run_starts_and_completes_with_inputs_and_outputs() -> None:
    finished = change(JobStatus.FINISHED, RESULT.end_time_ms, graph=GRAPH, result=RESULT)
    start, complete = lineage_of(
        change(JobStatus.CREATED, graph=GRAPH), change(graph=GRAPH), change(graph=GRAPH), finished
    )
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"] == complete["run"] == {"runId": "01234567-89ab-cdef-0123-456789abcdef", "facets": {}}
    assert (start["job"]["namespace"], start["job"]["name"]) == ("prod", "wordcount")
    assert complete["eventTime"] == "2023-11-14T22:13:25.000+00:00"
    assert (
        start["inputs"]
        == complete["inputs"]
        == [
            {"namespace": "s3://bucket", "name": "in/words"},
            {"namespace": "file", "name": "/data/in"},
            {"namespace": "kafka://k1:9092", "name": "a"},
            {"namespace": "kafka://k1:9092", "name": "b"},
        ]
    )
    assert start["outputs"] == []
    written, lake, table = complete["outputs"]
    assert (lake["namespace"], lake["name"]) == ("catalog", "spark_catalog.default.t")
    assert (table["namespace"], table["name"]) == ("postgresql://db:5432", "shop.public.t")
    assert (written["namespace"], written["name"]) == ("file", "/out/words")
    statistics = written["outputFacets"]["outputStatistics"]
    assert (statistics["fileCount"], statistics["rowCount"], statistics["size"]) == (2, 7, 900)
    assert written["facets"]["schema"]["fields"] == [
        {"name": "word", "type": "string"},
        {"name": "n", "type": "bigint"},
    ]
    assert "rowCount" not in table["outputFacets"]["outputStatistics"]
    assert "facets" not in table


def test_inputs_that_were_seen_are_told_in_the_end() -> None:
    known = {"/data/in": (("n", "bigint"), ("day", ""))}
    result = msgspec.structs.replace(RESULT, reads=("/data/in", "sales.orders"), read_columns=known)
    start, complete = lineage_of(
        change(graph=GRAPH), change(JobStatus.FINISHED, RESULT.end_time_ms, graph=GRAPH, result=result)
    )
    assert len(start["inputs"]) == 4
    files, table = complete["inputs"]
    assert (files["namespace"], files["name"]) == ("file", "/data/in")
    assert files["facets"]["schema"]["fields"] == [{"name": "n", "type": "bigint"}, {"name": "day"}]
    assert table == {"namespace": "catalog", "name": "sales.orders"}


@pytest.mark.parametrize(("status", "kind"), [(JobStatus.FAILED, "FAIL"), (JobStatus.CANCELED, "ABORT")])
def test_a_run_that_was_not_seen_to_start_starts_before_its_end(status: JobStatus, kind: str) -> None:
    result = msgspec.structs.replace(RESULT, status=status, sinks=())
    start, end = lineage_of(change(status, result.end_time_ms, failure=FAILURE, result=result))
    assert (start["eventType"], end["eventType"]) == ("START", kind)
    assert start["eventTime"] == "2023-11-14T22:13:20.000+00:00"
    error = end["run"]["facets"]["errorMessage"]
    assert (error["message"], error["programmingLanguage"]) == ("words: no column, password=******", "PYTHON")
    assert error["stackTrace"] == "line 1"


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("s3://in[12]/part[0]/x?token=t", ("s3://in[12]", "part[0]/x")),
        ("hdfs://u:pw@[nn/data", ("hdfs://[nn", "data")),
        ("S3A://a\u2100b/x", ("s3://a\u2100b", "x")),
        ("//[nn/data", ("file", "//[nn/data")),
    ],
)
def test_what_is_no_uri_has_a_place_all_the_same(path: str, place: tuple[str, str]) -> None:
    sink = CommittedSink(function="f", target=path, mode="append", files=1)
    result = msgspec.structs.replace(RESULT, sinks=(sink,))
    (_, end) = lineage_of(change(JobStatus.FINISHED, result=result))
    (output,) = end["outputs"]
    assert (output["namespace"], output["name"]) == place
