"""SparkTaskBackend: runs a worker's attempts on a Spark Connect server, each in a process and session of its own."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from firesteel.adapters.blob.artifacts import ArtifactCache
from firesteel.adapters.blob.local import BlobSource
from firesteel.adapters.inspection.rotation import keep_process_logs_short
from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.adapters.spark.children.guard import SessionGuard
from firesteel.adapters.spark.children.keeper import SessionEnding
from firesteel.adapters.spark.clusters.masters import server_address, spark_master
from firesteel.adapters.spark.clusters.reach import MasterUnreachable, driver_host
from firesteel.adapters.spark.clusters.sessions import former_sessions, session_of
from firesteel.adapters.spark.clusters.yarn import located
from firesteel.adapters.spark.jvm.archive import ClassDataArchive
from firesteel.adapters.spark.jvm.pool import OUTSIDER, BackendPool, Seat, SparkBackend
from firesteel.adapters.spark.jvm.sizes import task_memory_limit_mib, worker_cores
from firesteel.adapters.spark.staged.notes import SINKS, STAGED, note_storage
from firesteel.adapters.spark.streams.checkpoints import CheckpointDirectories, prepared
from firesteel.adapters.spark.worker.attempt import AttemptRun, awaited, is_script, make_directories, wants_spark
from firesteel.adapters.spark.worker.clusterprobe import ClusterProbe, refused
from firesteel.adapters.spark.worker.figures import JvmFigures
from firesteel.adapters.spark.worker.interpreter import job_settings, unpacked_interpreter
from firesteel.adapters.spark.worker.keptlogs import KeptLogs
from firesteel.adapters.spark.worker.making import BackendMaker
from firesteel.adapters.spark.worker.memory import MemoryGuard
from firesteel.adapters.spark.worker.rowblobs import discard_rows, keep_rows, result_max_bytes
from firesteel.adapters.spark.worker.scriptoutput import ScriptOutput
from firesteel.adapters.spark.worker.sidesessions import SideSessions
from firesteel.adapters.spark.worker.sinkoutput import SinkOutput
from firesteel.adapters.spark.worker.stacks import AttemptStacks
from firesteel.adapters.spark.worker.statereader import StateReader
from firesteel.adapters.spark.worker.storagewatch import StorageWatch
from firesteel.adapters.storage.resultslocation import results_location
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.adapters.storage.sinks import remove_location
from firesteel.core.scheduler.backoff import effective
from firesteel.model import metrics, options
from firesteel.model.checkpoints import CheckpointOrder, QueryPoint
from firesteel.model.ids import JobID, RegionAttemptID
from firesteel.model.interpreters import interpreter_of
from firesteel.model.jobgraph import CLIENT_DIRECTORY_VARIABLE, ExchangeMode
from firesteel.model.metric import MetricValue
from firesteel.model.options import Configuration
from firesteel.model.resources import SparkApplication
from firesteel.model.sparkwork import operation_tag
from firesteel.model.splits import DrawnSplits
from firesteel.model.stacks import SampledStack, StackOrder
from firesteel.model.streams import QueriesOrder, QuerySight, QueryState, SavepointOrder, StateOrder
from firesteel.model.tasks import Committed, JobInformation, SinkCommit, TaskDeployment, TaskOutcome, TaskProgress
from firesteel.runtime.background import BackgroundTasks, to_the_end
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

_GRACE_SECONDS, _CLOSE_SECONDS = 1.0, 10.0
"""Time that an interrupted or finished task process has to end by itself, and what is cleaned up when the backend closes."""


class SparkTaskBackend:
    """The worker's `TaskBackend` (see runtime.ports): Spark Connect JVMs, one fork server, a process per attempt.
    Everything it writes lies under `work_dir`, apart from what sinks stage beside their targets and the JVM's
    class-data archive in the user's cache directory. `ephemeral`, a directory around it that this process means to
    delete at its end, is deleted also when this process is killed.
    """

    def __init__(
        self,
        config: Configuration,
        work_dir: Path,
        blobs: BlobSource,
        *,
        ephemeral: Path | None = None,
        has_peers: bool = False,
    ) -> None:
        """`has_peers`: other workers read what this one stores. Raises ConfigurationError."""
        self._config, self._work_dir, self._ephemeral = config, work_dir.absolute(), ephemeral
        cache_bytes = config.get_option(options.ARTIFACT_CACHE_MAX) << 20
        self._artifacts, self._blobs = ArtifactCache(self._work_dir / "artifacts", blobs, cache_bytes), blobs
        self._forks = ForkServer(self._work_dir / "logs" / "forkserver.log", config.get_option(options.TASK_SPARES))
        self._memory = MemoryGuard(task_memory_limit_mib(config), config.get_option(options.TASK_LOG_LIMIT))
        self._master, self._running = located(spark_master(config)), dict[RegionAttemptID, AttemptRun]()
        self._guard: SessionGuard | None = None
        self._pool: BackendPool | None = None
        self._jvms = JvmFigures(self._supervisors, config.get_option(options.METRICS_UPDATE_INTERVAL))
        self._archive: ClassDataArchive | None = None
        self._services, self._closed = BackgroundTasks(), False
        self._cleanups: dict[JobID, BackgroundTasks] = {}
        """After the attempts of each job."""
        self._storage = hadoop_settings(config, os.environ)
        self._results, self._sharing, self._has_peers = results_location(config), set[JobID](), has_peers
        """Where workers share stored results, if they do, jobs that have used it from here, and whether others do."""
        intended = self._work_dir / SINKS / "intended"
        self._checkpoints = CheckpointDirectories(config, self._results, self._work_dir, self._storage)
        sessions = SideSessions(self._shared, self._master.user, self._session_settings({}))
        self._output = SinkOutput(self._forks, self._artifacts, intended, sessions, self._storage)
        self._states, self._stacks = StateReader(self._forks, self._checkpoints, sessions), AttemptStacks()
        self._watch = StorageWatch(self._storage, self._results)
        self._printed = KeptLogs(self._work_dir / "logs", config.get_option(options.TASK_LOGS_KEPT))

    async def start(self) -> None:
        maker = BackendMaker(
            self._config,
            self._work_dir,
            self._forks,
            master=self._master,
            driver_address=await self._address_of_driver(),
            guard=self._start_guard(),
            ephemeral=self._ephemeral,
        )
        await maker.prepare()
        self._work_dir.mkdir(parents=True, exist_ok=True)
        if self._ephemeral is not None:
            note_storage(self._work_dir / SINKS, self._storage)
        await asyncio.to_thread(self._printed.open)
        self._archive = maker.archive
        self._pool = BackendPool(
            "shared" if self._master.is_foreign else self._config.get_option(options.SPARK_ISOLATION),
            maker.make,
            limit=self._config.get_option(options.NUMBER_OF_TASK_SLOTS),
            spares=self._config.get_option(options.SPARK_SPARES),
        )
        self._pool.start()
        await self._forks.start()
        self._services.start(self._memory.watch(), "memory-guard")
        self._services.start(self._jvms.watch(), "jvm-figures")
        self._services.start(self._watch.watch(), "storage-watch")
        self._services.start(keep_process_logs_short(self._work_dir / "logs", self._config), "process-logs")
        if not self._master.is_local or (self._has_peers and "://" in self._results):
            where = self._results or str(self._work_dir / "partitions")
            probe = ClusterProbe(self._master, self._pool.ready(), self._forks)
            await probe.run(where, self._storage, self._session_settings({}))

    async def _address_of_driver(self) -> str:
        """Raises TaskFailedError when the Spark that is elsewhere can't be reached from here."""
        try:
            return await driver_host(self._master)
        except MasterUnreachable as error:
            raise refused(str(error)) from None

    def _start_guard(self) -> SessionGuard | None:
        """Of the sessions on a server that others have started."""
        if self._master.is_foreign:
            self._guard = SessionGuard(server_address(self._master), self._work_dir / "logs" / "sessionguard.log")
            self._guard.start()
        return self._guard

    async def close(self) -> None:
        if self._closed or self._pool is None:
            if self._guard is not None:  # what comes after it could not be made
                await self._guard.close()
            return
        self._closed = True
        await self._services.close()
        await asyncio.gather(*(each.close(_CLOSE_SECONDS) for each in self._cleanups.values()))
        await asyncio.gather(self._pool.close(), self._forks.close())
        if self._guard is not None:
            await self._guard.close()
        if self._archive is not None:
            await self._archive.write()
        scratch = [str(self._work_dir / name) for name in ("tmp", "local", "derby", "backends", "attempts")]
        await self._output.discard(scratch)

    def _supervisors(self) -> list[int]:
        return self._pool.supervisors() if self._pool is not None else []

    async def endpoint(self, *, for_outsider: bool = False) -> wire.SparkAddress:
        """Address of the JVM that attempts share; an outsider queries it past this worker. Raises TaskFailedError."""
        if for_outsider:
            self._shared().admit(OUTSIDER)
        return await self._shared().server.endpoint()

    def _shared(self) -> SparkBackend:
        assert self._pool is not None, "started first"
        return self._pool.shared()

    def applications(self) -> Sequence[SparkApplication]:
        return [] if self._pool is None else self._pool.applications()

    def figures(self) -> list[MetricValue]:
        return [metrics.FORK_SERVER_SPARES.of(self._forks.spares), *self._memory.values(), *self._jvms.values()]

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
            await self._end_former(deployment.attempt, job.user, seat, on_progress)
            earlier = self._cleanups.get(deployment.attempt.job_id)
            checkpoints = await prepared(self._checkpoints, job.graph, deployment, earlier)
            task = msgspec.structs.replace(await self._assignment(job, deployment, seat), checkpoints=checkpoints)
            await asyncio.to_thread(make_directories, task)
            run = AttemptRun(task, await self._forks.take(), seat, self._forks.take)
            if task.pipes:
                await run.print_to(self._script_output(task))
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
        self._running[run.task.deployment.attempt] = run
        finished = False
        try:
            async with self._watch.over(run, on_progress) as progressed:
                outcome = (await run.converse(on_running, progressed, draw_splits)).outcome
            await run.all_printed()
            await keep_rows(self._blobs, outcome, Path(run.task.partitions))
            finished = True
            return outcome
        except asyncio.CancelledError:
            await to_the_end(self._cleanups_of(run).start(self._abort(run), "attempt-abort"))
            raise
        except TaskFailedError as error:
            raise TaskFailedError(await run.told(error.failure)) from error
        finally:
            del self._running[run.task.deployment.attempt]
            run.unbind()
            self._memory.remove(run)
            self._output.note(run.task.job.graph.job_id, run.staging)
            self._cleanups_of(run).start(self._clean_up(run, keep_output=finished), "attempt-cleanup")

    def stop_streams(self, attempt: RegionAttemptID, *, drain: bool) -> None:
        if attempt in self._running:
            self._running[attempt].stop_streams(drain=drain)

    async def take_savepoint(self, job_id: JobID, order: SavepointOrder) -> None:
        await asyncio.to_thread(self._checkpoints.save, job_id, order)

    async def read_state(self, order: StateOrder) -> QueryState:
        return await self._states.read(order)

    async def look_at_queries(self, order: QueriesOrder) -> tuple[QuerySight, ...]:
        return await asyncio.to_thread(self._checkpoints.sights, order)

    async def sample_stacks(self, order: StackOrder) -> tuple[SampledStack, ...]:
        return await self._stacks.of(self._running.get(order.attempt), order)

    async def take_checkpoint(self, job_id: JobID, order: CheckpointOrder) -> tuple[QueryPoint, ...]:
        return await asyncio.to_thread(self._checkpoints.look, job_id, order)

    async def commit(self, commit: SinkCommit) -> Committed:
        return await self._output.commit(commit)

    async def discard(self, locations: Sequence[str]) -> None:
        others = await discard_rows(self._blobs, locations)
        await self._output.discard(await asyncio.to_thread(self._checkpoints.discard, others))

    def _cleanups_of(self, run: AttemptRun) -> BackgroundTasks:
        return self._cleanups.setdefault(run.task.job.graph.job_id, BackgroundTasks())

    async def retain_checkpoint(self, job_id: JobID, location: str | None) -> None:
        await self._cleanups.get(job_id, BackgroundTasks()).join()
        await asyncio.to_thread(self._checkpoints.retain, job_id, location)

    async def release_job(self, job_id: JobID, *, is_over: bool = True) -> None:
        """Once its attempts are cleared up: a process that is on its way may make its directory at any time."""
        await self._cleanups.get(job_id, BackgroundTasks()).join()
        self._cleanups.pop(job_id, None)
        shared = f"{self._results}/{job_id}" if is_over and job_id in self._sharing else ""
        if shared:
            await asyncio.to_thread(remove_location, shared, self._storage)
            self._sharing.discard(job_id)
        await self._output.release(job_id, removed=shared)
        await self._output.discard([str(self._work_dir / name / job_id) for name in ("attempts", "partitions")])
        await self._artifacts.release(job_id)
        await asyncio.to_thread(self._checkpoints.release, job_id, is_over)
        await asyncio.to_thread(self._printed.end, job_id)
        if self._pool is not None:
            await self._pool.release_job(job_id)

    def _session_settings(self, job: dict[str, str]) -> dict[str, str]:
        """Settings of Spark that the backend was not started with: of a server of others, all but where it is."""
        own = {name: text for name, text in self._config.spark().items() if name != "spark.master"}
        return {**own, **job} if self._master.is_foreign else dict(job.items() - own.items())

    async def _end_former(
        self, attempt: RegionAttemptID, user: str, seat: Seat, on_progress: Callable[[TaskProgress], None]
    ) -> None:
        """What a worker, or its host, that has died was running for earlier attempts on a server of others is ended before
        another attempt begins."""
        if self._guard is not None and attempt.attempt:
            backend = seat.take()
            endpoint = await awaited(backend.server, attempt, on_progress)
            assert endpoint is not None, "it is never off"
            closing = (
                backend.close_session(endpoint, session, SessionEnding(was_cut=True))
                for session in former_sessions(attempt, self._master.user or user)
            )
            await asyncio.gather(*closing)

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
            session=session_of(attempt, self._master.user or job.user),
            operation_tag=operation_tag(attempt),
            endpoint=seat.take().server.current if wants_spark(job, deployment) else None,
            code=code.directories,
            code_archives=code.archives,
            pickles=code.pickles,
            placed=code.placed,
            interpreter=unpacked_interpreter(interpreter_of(job.graph), code),
            directory=str(self._work_dir / "attempts" / attempt.job_id / name),
            log=str(self._work_dir / "logs" / attempt.job_id / f"{name}.log"),
            pipes=str(self._work_dir / "attempts" / attempt.job_id / f"{name}.pipes") if is_script(job) else "",
            partitions=partitions,
            lists=f"{self._results}/{attempt.job_id}/{name}.lists" if self._guard and self._results else partitions,
            results=f"{self._results}/{attempt.job_id}/{name}" if self._results else partitions,
            scheduler_pool=seat.scheduler_pool,
            settings=self._session_settings(job_settings(job.graph)),
            is_backend_shared=seat.is_shared,
            jvm_cores=worker_cores(self._config) if self._master.is_local else 0,
            storage=self._storage,
            staged_note=str(self._work_dir / SINKS / STAGED / f"{attempt.job_id}-{name}"),
            client_directory=job.graph.environment.directory or os.environ.get(CLIENT_DIRECTORY_VARIABLE, os.getcwd()),
            trigger_ms=effective(self._config, job.graph.configuration).get_option(options.STREAM_TRIGGER),
            reattachments_max=effective(self._config, job.graph.configuration).get_option(options.STREAM_REATTACHMENTS),
            progress_interval_ms=self._config.get_option(options.PROGRESS_INTERVAL),
            result_max_bytes=result_max_bytes(self._config, job.graph.configuration),
        )

    def _script_output(self, task: wire.RunTask) -> ScriptOutput:
        attempt, limit_mib = task.deployment.attempt, self._config.get_option(options.SCRIPT_OUTPUT_LIMIT)

        async def send(stream: str, offset: int, data: bytes) -> None:
            await self._blobs.append_output(attempt.job_id, f"{attempt.attempt}.{stream}", offset, data)

        return ScriptOutput(Path(task.log), send, limit_mib << 20)

    async def _abort(self, run: AttemptRun) -> None:
        """Interrupt, give the process a moment, kill it, close its session, remove what it wrote."""
        if run.endpoint is not None:
            for session in tuple(run.sessions):
                await run.seat.take().interrupt(run.endpoint, session)
        run.child.signal_group(signal.SIGTERM)
        await self._clean_up(run, keep_output=False)

    async def _clean_up(self, run: AttemptRun, keep_output: bool) -> None:
        """Clear up after an attempt, off the path of its result: no process, no session, no files. Repeatable."""
        limit_s = self._config.get_option(options.CANCELLATION_TIMEOUT) / 1_000 or None
        if not await run.child.end(_GRACE_SECONDS, limit_s):
            text = "%s: its process %d was killed %g s ago and has not ended: it is given up"
            logger.warning(text, run.task.deployment.attempt, run.child.pid.result(), limit_s)
        run.child.close()
        await run.all_printed()
        if not self._closed:
            with contextlib.suppress(TaskFailedError):
                await self._forks.refill()
        try:
            if not self._closed or self._guard is not None:  # else the JVM goes, and all sessions with it
                await self._close_sessions(run, was_cut=not keep_output)
        finally:  # one that stands still keeps it waiting until this worker ends
            run.seat.leave()
            await self._output.discard(await asyncio.to_thread(run.rubbish, keep_output))

    async def _close_sessions(self, run: AttemptRun, *, was_cut: bool) -> None:
        """No session is left of this attempt."""
        endpoint, run.endpoint = run.endpoint, None
        if endpoint is not None:
            for session in run.sessions:
                cached = tuple(each for each in run.cached if each.session_id == session.session_id)
                await run.seat.take().close_session(endpoint, session, SessionEnding(was_cut, cached))
