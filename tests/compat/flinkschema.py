"""Paths, fields and types of Flink's REST API v1 (Flink 2.3, docs/static/generated/rest_v1_dispatcher.yml), mended.

The file holds these facts alone, none of the descriptions.
"""

from pathlib import Path
from typing import Any

import jsonschema
import msgspec

DOCUMENT = Path(__file__).parent / "flink_rest_v1.json"

HEX_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
METRICS = {"type": "array", "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}}


def only(field: str) -> dict[str, Any]:
    """An object with this field alone."""
    cause = {"$ref": "#/components/schemas/SerializedThrowable"}
    kinds = {"location": {"type": "string"}, "checkpointId": {"type": "integer"}}
    shape = {"type": "object", "properties": {field: kinds.get(field, cause)}, "required": [field]}
    return {**shape, "additionalProperties": False}


MENDED: dict[str, Any] = {
    "JobID": HEX_ID,
    "JobVertexID": HEX_ID,
    "TriggerId": HEX_ID,
    "ApplicationID": HEX_ID,
    "SlotSharingGroupId": HEX_ID,
    "JobConfigInfo": {
        "type": "object",
        "properties": {
            "jid": HEX_ID,
            "name": {"type": "string"},
            "execution-config": {"$ref": "#/components/schemas/ExecutionConfigInfo"},
        },
    },
    "MetricCollectionResponseBody": METRICS,
    "AggregatedMetricsResponseBody": METRICS,
    "JobResult": {
        "type": "object",
        "properties": {
            "id": HEX_ID,
            "name": {"type": "string"},
            "application-status": {"enum": ["SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"]},
            "accumulator-results": {"type": "object"},
            "net-runtime": {"type": "integer"},
            "application-id": HEX_ID,
            "start-time": {"type": "integer"},
            "end-time": {"type": "integer"},
        },
    },
    "SerializedThrowable": {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("class", "stack-trace", "serialized-throwable")},
    },
    "AsynchronousOperationResult": {
        "type": "object",
        "properties": {
            "status": {"$ref": "#/components/schemas/QueueStatus"},
            "operation": {
                "anyOf": [{"type": "null"}, *map(only, ("location", "failure-cause", "failureCause", "checkpointId"))]
            },
        },
    },
    "ProcessingMode": {"enum": ["exactly_once", "at_least_once"]},
    "ResourceID": {"type": "string"},
    "JobVertexBackPressureInfo": {"type": "object", "properties": {"status": {"enum": ["deprecated"]}}},
}
"""Schemas that do not say what Flink's classes write and read."""

MAY_BE_ABSENT = {
    "JobDetailsInfo": {"stream-graph"},
    "JobExecutionResultResponseBody": {"job-execution-result"},
    "Input": {"caching", "local_strategy"},
    "ClusterOverviewWithVersion": {"slots-free-and-blocked", "taskmanagers-blocked"},
}
"""Fields that Flink itself leaves out where they say nothing."""

MAY_BE_NULL = {
    "ExceptionInfo": ("taskName", "endpoint", "taskManagerId"),
    "RootExceptionInfo": ("taskName", "endpoint", "taskManagerId"),
    "CheckpointStatistics": ("savepointFormat",),
    "LatestCheckpoints": ("completed", "failed", "restored", "savepoint"),
    "LatestRescales": ("completed", "failed", "ignored"),
    "JobRescaleConfigInfo": ("schedulerExecutionMode",),
    "TaskManagerMetricsInfo": (
        *("directCount", "directMax", "directUsed", "heapCommitted", "heapMax", "heapUsed", "mappedCount", "mappedMax"),
        *("mappedUsed", "nettyShuffleMemoryAvailable", "nettyShuffleMemorySegmentsAvailable"),
        *("nettyShuffleMemorySegmentsTotal", "nettyShuffleMemorySegmentsUsed", "nettyShuffleMemoryTotal"),
        *("nettyShuffleMemoryUsed", "nonHeapCommitted", "nonHeapMax", "nonHeapUsed"),
    ),
    "TaskExecutorMemoryConfiguration": (
        *("frameworkHeap", "frameworkOffHeap", "jvmMetaspace", "jvmOverhead", "managedMemory", "networkMemory"),
        *("taskHeap", "taskOffHeap", "totalFlinkMemory", "totalProcessMemory"),
    ),
}
"""Fields that are null where there is nothing, which the document does not tell."""


def load() -> dict[str, Any]:
    """The document, mended; every object must have every field that is described."""
    document: dict[str, Any] = msgspec.json.decode(DOCUMENT.read_bytes())
    schemas = document["components"]["schemas"]
    schemas.update(MENDED)
    for name, schema in schemas.items():
        if "properties" in schema:
            schema["required"] = sorted(set(schema["properties"]) - MAY_BE_ABSENT.get(name, set()))
        for field in MAY_BE_NULL.get(name, ()):
            schema["properties"][field] = {"anyOf": [schema["properties"][field], {"type": "null"}]}
    return document


def check(document: dict[str, Any], operation: dict[str, Any], status: int, answer: Any) -> None:
    """Raises ValidationError when the answer is not what the document says of that status."""
    described = operation["responses"][str(status)]
    content = described.get("content", {}).get("application/json")
    if content is None:
        return
    schema = {**content["schema"], "components": document["components"]}
    jsonschema.validate(answer, schema, cls=jsonschema.Draft202012Validator)
