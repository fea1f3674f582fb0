"""SparkTaskBackend: runs a worker's attempts on a Spark Connect server, each in a process and session of its own."""

import asyncio
import contextlib
import itertools
import os
import signal
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from firesteel.adapters.blob.artifacts import ArtifactCache
from firesteel.adapters.blob.local import BlobSource
from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.adapters.spark.children.keeper import SessionEnding, SessionKeeper
from firesteel.adapters.spark.jvm import launch
from firesteel.adapters.spark.jvm.archive import MAX_HEAP_MIB, ClassDataArchive, archive_file
from firesteel.adapters.spark.jvm.pool import BackendPool, Seat, SparkBackend
from firesteel.adapters.spark.jvm.server import ServerSpec, SparkServer, backend_command
from firesteel.adapters.spark.jvm.sizes import BackendSize, backend_size, task_memory_limit_mib
from firesteel.adapters.spark.jvm.starts import machine_turns
from firesteel.adapters.spark.jvm.warmup import WarmUp
from firesteel.adapters.spark.staged.notes import SINKS, STAGED, note_storage
from firesteel.adapters.spark.staged.rows import is_blob
from firesteel.adapters.spark.worker.attempt import AttemptRun
from firesteel.adapters.spark.worker.keptlogs import KeptLogs
from firesteel.adapters.spark.worker.memory import MemoryGuard
from firesteel.adapters.spark.worker.printed import with_output
from firesteel.adapters.spark.worker.rowblobs import discard_rows, keep_rows, result_max_bytes
from firesteel.adapters.spark.worker.scriptoutput import ScriptOutput
from firesteel.adapters.spark.worker.sinkoutput import SinkOutput
from firesteel.adapters.storage.resultslocation import results_location
from firesteel.adapters.storage.s3settings import hadoop_settings, spark_settings
from firesteel.adapters.storage.sinks import remove_location
from firesteel.model import options
from firesteel.model.ids import JobID, RegionAttemptID
from firesteel.model.jobgraph import CLIENT_DIRECTORY_VARIABLE, ExchangeMode
from firesteel.model.options import Configuration
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import RESULT_FORMAT, JobInformation, SinkCommit, TaskDeployment, TaskOutcome, TaskProgress
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError

_SESSION_NAMESPACE = uuid.UUID("6f1d3c1e-5b0a-5c57-9a5e-f17e57ee1000")
_GRACE_SECONDS = 1.0
"""Time that an interrupted or finished task process has to end by itself."""
_CLOSE_SECONDS = 10.0
"""Time that what is still being cleaned up has when the backend closes."""


class SparkTaskBackend:
    """The worker's `TaskBackend` (see runtime.ports): Spark Connect JVMs, one fork server, a process per attempt.

    Everything it writes lies under `work_dir`, apart from what sinks stage beside their targets and the JVM's
    class-data archive in the user's cache directory. `ephemeral`, a directory around it that this process means to
    delete at its end, is deleted also when this process is killed.
    """

    def __init__(
        self, config: Configuration, work_dir: Path, blobs: BlobSource, *, ephemeral: Path | None = None
    ) -> None:
        self._config, self._work_dir, self._ephemeral = config, work_dir.absolute(), ephemeral
        cache_bytes = config.get_option(options.ARTIFACT_CACHE_MAX) << 20
        self._artifacts, self._blobs = ArtifactCache(self._work_dir / "artifacts", blobs, cache_bytes), blobs
        self._forks = ForkServer(self._work_dir / "logs" / "forkserver.log", config.get_option(options.TASK_SPARES))
        self._memory = MemoryGuard(task_memory_limit_mib(config), config.get_option(options.TASK_LOG_LIMIT))
        self._pool: BackendPool | None = None
        self._archive: ClassDataArchive | None = None
        self._numbers, self._turns = itertools.count(1), machine_turns()
        self._services = BackgroundTasks()
        self._cleanups: dict[JobID, BackgroundTasks] = {}
        """After the attempts of each job."""
        self._storage = hadoop_settings(config, os.environ)
        self._results, self._sharing = results_location(config), set[JobID]()
        """Where workers share stored results, if they do, and jobs that have used it from here."""
        intended = self._work_dir / SINKS / "intended"
        self._output = SinkOutput(self._forks, self._artifacts, intended, self.endpoint, self._storage)
        self._printed = KeptLogs(self._work_dir / "logs", config.get_option(options.TASK_LOGS_KEPT))
        self._closed = False

    async def start(self) -> None:
        installation = launch.find_installation()
        size = backend_size(self._config)
        self._work_dir.mkdir(parents=True, exist_ok=True)
        if self._ephemeral is not None:
            note_storage(self._work_dir / SINKS, self._storage)
        await asyncio.to_thread(self._printed.open)
        self._archive = self._class_data_archive(installation, size.heap_mib)
        self._pool = BackendPool(
            self._config.get_option(options.SPARK_ISOLATION),
            lambda alone: self._make(installation, backend_size(self._config, alone=alone), alone),
            limit=self._config.get_option(options.NUMBER_OF_TASK_SLOTS),
            spares=self._config.get_option(options.SPARK_SPARES),
        )
        self._pool.start()
        await self._forks.start()
        self._services.start(self._memory.watch(), "memory-guard")

    async def close(self) -> None:
        if self._closed or self._pool is None:
            return
        self._closed = True
        await self._services.close()
        await asyncio.gather(*(each.close(_CLOSE_SECONDS) for each in self._cleanups.values()))
        await asyncio.gather(self._pool.close(), self._forks.close())
        if self._archive is not None:
            await self._archive.write()
        scratch = [str(self._work_dir / name) for name in ("tmp", "local", "derby", "backends", "attempts")]
        await self._output.discard(scratch)

    async def endpoint(self) -> wire.SparkAddress:
        """Address of the JVM that attempts share. Raises TaskFailedError."""
        assert self._pool is not None, "started first"
        return await self._pool.shared()

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        """Run `module:function(bytes) -> bytes` in a process that has PySpark loaded. Raises TaskFailedError."""
        return await self._forks.call(entry_point, payload)

    async def run(
        self,
        job: JobInformation,
        deployment: TaskDeployment,
        *,
        on_running: Callable[[], None],
        on_progress: Callable[[TaskProgress], None],
        draw_splits: Callable[[int], Awaitable[DrawnSplits]],
    ) -> TaskOutcome:
        assert self._pool is not None, "started first"
        seat = Seat(self._pool, deployment)
        try:
            task = await self._assignment(job, deployment, seat)
            run = AttemptRun(task, await self._forks.take(), seat)
            if task.pipes:
                run.printed = await self._open_pipes(task)
        except BaseException:
            seat.leave()
            raise
        return await self._follow(run, on_running, on_progress, draw_splits)

    async def _follow(
        self,
        run: AttemptRun,
        on_running: Callable[[], None],
        on_progress: Callable[[TaskProgress], None],
        draw_splits: Callable[[int], Awaitable[DrawnSplits]],
    ) -> TaskOutcome:
        self._memory.add(run)
        finished = False
        try:
            outcome = (await run.converse(on_running, on_progress, draw_splits)).outcome
            await _all_printed(run)
            await keep_rows(self._blobs, outcome, Path(run.task.partitions))
            finished = True
            return outcome
        except asyncio.CancelledError:
            await _to_the_end(self._cleanups_of(run).start(self._abort(run), "attempt-abort"))
            raise
        except TaskFailedError as error:
            await _all_printed(run)
            raise TaskFailedError(with_output(error.failure, Path(run.task.log))) from error
        finally:
            run.unbind()
            self._memory.remove(run)
            self._output.note(run.task.job.graph.job_id, run.staging)
            self._cleanups_of(run).start(self._clean_up(run, keep_output=finished), "attempt-cleanup")

    async def commit(self, commit: SinkCommit) -> str:
        if commit.format == RESULT_FORMAT:  # rows are where they belong since their attempt finished
            return ""
        return await self._output.commit(commit)

    async def discard(self, locations: Sequence[str]) -> None:
        await discard_rows(self._blobs, locations)
        await self._output.discard([location for location in locations if not is_blob(location)])

    def _cleanups_of(self, run: AttemptRun) -> BackgroundTasks:
        return self._cleanups.setdefault(run.task.job.graph.job_id, BackgroundTasks())

    async def release_job(self, job_id: JobID) -> None:
        """Once its attempts are cleared up: a process that is on its way may make its directory at any time."""
        if job_id in self._cleanups:
            await self._cleanups[job_id].join()
            self._cleanups.pop(job_id, None)
        shared = f"{self._results}/{job_id}" if job_id in self._sharing else ""
        if shared:
            await asyncio.to_thread(remove_location, shared, self._storage)
            self._sharing.discard(job_id)
        await self._output.release(job_id, removed=shared)
        await self._output.discard([str(self._work_dir / name / job_id) for name in ("attempts", "partitions")])
        await self._artifacts.release(job_id)
        await asyncio.to_thread(self._printed.end, job_id)
        if self._pool is not None:
            await self._pool.release_job(job_id)

    async def _assignment(self, job: JobInformation, deployment: TaskDeployment, seat: Seat) -> wire.RunTask:
        attempt = deployment.attempt
        name = f"{attempt.region}-{attempt.attempt}"
        partitions = str(self._work_dir / "partitions" / attempt.job_id / name)
        if self._results and any(edge.exchange is ExchangeMode.BLOCKING for edge in job.graph.edges):
            self._sharing.add(attempt.job_id)
        code = await self._artifacts.use(attempt.job_id, job.graph.artifacts)
        return wire.RunTask(
            job=job,
            deployment=deployment,
            session=wire.SessionName(job.user, session_id(attempt)),
            operation_tag=f"firesteel-{attempt.job_id}-{name}",
            endpoint=seat.take().server.current if _wants_spark(job, deployment) else None,
            code=code.directories,
            code_archives=code.archives,
            pickles=code.pickles,
            placed=code.placed,
            directory=str(self._work_dir / "attempts" / attempt.job_id / name),
            log=str(self._work_dir / "logs" / attempt.job_id / f"{name}.log"),
            pipes=str(self._work_dir / "attempts" / attempt.job_id / f"{name}.pipes") if _is_script(job) else "",
            partitions=partitions,
            results=f"{self._results}/{attempt.job_id}/{name}" if self._results else partitions,
            scheduler_pool=seat.scheduler_pool,
            settings=dict(Configuration(job.graph.configuration).spark().items() - self._config.spark().items()),
            storage=self._storage,
            staged_note=str(self._work_dir / SINKS / STAGED / f"{attempt.job_id}-{name}"),
            client_directory=job.graph.environment.directory or os.environ.get(CLIENT_DIRECTORY_VARIABLE, os.getcwd()),
            progress_interval_ms=self._config.get_option(options.PROGRESS_INTERVAL),
            result_max_bytes=result_max_bytes(self._config, job.graph.configuration),
        )

    async def _open_pipes(self, task: wire.RunTask) -> ScriptOutput:
        attempt, limit_mib = task.deployment.attempt, self._config.get_option(options.SCRIPT_OUTPUT_LIMIT)

        async def send(stream: str, offset: int, data: bytes) -> None:
            await self._blobs.append_output(attempt.job_id, f"{attempt.attempt}.{stream}", offset, data)

        output = ScriptOutput(Path(task.log), send, limit_mib << 20)
        await output.open(Path(task.pipes))
        return output

    async def _abort(self, run: AttemptRun) -> None:
        """Interrupt, give the process a moment, kill it, close its session, remove what it wrote."""
        if run.endpoint is not None:
            for session in tuple(run.sessions):
                await run.seat.take().interrupt(run.endpoint, session)
        run.child.signal_group(signal.SIGTERM)
        await self._clean_up(run, keep_output=False)

    async def _clean_up(self, run: AttemptRun, keep_output: bool) -> None:
        """Clear up after an attempt, off the path of its result: no process, no session, no files. Repeatable."""
        try:
            async with asyncio.timeout(_GRACE_SECONDS):
                await asyncio.shield(run.child.exited)
        except TimeoutError:
            run.child.signal_group(signal.SIGKILL)
            await asyncio.shield(run.child.exited)
        run.child.close()
        await _all_printed(run)
        if not self._closed:  # else the JVM goes, and all sessions with it
            await self._prepare_next(run, was_cut=not keep_output)
        run.seat.leave()
        rubbish = [run.task.directory, *filter(None, (run.task.pipes,))]
        if not keep_output:
            rubbish += [run.task.partitions, *run.staging]
        await self._output.discard(rubbish)

    async def _prepare_next(self, run: AttemptRun, *, was_cut: bool) -> None:
        """A fresh spare process, and no session left of this attempt."""
        with contextlib.suppress(TaskFailedError):
            await self._forks.refill()
        endpoint, run.endpoint = run.endpoint, None
        if endpoint is not None:
            for session in run.sessions:
                cached = tuple(each for each in run.cached if each.session_id == session.session_id)
                await run.seat.take().close_session(endpoint, session, SessionEnding(was_cut, cached))

    def _make(self, installation: launch.SparkInstallation, size: BackendSize, alone: bool) -> SparkBackend:
        user = {**spark_settings(self._storage), **self._config.spark()}
        master = self._config.get_option(options.SPARK_MASTER)
        is_shared = self._config.get_option(options.SPARK_ISOLATION) == "shared" and not alone
        own = None if is_shared else self._work_dir / "backends" / uuid.uuid4().hex[:8]
        directory = own or self._work_dir
        settings = launch.spark_configuration(
            directory, size.cores, {**user, **({"spark.master": master} if master else {})}
        )
        spec = ServerSpec(
            backend_command(installation, size.heap_mib, directory, settings),
            self._archive,
            self._work_dir / "logs",
            self._config.get_option(options.SPARK_START_TIMEOUT) / 1000,
            self._ephemeral,
            self._numbers,
            self._turns,
        )
        # A backend of one job, or a spare, would be warmed at the cost of what others run beside it.
        is_warmed = is_shared and self._config.get_option(options.SPARK_WARM_UP)
        warm_up = WarmUp(self._forks, directory / "tmp") if is_warmed else None
        return SparkBackend(SparkServer(spec), SessionKeeper(self._forks), own, warm_up=warm_up)

    def _class_data_archive(self, installation: launch.SparkInstallation, heap_mib: int) -> ClassDataArchive | None:
        wanted = self._config.get_option(options.SPARK_CLASS_DATA_ARCHIVE) and heap_mib <= MAX_HEAP_MIB
        if not wanted or launch.configuration_directories():
            return None
        command = launch.archive_command(installation)
        file = archive_file(installation.java, launch.base_class_path(installation), command)
        return ClassDataArchive(file, command)


def session_id(attempt: RegionAttemptID) -> str:
    """The attempt's Connect session: derived, so that any worker can find and close it."""
    return str(uuid.uuid5(_SESSION_NAMESPACE, f"{attempt.job_id}/{attempt.region}/{attempt.attempt}"))


def _wants_spark(job: JobInformation, deployment: TaskDeployment) -> bool:
    mine = set(deployment.vertices)
    functions = (f for vertex in job.graph.vertices if vertex.id in mine for f in vertex.functions)
    return bool(deployment.inputs) or any(function.wants_session for function in functions)


def _is_script(job: JobInformation) -> bool:
    return job.graph.vertices[0].functions[0].is_script


async def _all_printed(run: AttemptRun) -> None:
    """Wait until all that a script has printed is where the client finds it: its process can't print any more."""
    if run.printed is not None:
        await run.printed.close()


async def _to_the_end(task: asyncio.Task[None]) -> None:
    """Await `task` even when the caller is cancelled again meanwhile."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
