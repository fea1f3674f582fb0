"""Files of pipelines: uploaded, listed, and run. What is in them is read and run on workers, never here."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator

import msgspec

from firesteel.model import options
from firesteel.model.ids import JobID
from firesteel.model.inquiries import BuildJob
from firesteel.model.jobgraph import JobGraph
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.unsupported import LEGACY_CLAIM
from firesteel.pipeline.build import BuildRequest
from firesteel.rest.call import Call
from firesteel.rest.codecs import checked_id
from firesteel.rest.errors import RestError, bad_request
from firesteel.rest.handlers.submission import checked_graph
from firesteel.rest.plans import plan_of_graph
from firesteel.rest.programargs import program_arguments
from firesteel.rest.schema import jars as s
from firesteel.rest.schema import jobs as j
from firesteel.rest.schema.cluster import Empty
from firesteel.rest.security import Role

ARTIFACTS = "artifacts"
"""Directory of artifacts of a BuildRequest: they are wanted, and the worker knows where."""

PARALLELISM_MAX = 1 << 15


async def upload(call: Call) -> s.JarUploadResponseBody:
    async with call.services.uploads.received(call.request) as upload:
        if len(upload.files) != 1:
            raise bad_request("Upload exactly one file.")
        file = next(iter(upload.files.values()))
        path = await asyncio.to_thread(file.path)
        jar = await asyncio.to_thread(
            call.services.jars.add,
            path,
            file.name,
            sha256=file.sha256,
            owner=call.user.name,
            now_ms=call.now_ms,
        )
    return s.JarUploadResponseBody(filename=f"/jars/{jar.id}")


async def jars(call: Call) -> s.JarListInfo:
    found = await asyncio.to_thread(call.services.jars.list)
    files = [
        s.JarFileInfo(jar.id, jar.name, jar.uploaded_ms, [s.JarEntryInfo(entry) for entry in jar.entries])
        for jar in found
    ]
    return s.JarListInfo(str(call.request.base_url).rstrip("/"), files)


async def delete(call: Call) -> Empty:
    """Delete a file that the caller has uploaded, or any for who operates the cluster."""
    jar, _ = await asyncio.to_thread(call.services.jars.find, call.path("jarid"))
    if jar.owner != call.user.name and not call.user.may(Role.OPERATE):
        raise RestError(403, f"{call.user.name} may not delete what {jar.owner} has uploaded.")
    await asyncio.to_thread(call.services.jars.delete, jar)
    return Empty()


async def run(call: Call) -> s.JarRunResponseBody:
    job_id = await _run(call)
    return s.JarRunResponseBody(jobid=job_id, application_id=job_id)


async def run_application(call: Call) -> s.JarRunApplicationResponseBody:
    """Every job is an application of its own, so this is the same."""
    return s.JarRunApplicationResponseBody(await _run(call))


async def plan(call: Call) -> j.JobPlanInfo:
    async with _built(call, output_dir="") as graph:
        return j.JobPlanInfo(plan_of_graph(graph))


async def _run(call: Call) -> JobID:
    async with _built(call, output_dir=ARTIFACTS) as graph:
        return await call.gateway.submit_built(msgspec.structs.replace(graph, owner=call.user.name))


@contextlib.asynccontextmanager
async def _built(call: Call, *, output_dir: str) -> AsyncIterator[JobGraph]:
    """The job that the request is about, made by a worker. Raises RestError, or InvalidJobGraph."""
    jar, path = await asyncio.to_thread(call.services.jars.find, call.path("jarid"))
    body: s.JarRunRequestBody = call.body if call.body is not None else s.JarRunRequestBody()
    entry = body.entry_class if body.entry_class is not None else call.query["entry-class"]
    request = BuildRequest(
        file="",
        job_id=_job_id(body),
        arguments=program_arguments(call, body),
        configuration={**_of_job(body.flink_configuration or {}), **_restored(call, body)},
        overrides=body.overrides or {},
        parallelism=_parallelism(body.parallelism if body.parallelism is not None else call.query["parallelism"]),
        output_dir=output_dir,
        require_parameters=bool(output_dir),
    )
    build = BuildJob(sha256=jar.sha256, file_name=jar.name, entry=entry, request=msgspec.json.encode(request))
    async with call.gateway.built_job(path, build) as graph:
        yield checked_graph(graph)


def _restored(call: Call, body: s.JarRunRequestBody) -> dict[str, str]:
    """Options of a job that starts from a savepoint; none of one that doesn't."""
    path = body.savepoint_path or call.query.get("savepointPath")
    if not path:
        return {}
    mode = _claim_mode(body.claim_mode or body.restore_mode)
    may_leave = body.allow_non_restored_state
    if may_leave is None:
        may_leave = str(call.query.get("allowNonRestoredState", "")).lower() == "true"
    found = {options.RESTORE_PATH.key: str(path), options.IGNORE_UNCLAIMED.key: str(may_leave).lower()}
    return found | ({options.CLAIM_MODE.key: mode} if mode else {})


def _claim_mode(given: str | None) -> str:
    """Raises RestError for what a job can't be started with."""
    if given is None:
        return ""
    try:
        mode = options.CLAIM_MODE.parse(given)
    except ConfigurationError:
        raise bad_request(f"claimMode={given}: none of {', '.join(options.CLAIM_MODE.choices[:-1])}.") from None
    if mode == "LEGACY":
        raise bad_request(f"claimMode={given}: {LEGACY_CLAIM}.")
    return mode


def _job_id(body: s.JarRunRequestBody) -> JobID:
    return JobID(uuid.uuid4().hex if body.job_id is None else checked_id(body.job_id, "jobId"))


def _of_job(configuration: dict[str, str]) -> dict[str, str]:
    """Raises RestError for options that one job can't have its own way."""
    try:
        given = Configuration(configuration)
    except ConfigurationError as error:
        raise bad_request(f"flinkConfiguration: {error}") from None
    if others := given.keys() - given.of_job().keys():
        raise bad_request(f"flinkConfiguration: {', '.join(sorted(others))}: not an option of a job.")
    return configuration


def _parallelism(chosen: int | str | None) -> int | None:
    if chosen is None or chosen == "":
        return None
    is_number = isinstance(chosen, int) or (chosen.isascii() and chosen.isdigit() and len(chosen) < 10)
    if not is_number or not 1 <= int(chosen) <= PARALLELISM_MAX:
        raise bad_request(f"parallelism {chosen}: from 1 to {PARALLELISM_MAX}.")
    return int(chosen)
