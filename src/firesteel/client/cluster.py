"""ClusterClient and AsyncClusterClient: a cluster for programs and notebooks."""

import asyncio
import os
import tempfile
import threading
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.client.branching import Branching, BranchRequest, Promotion
from firesteel.client.building import BUILD_ENTRY_POINT, call_in_process
from firesteel.client.comparing import Comparing, QueryComparison
from firesteel.client.logs import JobLog, LogLines
from firesteel.client.notebook import show
from firesteel.client.remote import http_client
from firesteel.model.ids import JobID
from firesteel.model.options import CLIENT_TIMEOUT, REST_ADDRESS, Configuration
from firesteel.model.views import ClusterOverview, JobResult, JobSummary, JobView
from firesteel.pipeline.attachments import NOTHING_ATTACHED, Attachments
from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.build import BuildFailure, BuildRequest, BuiltJob, build_job, decode_build_reply
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.parametertypes import parameter_text

if TYPE_CHECKING:
    from firesteel.adapters.spark.exchange.results import ResultRows

T = TypeVar("T")


class AsyncClusterClient:
    """A client of the cluster whose masters are at `addresses`: `HOST:PORT[,HOST:PORT...]`, as in `--master`.

    Without addresses those of the configuration (`rest.address`), else the one of this machine. `token` says who asks
    (FIRESTEEL_TOKEN by default). Coroutines raise ClusterUnreachable when no master answers or leads, Refused when
    this user may not, UnknownJob for an id that the cluster does not know. Raises ConfigurationError.
    """

    def __init__(
        self,
        addresses: str = "",
        *,
        token: str | None = None,
        configuration: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        settings: dict[str, str] = {REST_ADDRESS.key: addresses} if addresses else {}
        if timeout_s is not None:
            settings[CLIENT_TIMEOUT.key] = f"{timeout_s * 1_000:.0f} ms"
        self._configuration = Configuration(dict(configuration or {})).merged(settings)
        self._http = http_client(self._configuration, token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.close()

    async def submit(
        self,
        pipeline: Pipeline | str | os.PathLike[str],
        parameters: Mapping[str, object] | None = None,
        *,
        name: str = "",
        parallelism: int | None = None,
        overrides: Mapping[str, object] | None = None,
        configuration: Mapping[str, object] | None = None,
        attachments: Attachments = NOTHING_ATTACHED,
        job_id: str = "",
    ) -> JobID:
        """Hand in a job of a pipeline of this process, or of a file (`FILE` or `FILE:NAME`); returns when it is safe.

        `overrides` are options by `FUNCTION.OPTION`, `configuration` the job's options and `spark.*`, `attachments` what
        travels with it beside its code. With a `job_id` of one's own, the same submission again is the same job. Raises InvalidPipeline, InvalidJobGraph, DuplicateJob
        or TooManyJobs.
        """
        request = BuildRequest(
            file="" if isinstance(pipeline, Pipeline) else os.path.abspath(pipeline),  # noqa: ASYNC240 - asks no disk
            job_id=JobID(job_id or uuid.uuid4().hex),
            parameters={key: parameter_text(value) for key, value in (parameters or {}).items() if value is not None},
            configuration={key: _setting(value) for key, value in (configuration or {}).items()},
            parallelism=parallelism,
            overrides={key: str(value) for key, value in (overrides or {}).items()},
            name=name,
            attachments=attachments,
        )
        with tempfile.TemporaryDirectory(prefix="firesteel-") as directory:
            if isinstance(pipeline, Pipeline):
                built = await asyncio.to_thread(_built_here, pipeline, request, parameters, Path(directory))
            else:
                built = await _built(msgspec.structs.replace(request, output_dir=directory))
            return await self._http.submit_job(built.graph, built.artifact_paths())

    async def jobs(self) -> list[JobSummary]:
        """A line for every job that the cluster knows, newest first."""
        return await self._http.list_job_summaries()

    async def job(self, job_id: str) -> JobView:
        """The job now, with its vertices and failures."""
        return await self._http.request_job(JobID(job_id))

    def follow(self, job_id: str) -> AsyncIterator[JobView]:
        """The job now, and after its changes, to its end."""
        return self._http.follow_job(JobID(job_id))

    async def wait(self, job_id: str, timeout_s: float | None = None) -> JobResult:
        """Result of the job, once it has ended. Raises TimeoutError when it has not in time; then it goes on."""
        async with asyncio.timeout(timeout_s):
            return await self._http.request_job_result(JobID(job_id))

    async def rows(self, job_id: str, function: str = "") -> "ResultRows":
        """Rows that a function of the job has returned, once the job has finished. Raises UnknownResult."""
        from firesteel.adapters.spark.exchange.results import ResultRows

        return ResultRows(await self._http.fetch_result(JobID(job_id), function))

    async def cancel(self, job_id: str) -> None:
        """Ask for the job's end; returns when its master has that safe. Does nothing for one that has ended."""
        await self._http.cancel_job(JobID(job_id))

    async def branch(
        self,
        job_id: str,
        file: str | os.PathLike[str],
        parameters: Mapping[str, object] | None = None,
        *,
        configuration: Mapping[str, str] | None = None,
        savepoint_dir: str = "",
    ) -> JobID:
        """Start the pipeline of a file beside a streaming job, from a live savepoint of that; returns when its queries run.

        It has the job's parameters and options but for these. Raises BranchRefused, BranchFailed, SavepointFailed.
        """
        build = BuildRequest(
            file=os.path.abspath(file),  # noqa: ASYNC240 - asks no disk
            job_id=JobID(uuid.uuid4().hex),
            parameters={key: parameter_text(value) for key, value in (parameters or {}).items() if value is not None},
            configuration=dict(configuration or {}),
        )
        request = BranchRequest(build, dict(self._configuration), savepoint_dir)
        return await Branching(self._http).branch(JobID(job_id), request)

    async def promote(
        self, branch_id: str, parameters: Mapping[str, object] | None = None, *, savepoint_dir: str = ""
    ) -> Promotion:
        """Put a branch into the place of the job it branched from. Called again, it goes on where it was interrupted.

        Raises BranchRefused, BranchFailed, SavepointFailed.
        """
        texts = {key: parameter_text(value) for key, value in (parameters or {}).items()}
        return await Branching(self._http).promote(JobID(branch_id), texts, savepoint_dir)

    async def compare(
        self, first: str, second: str, key: Sequence[str] = (), *, uid: str = "", wait_s: float = 30.0
    ) -> list[QueryComparison]:
        """Compare what two streaming jobs have written, up to where both have read the same. Raises BranchRefused."""
        storage = hadoop_settings(self._configuration, os.environ)
        return await Comparing(self._http, JobID(first), JobID(second), storage=storage).compare(key, uid, wait_s)

    async def logs(self, job_id: str) -> list[JobLog]:
        """Logs of the job's attempts: where they are, for `log_lines`."""
        return await self._http.list_job_logs(JobID(job_id))

    async def log_lines(self, log: JobLog, offset: int = 0, *, wait_s: float = 0.0) -> LogLines:
        """Some lines from `offset` on; when there are none, those that come within `wait_s` (at most 30)."""
        return await self._http.read_log(log.taskmanager_id, log.name, offset, wait_s)

    async def overview(self) -> ClusterOverview:
        """Workers, slots and jobs in numbers."""
        return await self._http.request_cluster_overview()


class ClusterClient:
    """The same, with methods that wait: for programs without an event loop, and notebooks, which have one already."""

    def __init__(
        self,
        addresses: str = "",
        *,
        token: str | None = None,
        configuration: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="firesteel-client", daemon=True)
        self._thread.start()
        try:
            self._client = self._call(_made(addresses, token, configuration, timeout_s))
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent; jobs go on."""
        if not self._loop.is_closed():
            self._call(self._client.close())
            self._end()

    def submit(
        self,
        pipeline: Pipeline | str | os.PathLike[str],
        parameters: Mapping[str, object] | None = None,
        **options: Any,
    ) -> JobID:
        """See AsyncClusterClient.submit, as for all others."""
        return self._call(self._client.submit(pipeline, parameters, **options))

    def jobs(self) -> list[JobSummary]:
        return self._call(self._client.jobs())

    def job(self, job_id: str) -> JobView:
        return self._call(self._client.job(job_id))

    def follow(self, job_id: str) -> Iterator[JobView]:
        views = self._client.follow(job_id)
        try:
            while (view := self._call(_next(views))) is not None:
                yield view
        finally:
            self._call(_closed(views))

    def wait(self, job_id: str, timeout_s: float | None = None) -> JobResult:
        return self._call(self._client.wait(job_id, timeout_s))

    def show(self, job_id: str) -> JobResult:
        """Show the job in a notebook's cell, as it goes on, to its end; elsewhere its text is printed when it changes."""
        show(self.follow(job_id))
        return self.wait(job_id)

    def rows(self, job_id: str, function: str = "") -> "ResultRows":
        return self._call(self._client.rows(job_id, function))

    def cancel(self, job_id: str) -> None:
        self._call(self._client.cancel(job_id))

    def branch(
        self,
        job_id: str,
        file: str | os.PathLike[str],
        parameters: Mapping[str, object] | None = None,
        **options: Any,
    ) -> JobID:
        return self._call(self._client.branch(job_id, file, parameters, **options))

    def promote(self, branch_id: str, parameters: Mapping[str, object] | None = None, **options: Any) -> Promotion:
        return self._call(self._client.promote(branch_id, parameters, **options))

    def compare(self, first: str, second: str, key: Sequence[str] = (), **options: Any) -> list[QueryComparison]:
        return self._call(self._client.compare(first, second, key, **options))

    def logs(self, job_id: str) -> list[JobLog]:
        return self._call(self._client.logs(job_id))

    def log_lines(self, log: JobLog, offset: int = 0, *, wait_s: float = 0.0) -> LogLines:
        return self._call(self._client.log_lines(log, offset, wait_s=wait_s))

    def overview(self) -> ClusterOverview:
        return self._call(self._client.overview())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the client's own event loop; who is interrupted while he waits gives it up."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _built_here(
    pipeline: Pipeline, request: BuildRequest, parameters: Mapping[str, object] | None, directory: Path
) -> BuiltJob:
    """A job of a pipeline of this process. Raises InvalidPipeline or ConfigurationError."""
    return build_job(
        pipeline,
        job_id=request.job_id,
        output_dir=directory,
        parameters=parameters,
        configuration=request.configuration,
        parallelism=request.parallelism,
        overrides=request.overrides,
        name=request.name,
        attachments=request.attachments,
    )


async def _built(request: BuildRequest) -> BuiltJob:
    """A job of a file, built in a process of its own. Raises InvalidPipeline."""
    payload = msgspec.json.encode(request)
    reply = decode_build_reply(await call_in_process(Path(request.output_dir), BUILD_ENTRY_POINT, payload))
    if isinstance(reply, BuildFailure):
        raise InvalidPipeline(reply.message)
    return reply


def _setting(value: object) -> str:
    """A value as a configuration has it: texts, and what Python has for numbers and switches."""
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _made(
    addresses: str, token: str | None, configuration: Mapping[str, str] | None, timeout_s: float | None
) -> AsyncClusterClient:
    return AsyncClusterClient(addresses, token=token, configuration=configuration, timeout_s=timeout_s)


async def _next(views: AsyncIterator[JobView]) -> JobView | None:
    return await anext(views, None)


async def _closed(views: AsyncIterator[JobView]) -> None:
    close = getattr(views, "aclose", None)
    if close is not None:
        await close()
