"""SparkTaskBackend: runs a worker's attempts on a Spark Connect server, each in a process and session of its own."""

import asyncio
import contextlib
import logging
import os
import signal
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from firesteel.adapters.blob.artifacts import ArtifactCache
from firesteel.adapters.blob.local import BlobSource
from firesteel.adapters.spark import launch, wire
from firesteel.adapters.spark.archive import MAX_HEAP_MIB, ClassDataArchive, archive_key, default_directory
from firesteel.adapters.spark.attempt import AttemptRun
from firesteel.adapters.spark.forkclient import ForkServer
from firesteel.adapters.spark.keeper import KeeperFailed, SessionKeeper
from firesteel.adapters.spark.memory import MemoryGuard
from firesteel.adapters.spark.server import SparkServer, backend_command
from firesteel.adapters.spark.sinkoutput import SinkOutput
from firesteel.model import options
from firesteel.model.ids import JobID, RegionAttemptID
from firesteel.model.options import Configuration
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import JobInformation, SinkCommit, TaskDeployment, TaskOutcome, TaskProgress
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

_SESSION_NAMESPACE = uuid.UUID("6f1d3c1e-5b0a-5c57-9a5e-f17e57ee1000")
_GRACE_SECONDS = 1.0
"""What an interrupted or finished task process gets to end by itself."""
_CLOSE_SECONDS = 10.0
"""What is still being cleaned up gets so long when the backend closes."""
CLIENT_DIRECTORY_VARIABLE = "FIRESTEEL_CLIENT_DIR"


class SparkTaskBackend:
    """The worker's `TaskBackend` (see runtime.ports): one Spark Connect JVM, one fork server, a process per attempt.

    Everything it writes lies under `work_dir`, apart from what sinks stage beside their targets and the JVM's
    class-data archive in the user's cache directory. `ephemeral`, a directory around it that this process means to
    delete at its end, is deleted also when this process is killed.
    """

    def __init__(
        self, config: Configuration, work_dir: Path, blobs: BlobSource, *, ephemeral: Path | None = None
    ) -> None:
        self._config, self._work_dir, self._ephemeral = config, work_dir.absolute(), ephemeral
        self._artifacts = ArtifactCache(self._work_dir / "artifacts", blobs)
        self._forks = ForkServer(self._work_dir / "logs" / "forkserver.log", config.get_option(options.TASK_SPARES))
        self._keeper = SessionKeeper(self._forks)
        self._memory = MemoryGuard(_memory_limit_mib(config))
        self._server: SparkServer | None = None
        self._services, self._cleanups = BackgroundTasks(), BackgroundTasks()
        self._output = SinkOutput(self._forks, self._artifacts)
        self._closed = False

    async def start(self) -> None:
        installation = launch.find_installation()
        self._work_dir.mkdir(parents=True, exist_ok=True)
        cores = max(1, round(float(self._config.get_option(options.TASK_CPU))) or os.cpu_count() or 1)
        heap = self._config.get_option(options.SPARK_HEAP)
        user = self._config.spark()
        master = self._config.get_option(options.SPARK_MASTER)
        settings = launch.spark_configuration(
            self._work_dir, cores, {**user, **({"spark.master": master} if master else {})}
        )
        self._server = SparkServer(
            backend_command(installation, heap, self._work_dir, settings),
            self._archive(installation, heap),
            self._work_dir / "logs",
            self._config.get_option(options.SPARK_START_TIMEOUT) / 1000,
            self._ephemeral,
        )
        self._server.start()
        await self._forks.start()
        self._services.start(self._meet_backend(), "session-keeper-start")
        self._services.start(self._memory.watch(), "memory-guard")

    async def close(self) -> None:
        if self._closed or self._server is None:
            return
        self._closed = True
        await self._services.close()
        await self._cleanups.close(_CLOSE_SECONDS)
        await self._keeper.close()
        await asyncio.gather(self._forks.close(), self._server.close())
        await self._output.discard([str(self._work_dir / name) for name in ("tmp", "local", "derby", "attempts")])

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
        assert self._server is not None, "started first"
        task = await self._assignment(job, deployment)
        run = AttemptRun(task, await self._forks.take(), self._server)
        self._memory.add(run)
        finished = False
        try:
            outcome = (await run.converse(on_running, on_progress, draw_splits)).outcome
            finished = True
            return outcome
        except asyncio.CancelledError:
            await _to_the_end(self._cleanups.start(self._abort(run), "attempt-abort"))
            raise
        finally:
            self._memory.remove(run)
            self._output.note(deployment.attempt.job_id, run.staging)
            self._cleanups.start(self._clean_up(run, keep_output=finished), "attempt-cleanup")

    async def commit(self, commit: SinkCommit) -> None:
        await self._output.commit(commit)

    async def discard(self, locations: Sequence[str]) -> None:
        await self._output.discard(locations)

    async def release_job(self, job_id: JobID) -> None:
        await self._output.release(job_id)
        await self._output.discard([str(self._work_dir / name / job_id) for name in ("attempts", "partitions")])
        await self._artifacts.release(job_id)

    async def _assignment(self, job: JobInformation, deployment: TaskDeployment) -> wire.RunTask:
        assert self._server is not None, "started first"
        attempt = deployment.attempt
        name = f"{attempt.region}-{attempt.attempt}"
        code = await self._artifacts.use(attempt.job_id, job.graph.artifacts)
        return wire.RunTask(
            job=job,
            deployment=deployment,
            session=wire.SessionName(job.user, session_id(attempt)),
            operation_tag=f"firesteel-{attempt.job_id}-{name}",
            endpoint=self._server.current if _wants_spark(job, deployment) else None,
            code=code.directories,
            code_archives=code.archives,
            pickles=code.pickles,
            directory=str(self._work_dir / "attempts" / attempt.job_id / name),
            log=str(self._work_dir / "logs" / attempt.job_id / f"{name}.log"),
            partitions=str(self._work_dir / "partitions" / attempt.job_id / name),
            client_directory=os.environ.get(CLIENT_DIRECTORY_VARIABLE, os.getcwd()),
            progress_interval_ms=self._config.get_option(options.PROGRESS_INTERVAL),
        )

    async def _abort(self, run: AttemptRun) -> None:
        """Interrupt, give the process a moment, kill it, close its session, remove what it wrote."""
        if run.endpoint is not None and self._is_current(run.endpoint):
            with contextlib.suppress(KeeperFailed, TaskFailedError):
                await self._keeper.interrupt(run.endpoint, run.task.session, run.task.operation_tag)
        run.child.signal_group(signal.SIGTERM)
        await self._clean_up(run, keep_output=False)

    async def _clean_up(self, run: AttemptRun, keep_output: bool) -> None:
        """What follows every attempt, off the path of its result: no process, no session, no files. Repeatable."""
        try:
            async with asyncio.timeout(_GRACE_SECONDS):
                await asyncio.shield(run.child.exited)
        except TimeoutError:
            run.child.signal_group(signal.SIGKILL)
            await asyncio.shield(run.child.exited)
        run.child.close()
        if not self._closed:  # else the JVM goes, and all sessions with it
            await self._prepare_next(run)
        rubbish = [run.task.directory]
        if not keep_output:
            rubbish += [run.task.partitions, *run.staging]
        await self._output.discard(rubbish)

    async def _prepare_next(self, run: AttemptRun) -> None:
        """A fresh spare process, and no session left of this attempt."""
        with contextlib.suppress(TaskFailedError):
            await self._forks.refill()
        endpoint, run.endpoint = run.endpoint, None
        if endpoint is not None and self._is_current(endpoint):
            try:
                closed = await self._keeper.close_session(endpoint, run.task.session)
                if closed and self._server is not None:
                    await self._server.end_python_workers(closed)
            except (KeeperFailed, TaskFailedError) as error:
                logger.warning("session %s was not closed: %s", run.task.session.session_id, error)

    async def _meet_backend(self) -> None:
        """Start the session keeper as soon as there is something to keep."""
        assert self._server is not None, "started first"
        with contextlib.suppress(TaskFailedError):
            await self._keeper.connect(await self._server.endpoint())

    def _is_current(self, endpoint: wire.Endpoint) -> bool:
        return self._server is not None and self._server.current == endpoint

    def _archive(self, installation: launch.SparkInstallation, heap_mib: int) -> ClassDataArchive | None:
        wanted = self._config.get_option(options.SPARK_CLASS_DATA_ARCHIVE) and heap_mib <= MAX_HEAP_MIB
        if not wanted or launch.configuration_directories():
            return None
        command = launch.archive_command(installation)
        key = archive_key(installation.java, installation.version, command)
        return ClassDataArchive(default_directory(), key, command)


def session_id(attempt: RegionAttemptID) -> str:
    """The attempt's Connect session: derived, so that any worker can find and close it."""
    return str(uuid.uuid5(_SESSION_NAMESPACE, f"{attempt.job_id}/{attempt.region}/{attempt.attempt}"))


def _wants_spark(job: JobInformation, deployment: TaskDeployment) -> bool:
    mine = set(deployment.vertices)
    functions = (f for vertex in job.graph.vertices if vertex.id in mine for f in vertex.functions)
    return bool(deployment.inputs) or any(function.wants_session for function in functions)


def _memory_limit_mib(config: Configuration) -> int:
    configured = config.get_option(options.TASK_MEMORY_LIMIT)
    if configured:
        return configured
    total_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return max(512, round(0.8 * (total_mib - config.get_option(options.SPARK_HEAP))))


async def _to_the_end(task: asyncio.Task[None]) -> None:
    """Await `task` even when the caller is cancelled again meanwhile."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
