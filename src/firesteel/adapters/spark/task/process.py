"""The task process: runs the Python code of one attempt of one region, in a session of its own."""

import atexit
import contextlib
import itertools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyspark
from pyspark.logger import PySparkLogger

from firesteel.adapters.spark import internals, wire
from firesteel.adapters.spark.refusals import UserError
from firesteel.adapters.spark.scripts.program import ScriptProgram
from firesteel.adapters.spark.scripts.sessions import open_sessions_for_builders
from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.spark.session.caching import CacheWatch
from firesteel.adapters.spark.session.context import AttemptContext
from firesteel.adapters.spark.session.counted import SparkCounts, counted_once
from firesteel.adapters.spark.session.instants import OneInstant
from firesteel.adapters.spark.session.interpreter import use_interpreter
from firesteel.adapters.spark.session.relativepaths import ClientPaths
from firesteel.adapters.spark.session.shipment import Shipment, place
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.adapters.spark.staged.notes import note_staged
from firesteel.adapters.spark.streams.continuity import Continuity
from firesteel.adapters.spark.streams.outputs import FileOutputs
from firesteel.adapters.spark.streams.queries import StreamingQueries, StreamSink
from firesteel.adapters.spark.task import errors
from firesteel.adapters.spark.task.entrypoints import resolve
from firesteel.adapters.spark.task.excerpts import with_excerpt
from firesteel.adapters.spark.task.plan import RegionPlan
from firesteel.model import options
from firesteel.model.branches import branch_of
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.jobgraph import CLIENT_DIRECTORY_VARIABLE, Function, JobType, RuntimeEnvironment
from firesteel.model.options import Configuration
from firesteel.model.splits import DrawnSplits
from firesteel.model.streams import QueryProgress
from firesteel.model.tasks import IOMetrics, TaskOutcome, TaskProgress


def main(channel: wire.ChildChannel, task: wire.RunTask) -> None:
    """Run the attempt and report. Returns when the process may end."""
    _use_directory_and_log(task)
    if task.follow is not None:
        print(f"firesteel: {task.follow.notice}")
    own_pid = os.getpid()
    report = report_of(channel, task)
    _flush()
    if os.getpid() != own_pid:  # the user's code has forked, and this is the copy: only the original reports
        os._exit(report.failure.exit_code if isinstance(report, wire.Failed) else 0)
    channel.send(report)
    _run_exit_handlers()
    if not task.pipes:  # a script may leave something that runs on, as everywhere
        _end_what_was_started()


def report_of(channel: wire.ChildChannel, task: wire.RunTask) -> wire.Finished | wire.Failed:
    """Run the attempt. Nothing is raised: this adapter's edge, where whatever it is becomes data."""
    try:
        process = TaskProcess(channel, task)
    except Exception as error:  # of the graph itself, which no other attempt reads otherwise
        return wire.Failed(errors.bare(error, FailureKind.NON_RECOVERABLE))
    try:
        return process.run()
    except BaseException as error:
        return wire.Failed(process.describe(error), process.session.opened)


class TaskProcess:
    """The attempt, from assignment to report."""

    def __init__(self, channel: wire.ChildChannel, task: wire.RunTask) -> None:
        self._channel, self._task = channel, task
        self._stop: wire.StopQueries | None = None
        """An order to stop queries that came before there were any."""
        self._told: wire.QueriesRun | None = None
        self.session = AttemptSession(self._endpoint, task.session, task.operation_tag, task.settings)
        self.session.scheduler_pool = task.scheduler_pool
        self.session.on_open = self._prepare_session
        self.session.on_client = Shipment(task).add
        self._caches, self._counts = CacheWatch(channel.send), SparkCounts()
        self.session.announce = lambda name: self._channel.send(wire.OpensSession(name))
        self._attempt = AttemptContext(
            task.deployment,
            Path(task.client_directory),
            result_max_bytes=task.result_max_bytes,
            report_staging=self._report_staging,
            storage=task.storage,
            jvm_cores=task.jvm_cores,
        )
        self._attempt.draw_splits, self._attempt.instant_ms = self._draw_splits, task.job.instant_ms
        self._attempt.caches_unseen = lambda: channel.send(wire.Cached(task.session.session_id))
        self._attempt.checkpoints, self._attempt.settings = task.checkpoints, task.settings
        self._attempt.is_backend_shared = task.is_backend_shared
        self._attempt.python_executable = task.job.graph.configuration.get(options.PYTHON_EXECUTABLE.key, "")
        self._attempt.outputs = StreamOutputs(branch_of(task.job.graph.configuration))
        self._paths = ClientPaths(task.client_directory, self.session, task.storage)
        self._plan = RegionPlan(task.job.graph, task.deployment, self.session, self._attempt)

    def _report_staging(self, location: str, secrets: Mapping[str, str] = {}, /) -> None:
        note_staged(Path(self._task.staged_note), location)
        self._channel.send(wire.Staging(location, secrets))

    def run(self) -> wire.Finished | wire.Failed:
        mismatch = environment_mismatch(self._task.job.graph.environment)
        if mismatch is not None:
            return wire.Failed(mismatch)
        sys.path[:0] = self._task.code
        if self._task.interpreter:
            use_interpreter(self._task.interpreter, self._attempt.python_executable)
        follow = self._task.follow
        if follow is None:
            self._channel.send(wire.Running())
        self._caches.install()
        self.session.functions.install()
        first = self._task.job.graph.vertices[0].functions[0]
        if first.is_script:
            self._plan.active = first
            failure = ScriptProgram(first, self._task, self.session, self._paths, self.describe).run()
            return wire.Finished(TaskOutcome(), True) if failure is None else wire.Failed(failure, True)
        _silence_error_records()
        open_sessions_for_builders(self.session, for_script=False)
        self._paths.install()
        if follow is not None:
            self._follow_queries(follow)
            return wire.Finished(TaskOutcome(io=IOMetrics()), used_session=True)
        outcome = self._run_plan()
        if self._plan.streams:
            self._start_queries()
        counted = self._counts.total(self._plan.rows_read, self._plan.bytes_read)
        return wire.Finished(msgspec.structs.replace(outcome, io=counted), self.session.opened)

    def _run_plan(self) -> TaskOutcome:
        directory, results = Path(self._task.partitions), self._task.results
        if results != self._task.partitions and self._plan.stores:  # others clear it up when this machine is gone
            self._report_staging(results)
        return self._plan.run(self._resolver(), directory, results, Path(self._task.lists))

    def _start_queries(self) -> None:
        """Until the queries have ended, or the worker says that they are to."""
        queries = self._queries(self._plan.streams)
        if self._stop is not None:
            queries.stop(drain=self._stop.drain)
        self._obey_in_a_thread(queries)
        queries.start()
        queries.follow(lambda found: self._report_queries(queries, found))

    def _follow_queries(self, follow: wire.FollowQueries) -> None:
        """The same, of queries that a process before this one has started. The user's functions are called again only to
        drain: in a session of its own, where none has been called before."""

        def sinks_again() -> list[StreamSink]:
            self.session.renew()
            self._run_plan()
            return self._plan.streams

        session = self.session.rejoin()
        self.session.numbers = itertools.count(follow.sessions)
        queries = self._queries([StreamSink(function) for function in self._plan.sinks], sinks_again)
        queries.take_over(
            follow.queries, lambda each: internals.running_query(session, each.query_id, each.run_id, each.uid)
        )
        self._obey_in_a_thread(queries)
        queries.follow(lambda found: self._report_queries(queries, found))

    def _queries(
        self, sinks: Sequence[StreamSink], remake: Callable[[], Sequence[StreamSink]] | None = None
    ) -> StreamingQueries:
        task, configuration = self._task, Configuration(self._task.job.graph.configuration)
        restored = configuration.get_option(options.RESTORE_PATH)
        return StreamingQueries(
            sinks,
            task.checkpoints,
            task.trigger_ms,
            continuity=Continuity(restored, tolerant=configuration.get_option(options.IGNORE_CHANGED_PLAN)),
            outputs=FileOutputs(self._paths.absolute, self._attempt.outputs),
            begin=self._plan.begin_stream,
            look=self._plan.look_at_stream,
            may_run=lambda yes: self._channel.send(wire.QueriesMayRun(yes)),
            remake=remake,
        )

    def _obey_in_a_thread(self, queries: StreamingQueries) -> None:
        threading.Thread(target=self._obey, args=(queries,), name="obey", daemon=True).start()

    def _obey(self, queries: StreamingQueries) -> None:
        """From here on nothing else reads the channel: the session is open."""
        while (message := self._channel.receive()) is not None:
            assert isinstance(message, wire.StopQueries), f"not for a streaming attempt: {message}"
            queries.stop(drain=message.drain)

    def _report_queries(self, queries: StreamingQueries, found: tuple[QueryProgress, ...]) -> None:
        told = wire.QueriesRun(queries.running(), self._bond(queries))
        if told != self._told:
            self._told = told
            self._channel.send(told)
        progress = TaskProgress(
            attempt=self._task.deployment.attempt,
            rows_read=sum(each.input_rows for each in found),
            queries=found,
            reattachments=self._task.follow.number if self._task.follow is not None else 0,
        )
        self._channel.send(wire.Progressed(progress))

    def _bond(self, queries: StreamingQueries) -> str:
        """What of the queries would be lost with this process, in words, or empty."""
        sessions = {id(session): session for session in map(internals.session_of_query, queries.queries())}
        if any(map(internals.has_listeners, sessions.values())):
            return "a StreamingQueryListener of the pipeline was in that process"
        names = {internals.session_id_of(session.client) for session in sessions.values()}
        own = self._task.session.session_id
        return "" if names <= {own} else "the pipeline had started them in a session that it had made itself"

    def describe(self, error: BaseException) -> FailureInfo:
        """The failure as data; never raises."""
        try:
            code = self._task.code
            if self._task.follow is not None and not self._plan.callables:
                self._load_functions()
            failure = errors.describe(error, self._plan, code, self._paths.explain, uri_of=self._uri_of)
            return with_excerpt(failure, self._plan, code)
        except Exception as second:
            trace = f"(its details could not be read: {type(second).__name__}: {errors.text_of(second)})"
            return errors.bare(error, FailureKind.USER, trace)

    def _load_functions(self) -> None:
        """Of queries that were only followed: by the functions the place of an error is told."""
        active = self._plan.active
        with contextlib.suppress(Exception):
            self._plan.load(self._resolver())
        self._plan.active = active

    def _uri_of(self, scheme: str) -> str:
        """The first URI with it that the user's code has named, else where results are stored."""
        results = self._task.results if self._task.results.startswith(f"{scheme}:") else ""
        return self._paths.first_of(scheme) or results

    def _resolver(self) -> Callable[[Function], Callable[..., Any]]:
        pickled: dict[str, Callable[..., Any]] = {}
        for path in self._task.pickles:
            import cloudpickle

            pickled.update(cloudpickle.loads(Path(path).read_bytes()))

        def resolve(function: Function) -> Callable[..., Any]:
            found = pickled.get(function.entry_point) or pickled.get(function.name)
            if found is not None:
                return found
            callable_ = self._imported(function.entry_point)
            self._send_by_value(function.entry_point.partition(":")[0])
            return callable_

        return resolve

    def _send_by_value(self, module_name: str) -> None:
        """Have Spark's Python workers get the functions of the pipeline's own module as values, as those of a script.

        Importing it there would run its decorators, and `@udf("string")` asks for a session, which a worker has not.
        """
        from pyspark import cloudpickle

        module = sys.modules[module_name]
        file = Path(getattr(module, "__file__", None) or os.sep)
        if any(file.is_relative_to(directory) for directory in self._task.code):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

    def _imported(self, entry_point: str) -> Callable[..., Any]:
        try:
            return resolve(entry_point)
        except SystemExit as error:
            raise UserError(f"the module of {entry_point} called sys.exit() when it was imported") from error

    def _endpoint(self) -> wire.SparkAddress:
        if self._task.endpoint is not None:
            return self._task.endpoint
        self._channel.send(wire.WantAddress())
        while isinstance(message := self._channel.receive(), wire.StopQueries):
            self._stop = self._stop or message  # Spark is still on its way up
        match message:
            case wire.UseAddress(endpoint=endpoint):
                return endpoint
            case other:
                raise RuntimeError(f"the worker gave no Spark endpoint: {other}")

    def _draw_splits(self, number: int) -> DrawnSplits:
        self._channel.send(wire.WantSplits(number))
        match self._channel.receive():
            case wire.UseSplits(drawn=drawn):
                return drawn
            case other:
                raise RuntimeError(f"the worker gave no input splits: {other}")

    def _prepare_session(self, session: Any) -> None:
        session.registerProgressHandler(self._progress_handler(session.client))
        internals.watch_operations(session.client, self._counts.under_way)
        self._caches.add(session)
        first = self._task.job.graph.vertices[0].functions[0]
        is_batch = self._task.job.graph.job_type is JobType.BATCH
        if is_batch and self._task.job.instant_ms and not first.is_script:
            OneInstant(session, self._task.job.instant_ms, self.session.begun)

    def _progress_handler(self, client: Any) -> Callable[..., None]:
        interval = self._task.progress_interval_ms / 1000
        last = 0.0
        told = False
        lock = threading.Lock()  # user code may run several actions in threads

        def report(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
            nonlocal last, told
            now = time.monotonic()
            stages = list(stages or ())
            with lock:
                self._counts.note(operation_id, stages)
                if not told and (known := internals.server_session_id_of(client)):
                    told = True
                    self._channel.send(wire.SessionKnown(known))
                is_stream = bool(self._plan.streams or self._task.follow)  # whose queries tell of themselves
                if is_stream or (now - last < interval and not done):
                    return
                last = now
                self._channel.send(wire.Progressed(self._progress(stages, inflight_tasks)))

        return report

    def _progress(self, stages: list[Any], running: int) -> TaskProgress:
        active, stages = self._plan.active, counted_once(stages)
        return TaskProgress(
            attempt=self._task.deployment.attempt,
            function=active.name if active is not None else "",
            stages_done=sum(1 for stage in stages if stage.done),
            stages_total=len(stages),
            # Tasks whose rows were lost with an executor run again, and count again.
            tasks_done=sum(min(stage.num_completed_tasks, stage.num_tasks) for stage in stages),
            tasks_total=sum(stage.num_tasks for stage in stages),
            tasks_running=running,
            bytes_read=sum(stage.num_bytes_read for stage in stages),
        )


def _silence_error_records() -> None:
    """PySpark prints a line of JSON with the JVM's whole trace for each of its errors, also for those that a function
    catches: of a thousand characters that were printed last nothing else would be left. The failure has the trace."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def environment_mismatch(built_with: RuntimeEnvironment) -> FailureInfo | None:
    """Why code built with `built_with` must not run here, or None."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    here = RuntimeEnvironment(python=python, pyspark=pyspark.__version__)
    refusal = built_with.refusal(here, "this worker")
    return FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=refusal) if refusal else None


def _use_directory_and_log(task: wire.RunTask) -> None:
    """Which the worker has made: where it has died since, others may have cleared up after it by now."""
    os.chdir(task.directory)
    place(task)
    os.environ[CLIENT_DIRECTORY_VARIABLE] = task.client_directory
    for number, name in ((1, "stdout"), (2, "stderr")):
        path = os.path.join(task.pipes, name) if task.pipes else task.log
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the user's code closed it, or the disk is full
            continue


def _end_what_was_started() -> None:
    """Kill the rest of this process's group, whose number is nobody else's while it lives."""
    own = os.getpid()
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]:
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == own:
                os.kill(pid, signal.SIGKILL)


def _run_exit_handlers() -> None:
    """The user's `atexit` functions, after the report; the process then ends without further ado."""
    logging.raiseExceptions = False
    atexit._run_exitfuncs()
    _flush()
