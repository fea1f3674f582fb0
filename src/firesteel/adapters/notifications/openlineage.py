"""Run events of OpenLineage (https://openlineage.io/spec/2-0-2/OpenLineage.json) for jobs.

Written out here rather than by the official client, which brings an HTTP library, attrs and a configuration of its own
for what are five small records.
"""

import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from firesteel.model.failures import FailureInfo
from firesteel.model.jobgraph import JobGraph, JobType, JobVertex
from firesteel.model.secrets import redacted_text
from firesteel.model.splits import places_read
from firesteel.model.states import JobStatus
from firesteel.model.statuschange import JobStatusChange
from firesteel.model.tasks import Columns
from firesteel.model.views import CommittedSink, JobResult

SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = "https://openlineage.io/spec/facets"
PRODUCER = f"https://pypi.org/project/firesteel/{version('firesteel')}"
EVENT_TYPES = {JobStatus.FINISHED: "COMPLETE", JobStatus.FAILED: "FAIL", JobStatus.CANCELED: "ABORT"}
_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://)?([^/?#]*)([^?#]*)")
"""Scheme, authority and path of a URI, whatever is in them: RFC 3986, appendix B."""


class Run(msgspec.Struct, frozen=True, rename="camel"):
    run_id: str
    facets: dict[str, dict[str, Any]]


class Job(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    facets: dict[str, dict[str, Any]]


class Dataset(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    namespace: str
    name: str
    facets: dict[str, dict[str, Any]] = {}
    output_facets: dict[str, dict[str, Any]] = {}
    """Of outputs only."""


class RunEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    event_type: str
    event_time: str
    run: Run
    job: Job
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
    producer: str = PRODUCER
    schema_url: str = msgspec.field(default=SCHEMA, name="schemaURL")


class Lineage:
    """Makes events of changes: START when a job runs, or at its end where that was not seen; then how it ended."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._started: dict[str, None] = {}

    def events(self, change: JobStatusChange) -> list[bytes]:
        """Bodies to be sent, in order; none for a state that is none of OpenLineage's."""
        made = []
        has_ended = change.status.is_globally_terminal
        if change.job_id not in self._started and (has_ended or change.status is JobStatus.RUNNING):
            began_ms = change.result.start_time_ms if change.result is not None else change.time_ms
            self._started[change.job_id] = None
            made.append(self._event(change, "START", began_ms))
        if has_ended:
            self._started.pop(change.job_id, None)
            made.append(self._event(change, EVENT_TYPES[change.status], change.time_ms))
        return [msgspec.json.encode(event) for event in made]

    def _event(self, change: JobStatusChange, event_type: str, time_ms: int) -> RunEvent:
        """Outputs are told when they can be seen: a job that failed may have committed some."""
        ends = event_type != "START"
        failure = change.failure if event_type in ("FAIL", "ABORT") else None
        return RunEvent(
            event_type=event_type,
            event_time=datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="milliseconds"),
            run=Run(str(uuid.UUID(hex=change.job_id)), _run_facets(failure)),
            job=Job(self._namespace, change.name, _job_facets(change.graph)),
            inputs=_inputs(change.graph, change.result),
            outputs=tuple(map(_output, change.result.sinks)) if ends and change.result is not None else (),
        )


def _inputs(graph: JobGraph | None, result: JobResult | None) -> tuple[Dataset, ...]:
    """Inputs as they were seen of a job that has ended; before that, those that its sources declare."""
    found = list(result.reads) if result is not None else []
    if graph is not None and not found:
        found = [place for vertex in graph.vertices for place in _declared(vertex, graph.parameters)]
    columns = result.read_columns if result is not None else {}
    made = {_place(each): Dataset(*_place(each), _schema(columns.get(each, ()))) for each in found}
    return tuple(made.values())


def _declared(vertex: JobVertex, parameters: Mapping[str, object]) -> Iterator[str]:
    for function in vertex.functions:
        if function.splits is not None:
            yield from places_read(function.splits, parameters)


def _output(sink: CommittedSink) -> Dataset:
    statistics: dict[str, Any] = {"fileCount": sink.files}
    if sink.rows >= 0:
        statistics["rowCount"] = sink.rows
    if sink.size_bytes >= 0:
        statistics["size"] = sink.size_bytes
    facet = _facet("1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet")
    return Dataset(*_place(sink.target), _schema(sink.columns), {"outputStatistics": {**facet, **statistics}})


def _schema(columns: Columns) -> dict[str, dict[str, Any]]:
    if not columns:
        return {}
    facet = _facet("1-1-1/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet")
    return {
        "schema": {**facet, "fields": [{"name": name, **({"type": kind} if kind else {})} for name, kind in columns]}
    }


def _place(target: str) -> tuple[str, str]:
    """Namespace and name of a dataset, as OpenLineage's naming has them: the storage, and the place in it."""
    uri, _, table = target.removeprefix("jdbc:").partition(" ") if target.startswith("jdbc:") else (target, "", "")
    parts = _split(uri)
    path, host = parts.path.strip("/"), parts.netloc.rpartition("@")[2]
    match parts.scheme:
        case "" if not uri.startswith("/"):
            return "catalog", uri  # a table, by the name that Spark knows it by
        case "":
            return "file", uri
        case "file":
            return "file", unquote(parts.path)
        case "s3" | "s3a":
            return f"s3://{host}", path or "/"
        case scheme:
            return f"{scheme}://{host}", ".".join(part for part in (path, table) if part) or "/"


def _split(uri: str) -> SplitResult:
    """Parts of a URI; also of what is none, but may be given to Spark (`s3://in[12]/x`)."""
    try:
        return urlsplit(uri)
    except ValueError:
        found = _PARTS.match(uri)
        assert found is not None, "it matches any text"
        return SplitResult((found[1] or "").lower(), found[2], found[3], "", "")


def _run_facets(failure: FailureInfo | None) -> dict[str, dict[str, Any]]:
    if failure is None:
        return {}
    facet = _facet("1-0-0/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet")
    told = {"message": failure.shown_headline(), "programmingLanguage": "PYTHON"}
    if failure.trace:
        told["stackTrace"] = redacted_text(failure.trace)
    return {"errorMessage": {**facet, **told}}


def _job_facets(graph: JobGraph | None) -> dict[str, dict[str, Any]]:
    kind = graph.job_type if graph is not None else JobType.BATCH
    facet = _facet("2-0-3/JobTypeJobFacet.json#/$defs/JobTypeJobFacet")
    return {"jobType": {**facet, "processingType": kind.name, "integration": "FIRESTEEL", "jobType": "JOB"}}


def _facet(schema: str) -> dict[str, str]:
    return {"_producer": PRODUCER, "_schemaURL": f"{FACETS}/{schema}"}
