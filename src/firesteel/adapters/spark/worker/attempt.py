"""One attempt as the worker sees it: the conversation with its task process, and what ends it.

A task process of a stream that was killed is followed by another one, as long as its queries run on.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children.forkclient import Child
from firesteel.adapters.spark.clusters.foreign import ForeignServer
from firesteel.adapters.spark.clusters.waiting import ExecutorWait
from firesteel.adapters.spark.jvm.pool import Seat
from firesteel.adapters.spark.jvm.server import SparkServer
from firesteel.adapters.spark.staged.notes import noted_in
from firesteel.adapters.spark.streams.making import without_directories
from firesteel.adapters.spark.worker.printed import with_output
from firesteel.adapters.spark.worker.scriptoutput import ScriptOutput
from firesteel.adapters.spark.worker.succession import Succession
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionAttemptID
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import JobInformation, TaskDeployment, TaskOutcome, TaskProgress
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

_KILL_HINTS = {
    signal.SIGKILL: "if the machine ran out of memory, let fewer attempts run at once or collect less into Python",
    signal.SIGSEGV: "a native library crashed",
    signal.SIGABRT: "a native library gave up",
}
_EOF_GRACE_SECONDS = 1.0
_CLOSED_GRACE_SECONDS = 10.0
_CLOSED = "the task process has closed its connection with the worker, and went on (os.closerange in the user's code?)"
_TELL_SECONDS = 1.0
"""Time between two words of an attempt that waits for its backend."""
CACHED_MAX = 1_000
"""Plans of an attempt that are released one by one."""


class AttemptRun:
    """Talks with one task process until it reports or ends. `fork` gives another one."""

    def __init__(self, task: wire.RunTask, child: Child, seat: Seat, fork: Callable[[], Awaitable[Child]]) -> None:
        self.task, self.child, self.seat, self._fork = task, child, seat, fork
        self._succession = Succession(task.reattachments_max)
        self.sessions = [task.session]
        """All that its process has opened, or may have."""
        self.printed: ScriptOutput | None = None
        """What passes on what a script prints."""
        self.endpoint: wire.SparkAddress | None = None
        """Where its session is, or may be."""
        self.staging: dict[str, Mapping[str, str]] = {}
        """What it has said that it writes elsewhere, with the secrets that removing it takes."""
        self.server_session = ""
        """The server's own id of the session, once Spark works for it."""
        self.memory_peak_bytes = 0
        """Most memory that it was seen to hold."""
        self.cached: list[wire.Cached] = []
        """What it has had Spark cache, which is to be released with its session."""
        self._queries_may_run = False
        self._stop: wire.StopQueries | None = None
        self._waits = ExecutorWait()
        self._verdict: FailureInfo | None = None
        self._death: asyncio.Future[FailureInfo] | None = None
        """Death of the JVM that its session is on, or may be."""

    async def converse(
        self,
        on_running: Callable[[], None],
        on_progress: Callable[[TaskProgress], None],
        draw_splits: Callable[[int], Awaitable[DrawnSplits]],
    ) -> wire.Finished:
        """Send the assignment and follow it. Raises TaskFailedError."""
        if self.task.endpoint is not None:
            self._bind(self.task.endpoint)
        self._assign(self.task)
        while True:
            message = await self.child.receive()
            match message:
                case wire.Running():
                    on_running()
                case wire.Progressed(progress=progress):
                    on_progress(self._placed(progress))
                case wire.QueriesMayRun(yes=yes):
                    self._queries_may_run = yes
                case wire.QueriesRun():
                    self._succession.note(message)
                case wire.SessionKnown(server_session=server_session):
                    self.server_session = server_session
                case wire.OpensSession(session=session):
                    self.sessions.append(session)
                    self.seat.take().hold(session)
                case wire.Staging(location=location, secrets=secrets):
                    self.staging[location] = secrets
                case wire.Cached():
                    self._note_cached(message)
                case wire.WantAddress():
                    endpoint = await self._started(on_progress)
                    if endpoint is None:
                        return self._without_report(await self.child.exited)
                    self._bind(endpoint)
                    self.child.send(wire.UseAddress(endpoint=endpoint))
                case wire.WantSplits(number=number):
                    self.child.send(wire.UseSplits(drawn=await draw_splits(number)))
                case wire.Finished():
                    return self._with_peak(message)
                case wire.Failed(failure=failure):
                    raise TaskFailedError(await self._blamed(failure))
                case None:
                    status = await self._exit_status()
                    if not await self._is_succeeded(status):
                        return self._without_report(status)
                case _:
                    raise AssertionError(f"not from a task process: {message}")

    def _assign(self, task: wire.RunTask) -> None:
        self.child.send(task)
        self.child.end_of_stream_after_exit(_EOF_GRACE_SECONDS)

    async def _exit_status(self) -> int:
        """Status of a process that has closed its end. One that goes on all the same can't report any more; a script need not."""
        if not self.task.pipes:
            done, _ = await asyncio.wait((self.child.exited,), timeout=_CLOSED_GRACE_SECONDS)
            if not done:
                self.condemn(FailureInfo(kind=FailureKind.USER, message=_CLOSED))
        return await self.child.exited

    async def _is_succeeded(self, status: int) -> bool:
        """Whether another process has taken the place of one that has ended without a report."""
        if not self._succession.has_queries or self._verdict is not None:
            return False
        if self._stop is not None:  # whether they have stopped, the next attempt finds out
            return False
        answer = self._succession.answer(describe_exit(status), len(self.sessions), time.monotonic())
        if isinstance(answer, FailureInfo):
            self._verdict = answer
            return False
        try:
            child = await self._fork()
        except TaskFailedError:  # the worker ends, or has no process to give: the attempt has failed of this death
            return False
        return self._goes_on(child, answer)

    def _goes_on(self, child: Child, answer: wire.FollowQueries) -> bool:
        former, self.child = self.child, child
        former.close()
        if self._verdict is not None:  # the JVM has died meanwhile
            return False
        attempt = self.task.deployment.attempt
        logger.info("attempt %d-%d of job %s: %s", attempt.region, attempt.attempt, attempt.job_id, answer.notice)
        self._assign(msgspec.structs.replace(self.task, endpoint=self.endpoint, follow=answer))
        if self._stop is not None:  # the order has come meanwhile
            self.child.send(self._stop)
        return True

    def _placed(self, progress: TaskProgress) -> TaskProgress:
        """Progress with what the worker knows of the cluster that does the work."""
        server = self.seat.take().server
        application = server.application()
        if application is None:
            return progress
        is_known = server.story is not None and server.story.is_waited_for
        waited_s = self._waits.note(progress, application.executors, time.monotonic(), is_known=is_known)
        waits_for = ""
        if waited_s and server.story is not None:
            waits_for = f"{server.story.waiting_words()}, for {waited_s:.0f} s now"
        return msgspec.structs.replace(progress, application=application, waits_for=waits_for)

    async def _started(self, on_progress: Callable[[TaskProgress], None]) -> wire.SparkAddress | None:
        """Where its backend listens, once it does; meanwhile it is told what the attempt waits for. None when the task
        process has ended before that."""
        attempt = self.task.deployment.attempt
        return await awaited(self.seat.take().server, attempt, on_progress, is_off=self.child.exited.done)

    def _with_peak(self, report: wire.Finished) -> wire.Finished:
        """Its process knows of itself only, and to the byte; the worker has looked at all, now and then."""
        io = report.outcome.io
        if io is None or io.memory_peak_bytes < 0:
            return report
        io = msgspec.structs.replace(io, memory_peak_bytes=max(io.memory_peak_bytes, self.memory_peak_bytes))
        return msgspec.structs.replace(report, outcome=msgspec.structs.replace(report.outcome, io=io))

    def _without_report(self, status: int) -> wire.Finished:
        """The outcome of a process that ended without a report. Raises TaskFailedError."""
        is_script = bool(self.task.pipes)
        if is_script and status == 0 and self._verdict is None:  # os._exit(0): a program may end like that
            return wire.Finished(TaskOutcome(), used_session=True)
        failure = self._verdict or describe_exit(status)
        if is_script:
            failure = msgspec.structs.replace(failure, exit_code=status if status > 0 else 128 - status)
        raise TaskFailedError(failure)

    async def print_to(self, output: ScriptOutput) -> None:
        """Have what the script prints passed on. Raises OSError, and then its process ends, which has no assignment yet."""
        try:
            await output.open(Path(self.task.pipes))
        except BaseException:
            self.child.close()
            raise
        self.printed = output

    async def all_printed(self) -> None:
        """Wait until all that a script has printed is where the client finds it: its process can't print any more."""
        if self.printed is not None:
            await self.printed.close()

    async def told(self, failure: FailureInfo) -> FailureInfo:
        """The failure with the end of what was printed. Where none of its queries was started it leaves no directories for
        checkpoints, as if they had never been made."""
        await self.all_printed()
        if self.task.checkpoints and not self._queries_may_run:
            made = tuple(map(Path, self.task.checkpoints.values()))
            failure = await asyncio.to_thread(without_directories, made, failure)
        return with_output(failure, Path(self.task.log))

    def stop_streams(self, *, drain: bool) -> None:
        """Have its queries stop; it then reports that it has finished."""
        self._stop = wire.StopQueries(drain=drain)
        self.child.send(self._stop)

    def rubbish(self, keep_output: bool) -> list[str]:
        """What it leaves that nobody needs: all but its output, or that as well; also where it was about to write when nobody
        listened to it any more."""
        lists = self.task.lists if self.task.lists != self.task.partitions else ""
        found = [self.task.directory, *filter(None, (self.task.pipes, lists))]
        if not keep_output:
            staged = dict.fromkeys((*self.staging, *noted_in(Path(self.task.staged_note))))
            found += [self.task.partitions, *staged]
        return found

    def condemn(self, failure: FailureInfo) -> None:
        """Kill the process; `failure` is why. The first verdict stands."""
        self._verdict = self._verdict or failure
        self.child.signal_group(signal.SIGKILL)

    def _note_cached(self, what: wire.Cached) -> None:
        if len(self.cached) >= CACHED_MAX:
            what = wire.Cached(what.session_id)
        if what not in self.cached:
            self.cached.append(what)

    def _bind(self, endpoint: wire.SparkAddress) -> None:
        """From here on take the death of the JVM for the attempt's own: Connect clients retry for minutes."""
        self.endpoint = endpoint
        self.seat.take().hold(self.task.session)
        self._death = self.seat.take().server.death()
        self._death.add_done_callback(self._on_backend_death)

    def silence(self) -> str:
        """What it waits for when the backend that it is on does not answer; empty when it does."""
        if self.endpoint is None:
            return ""
        server = self.seat.take().server
        return server.silence if server.current == self.endpoint else ""

    def unbind(self) -> None:
        """The attempt is over. Its backend outlives it, and would keep it."""
        if self._death is not None:
            self._death.remove_done_callback(self._on_backend_death)

    def _on_backend_death(self, death: asyncio.Future[FailureInfo]) -> None:
        if not death.cancelled():
            self.condemn(death.result())

    async def _blamed(self, failure: FailureInfo) -> FailureInfo:
        """The backend's death when that is the cause: the process may notice before the worker does."""
        if failure.kind is FailureKind.ENVIRONMENT and self.endpoint is not None and self._verdict is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EOF_GRACE_SECONDS):
                    self._verdict = await asyncio.shield(self.seat.take().server.death())
        return self._verdict or failure


def make_directories(task: wire.RunTask) -> None:
    """Those that its process works and logs in. It makes none itself: it may begin when its worker has died, and others have
    cleared up, and what it made then would stay for good."""
    for directory in (task.directory, os.path.dirname(task.log)):
        os.makedirs(directory, exist_ok=True)


async def awaited(
    server: SparkServer | ForeignServer,
    attempt: RegionAttemptID,
    on_progress: Callable[[TaskProgress], None],
    *,
    is_off: Callable[[], bool] = lambda: False,
) -> wire.SparkAddress | None:
    """Where a backend listens, once it does; meanwhile it is told what the attempt waits for. None when it is off."""
    while True:
        try:
            async with asyncio.timeout(_TELL_SECONDS):
                endpoint = await server.endpoint()
        except TimeoutError:
            if is_off():
                return None
            on_progress(TaskProgress(attempt=attempt, waits_for=server.waits_for()))
        else:
            on_progress(TaskProgress(attempt=attempt))
            return endpoint


def describe_exit(status: int) -> FailureInfo:
    """A task process that ended without a report."""
    if status < 0:
        name = signal.Signals(-status)
        hint = _KILL_HINTS.get(name, "")
        message = f"the task process was killed by {name.name}" + (f"; {hint}" if hint else "")
        return FailureInfo(kind=FailureKind.ENVIRONMENT, message=message, exception=name.name)
    message = (
        f"the task process ended with status {status} and told no result: code in it may have called os._exit, or closed"
        " file descriptors that are not its own; what it printed may say more"
    )
    return FailureInfo(kind=FailureKind.USER, message=message)


def wants_spark(job: JobInformation, deployment: TaskDeployment) -> bool:
    mine = set(deployment.vertices)
    functions = (f for vertex in job.graph.vertices if vertex.id in mine for f in vertex.functions)
    return bool(deployment.inputs) or any(function.wants_session for function in functions)


def is_script(job: JobInformation) -> bool:
    return job.graph.vertices[0].functions[0].is_script
