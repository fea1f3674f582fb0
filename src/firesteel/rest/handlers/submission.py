"""Submission of a job: our JSON graph and its artifacts, in one multipart request."""

import asyncio
from pathlib import Path

import msgspec

from firesteel.model.jobgraph import JobGraph, decode_job_graph
from firesteel.model.stored import UNREADABLE
from firesteel.rest.call import Call
from firesteel.rest.codecs import ID
from firesteel.rest.errors import RestError, bad_request
from firesteel.rest.schema.jobs import JobSubmitRequestBody, JobSubmitResponseBody
from firesteel.rest.uploads import Upload, UploadedFile

REQUEST_PART = "request"
GRAPH_BYTES_MAX = 16 << 20
"""Largest job graph: it is read whole, and in one go."""
JAVA_OBJECT = b"\xac\xed"
"""First bytes of the job graphs that Flink's own clients make."""
FLINKS_OWN_JOB = (
    "This is a job of Java classes for Flink, as `flink run` makes one of a jar file: firesteel runs PySpark pipelines."
    " Submit a Python file with `firesteel run FILE.py`, or upload it to /jars and run it from there."
)


async def submit_job(call: Call) -> JobSubmitResponseBody:
    """Accepted: the job is safe with the master. The same submission again is the same job."""
    async with call.services.uploads.received(call.request) as upload:
        body = _request(upload)
        graph_file, artifacts = _sorted_out(body, upload)
        graph = await _graph(graph_file)
        graph = msgspec.structs.replace(graph, owner=call.user.name)
        _compare(graph, artifacts)
        paths = await asyncio.to_thread(_paths, artifacts) if artifacts else {}
        job_id = await call.gateway.submit_job(graph, paths)
    return JobSubmitResponseBody(f"/jobs/{job_id}")


async def _graph(file: UploadedFile) -> JobGraph:
    """Raises InvalidJobGraph, or RestError."""
    if file.size_bytes > GRAPH_BYTES_MAX:
        raise RestError(413, f"The job graph has more than {GRAPH_BYTES_MAX} bytes.")
    content = await asyncio.to_thread(file.content) if file.is_on_disk else file.content()
    if content.startswith(JAVA_OBJECT):
        raise bad_request(FLINKS_OWN_JOB)
    return checked_graph(decode_job_graph(content))


def checked_graph(graph: JobGraph) -> JobGraph:
    """The graph, whose ids are what clients of Flink's API can read. Raises RestError."""
    ids = (graph.job_id, *(vertex.id for vertex in graph.vertices), *(dataset.id for dataset in graph.datasets))
    for each in ids:
        if ID.fullmatch(each) is None:
            raise bad_request(f"The job graph has the id {each!r}: ids are 32 hex digits in lower case.")
    return graph


def _paths(files: dict[str, UploadedFile]) -> dict[str, Path]:
    return {file.sha256: file.path() for file in files.values()}


def _request(upload: Upload) -> JobSubmitRequestBody:
    if REQUEST_PART not in upload.fields:
        raise bad_request(f"The part {REQUEST_PART!r} with the names of the files is missing.")
    try:
        return msgspec.json.decode(upload.fields[REQUEST_PART], type=JobSubmitRequestBody)
    except UNREADABLE as error:
        raise bad_request(f"The part {REQUEST_PART!r} is not what it should be: {error}") from None


def _sorted_out(body: JobSubmitRequestBody, upload: Upload) -> tuple[UploadedFile, dict[str, UploadedFile]]:
    """The graph's file, and the artifacts' by their names; every file has one purpose."""
    if body.job_jar_file_names:
        raise bad_request(FLINKS_OWN_JOB)
    named = [body.job_graph_file_name, *body.job_artifact_file_names]
    if len(set(named)) != len(named):
        raise bad_request("A file is named twice in the request.")
    if missing := [name for name in named if name not in upload.files]:
        raise bad_request(f"These files are named in the request and were not uploaded: {', '.join(missing)}.")
    if surplus := [name for name in upload.files if name not in named]:
        raise bad_request(f"These files were uploaded and are not named in the request: {', '.join(surplus)}.")
    return upload.files[body.job_graph_file_name], {name: upload.files[name] for name in body.job_artifact_file_names}


def _compare(graph: JobGraph, uploaded: dict[str, UploadedFile]) -> None:
    """Check that what was uploaded is what the graph says of its artifacts."""
    by_hash = {file.sha256: file for file in uploaded.values()}
    known = {artifact.sha256 for artifact in graph.artifacts}
    for artifact in graph.artifacts:
        file = by_hash.get(artifact.sha256)
        if file is None:
            raise bad_request(f"No uploaded file has the SHA-256 {artifact.sha256} of the artifact {artifact.name}.")
        if file.size_bytes != artifact.size_bytes:
            raise bad_request(
                f"The artifact {artifact.name} has {file.size_bytes} bytes, and {artifact.size_bytes} by the job graph."
            )
    if surplus := [name for name, file in uploaded.items() if file.sha256 not in known]:
        raise bad_request(f"The job graph knows nothing of these files: {', '.join(surplus)}.")
