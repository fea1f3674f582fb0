"""Traces of jobs: what a receiver of OTLP over HTTP decodes by protobuf's own library."""

import asyncio
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

from firesteel.model.failures import FailureKind
from firesteel.testing.backend import TaskScript
from tests.adapters.receiver import receiver
from tests.rest.cluster import graph, rest_cluster

FIELD = descriptor_pb2.FieldDescriptorProto
PLAIN = {
    "string": FIELD.TYPE_STRING,
    "bytes": FIELD.TYPE_BYTES,
    "bool": FIELD.TYPE_BOOL,
    "int64": FIELD.TYPE_INT64,
    "int32": FIELD.TYPE_INT32,
    "fixed64": FIELD.TYPE_FIXED64,
}
MESSAGES = {
    "AnyValue": {"string_value": (1, "string"), "bool_value": (2, "bool"), "int_value": (3, "int64")},
    "KeyValue": {"key": (1, "string"), "value": (2, "AnyValue")},
    "Resource": {"attributes": (1, "KeyValue*")},
    "Scope": {"name": (1, "string"), "version": (2, "string")},
    "Status": {"message": (2, "string"), "code": (3, "int32")},
    "Span": {
        "trace_id": (1, "bytes"),
        "span_id": (2, "bytes"),
        "parent_span_id": (4, "bytes"),
        "name": (5, "string"),
        "kind": (6, "int32"),
        "start_time_unix_nano": (7, "fixed64"),
        "end_time_unix_nano": (8, "fixed64"),
        "attributes": (9, "KeyValue*"),
        "status": (15, "Status"),
    },
    "ScopeSpans": {"scope": (1, "Scope"), "spans": (2, "Span*")},
    "ResourceSpans": {"resource": (1, "Resource"), "scope_spans": (2, "ScopeSpans*")},
    "ExportTraceServiceRequest": {"resource_spans": (1, "ResourceSpans*")},
}
"""Of opentelemetry/proto/{collector/trace,trace,common,resource}/v1: the fields that are sent, by number and type; * is many."""


@pytest.fixture(scope="module")
def request_type() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="otlp.proto", package="otlp", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = FIELD.LABEL_REPEATED if kind.endswith("*") else FIELD.LABEL_OPTIONAL
            made = message.field.add(name=field, number=number, label=label)
            if kind in PLAIN:
                made.type = PLAIN[kind]
            else:
                made.type, made.type_name = FIELD.TYPE_MESSAGE, f".otlp.{kind.rstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("otlp.ExportTraceServiceRequest"))


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in attributes}


def test_the_way_of_jobs(tmp_path: Any, request_type: Any) -> None:
    """One that finishes after a failure, and one that fails."""
    script = TaskScript()
    script.pause_s = lambda: 0.02
    script.fail("counts", times=1, kind=FailureKind.ENVIRONMENT)
    script.fail("broken", times=99, kind=FailureKind.USER)
    good, bad = graph("lines*2 => counts", "good"), graph("broken", "bad")

    async def story() -> list[bytes]:
        async with receiver() as received:
            options = {
                "traces.reporter.otel.exporter.endpoint": f"{received.url}/v1/traces",
                "traces.reporter.otel.service.name": "nightly",
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.delay": "20 ms",
                "restart-strategy.fixed-delay.attempts": "1",
            }
            async with rest_cluster(tmp_path, script=script, options=options) as rest:
                for job in (good, bad):
                    await rest.submit(job)
                    await rest.finish(job.job_id)
                while len(received.bodies) < 2:
                    await asyncio.sleep(0.01)
            assert all(each["content-type"] == "application/x-protobuf" for each in received.headers)
            return received.bodies

    requests = [request_type.FromString(body) for body in asyncio.run(story())]
    assert [request.SerializeToString() for request in requests], "all of it is understood"
    told = {
        bytes(part.scope_spans[0].spans[0].trace_id).hex(): part for each in requests for part in each.resource_spans
    }
    assert set(told) == {good.job_id, bad.job_id}
    assert values(told[good.job_id].resource.attributes)["service.name"] == "nightly"
    assert told[good.job_id].scope_spans[0].scope.name == "firesteel"
    root, *others = told[good.job_id].scope_spans[0].spans
    assert (root.name, root.parent_span_id, root.status.code) == ("good", b"", 0)
    assert values(root.attributes)["firesteel.job.status"] == "FINISHED"
    ids = {span.span_id: span for span in (root, *others)}
    assert len(ids) == len(others) + 1, "no id is two spans'"
    names = [span.name for span in others]
    assert names[:2] == ["queue", "vertex lines"]
    assert names[-1] == "commit"
    assert {"lines (2/2) #0", "counts (1/1) #0", "counts (1/1) #1", "schedule", "deploy", "run"} <= set(names)
    for span in others:
        parent = ids[span.parent_span_id]
        assert 0 < parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano, span.name
        assert span.end_time_unix_nano <= root.end_time_unix_nano, span.name
    failed = next(span for span in others if span.name == "counts (1/1) #0")
    assert failed.status.code == 2
    assert ids[failed.parent_span_id].name == "vertex counts"
    broken = told[bad.job_id].scope_spans[0].spans[0]
    assert (broken.status.code, bool(broken.status.message)) == (2, True)
