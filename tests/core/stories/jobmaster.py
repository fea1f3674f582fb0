"""Verbs of stories about one JobMaster."""

import dataclasses

import msgspec

from firesteel.core.checkpoint.requests import TriggerCheckpoint, TriggerSavepoint
from firesteel.core.checkpoint.savepoints import SavepointSettings
from firesteel.core.effects import LeadershipLost
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.journal import JobState, fold
from firesteel.core.journal.records import JournalRecord
from firesteel.core.requests import Asked
from firesteel.core.scheduler.backoff import ExponentialDelay, FixedDelay, NoRestart, RestartStrategy
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.core.settings import JobMasterSettings
from firesteel.model import messages as m
from firesteel.model.checkpoints import CheckpointRetention, CheckpointSettings, QueryPoint
from firesteel.model.failures import OVERTAKEN, FailureInfo, FailureKind
from firesteel.model.ids import Address, AllocationID, FencingToken, RegionAttemptID, ResourceID
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.messages import Leader
from firesteel.model.options import CLAIM_MODE, RESTORE_PATH
from firesteel.model.reports import ExecutionReport, SlotOffer, SplitRequest, TaskStateUpdate
from firesteel.model.resources import ResourceProfile
from firesteel.model.states import ExecutionState
from firesteel.model.streams import AfterSavepoint, QueryProgress
from firesteel.model.tasks import TaskOutcome, TaskProgress
from firesteel.model.views import JobView, summary_of
from tests.core.graphs import JOB, job, outcome
from tests.core.stories.player import Player, attempt, listed, show

SETTINGS = JobMasterSettings(SchedulerSettings(FixedDelay(2, 1_000), 4), 10_000, 50_000, 30_000, 20_000)
STRATEGIES: dict[str, RestartStrategy] = {
    "none": NoRestart(),
    "fixed": SETTINGS.scheduler.strategy,
    "exponential": ExponentialDelay(1_000, 60_000, 2.0, 100_000, 0.0, attempts=3),
}
SLOT = ResourceProfile(1.0, 1_024)
DISPATCHER = Leader(Address("dispatcher"), FencingToken(1, "dispatcher"))


def new_core(
    graph: JobGraph,
    state: JobState | None = None,
    epoch: int = 1,
    settings: JobMasterSettings = SETTINGS,
    *,
    doom: FailureInfo | None = None,
) -> JobMasterCore:
    """A JobMaster of that epoch, from the fold of a journal."""
    me = Leader(Address("jm"), FencingToken(epoch, "jm"))
    return JobMasterCore(graph, state or JobState(job_id=graph.job_id), settings, me, DISPATCHER, doom=doom)


class JobMasterPlayer(Player):
    """`graph` comes first. Workers number their messages; `seq=N` sends an old one."""

    core: JobMasterCore

    def make_core(self) -> JobMasterCore:
        self.epoch = 1
        self.sequence = 0
        self.settings = SETTINGS
        return new_core(job("v"))

    def do_graph(
        self,
        *words: str,
        attempts: str | None = None,
        timeout: str = "0",
        strategy: str = "fixed",
        failover: str = "",
        type: str = "batch",
        saves: str = "",
        every: str = "0",
        pause: str = "0",
        tolerable: str = "0",
        retained: str = "1",
        stays: str = "",
        claims: str = "",
        volume: str = "0",
    ) -> None:
        """Another job, from its beginning; a subtask of which nobody says how many there are is to read a `volume` of bytes; `timeout` in milliseconds is its limit, `attempts` is that of each vertex; in
        `saves` it makes its savepoints; `every` so many milliseconds there is a checkpoint, after a `pause`; checkpoints are shared below `/c`, and
        `stays` is their retention when it has ended; it starts from the savepoint that it `claims`."""
        self.timers.clear()
        self.journal.clear()
        self.writes.clear()
        scheduler = dataclasses.replace(
            SETTINGS.scheduler,
            strategy=STRATEGIES[strategy],
            timeout_ms=int(timeout),
            subtask_bytes=int(volume),
            restarts_all=failover == "full",
            savepoints=SavepointSettings(saves, 5_000),
            checkpoints=CheckpointSettings(
                interval_ms=int(every),
                timeout_ms=5_000,
                min_pause_ms=int(pause),
                tolerable_failures=int(tolerable),
                retained_max=int(retained),
                shared_dir="/c" if stays else "",
                retention=CheckpointRetention[stays or "DELETE_ON_CANCELLATION"],
            ),
        )
        self.settings = dataclasses.replace(SETTINGS, scheduler=scheduler)
        graph = job(" ".join(words), attempts=None if attempts is None else int(attempts))
        configuration = {RESTORE_PATH.key: claims, CLAIM_MODE.key: "CLAIM"} if claims else {}
        graph = msgspec.structs.replace(graph, job_type=JobType(type), configuration=configuration)
        self.core = new_core(graph, settings=self.settings)

    def do_successor(self, doom: str | None = None) -> None:
        """The JobMaster is gone; another one starts from what is durable."""
        state = JobState(job_id=JOB)
        records: list[JournalRecord] = self.journal  # type: ignore[assignment]
        for record in records:
            fold(state, record, SETTINGS.scheduler.exception_history_size)
        self.epoch += 1
        self.timers.clear()
        self.holds, self._waiting = False, None
        failure = None if doom is None else FailureInfo(kind=FailureKind.ENVIRONMENT, message=doom)
        self.core = new_core(self.core.job.graph, state, self.epoch, self.settings, doom=failure)
        self.do_start()

    def do_lose_leadership(self) -> None:
        self.give(LeadershipLost())

    # ── workers ──────────────────────────────────────────────────────────────────────────────
    def do_report(
        self,
        worker: str,
        slots: str = "",
        runs: str = "",
        ends: str = "",
        seq: str | None = None,
        at: str = "",
        wants: str = "",
    ) -> None:
        """`report w1 slots=a,b runs=0#0@a:RUNNING ends=1#0:FINISHED`: all that a worker has."""
        self.sequence += 1
        body = m.TaskManagerReport(
            resource_id=ResourceID(worker),
            job_id=JOB,
            sequence=self.sequence if seq is None else int(seq),
            slots=tuple(SlotOffer(AllocationID(name), i, SLOT) for i, name in enumerate(listed(slots))),
            executions=tuple(self._execution(text) for text in listed(runs)),
            updates=tuple(self._update(text) for text in listed(ends)),
            progress=tuple(TaskProgress(attempt=attempt(text), stages_done=1) for text in listed(at)),
            wants=tuple(map(_request, listed(wants))),
        )
        self.deliver(worker, body)

    def do_state(self, worker: str, *updates: str, seq: str | None = None) -> None:
        """`state w1 0#0:FINISHED 1#0:FAILED:words/0#0`: attempts run, or ended; a failure may name lost results, be
        UNBEGUN: without a checkpoint directory, or DIED:spark-1: with its Spark backend."""
        self.sequence += 1
        body = m.UpdateTaskExecutionStates(
            resource_id=ResourceID(worker),
            job_id=JOB,
            sequence=self.sequence if seq is None else int(seq),
            updates=tuple(self._update(text) for text in updates),
        )
        self.deliver(worker, body)

    def do_progress(self, worker: str, text: str, waits: str = "", queries: str = "") -> None:
        """`progress w1 0#0 queries=v,w`: these queries of the attempt have begun."""
        begun = tuple(QueryProgress(uid=uid) for uid in listed(queries))
        item = TaskProgress(attempt=attempt(text), stages_done=1, waits_for=waits, queries=begun)
        self.deliver(worker, m.ReportProgress(resource_id=ResourceID(worker), job_id=JOB, progress=(item,)))

    def do_draw(self, worker: str, *requests: str) -> None:
        """`draw w1 1#0:0`: attempts want their draw of that number."""
        body = m.RequestNextInputSplits(
            resource_id=ResourceID(worker), job_id=JOB, wants=tuple(map(_request, requests))
        )
        self.deliver(worker, body)

    def do_committed(self, worker: str, commit_id: str, problem: str = "") -> None:
        failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=problem) if problem else None
        body = m.SinkCommitAnswer(resource_id=ResourceID(worker), job_id=JOB, commit_id=commit_id, failure=failure)
        self.deliver(worker, body)

    def do_released(self, worker: str) -> None:
        self.deliver(worker, m.JobReleased(resource_id=ResourceID(worker), job_id=JOB))

    def do_goodbye(self, worker: str) -> None:
        self.deliver(worker, m.DisconnectTaskExecutor(resource_id=ResourceID(worker), reason="it is shut down"))

    # ── masters ──────────────────────────────────────────────────────────────────────────────
    def do_rm(self, what: str, cores: str = "0", late: str = "", backends: str = "0") -> None:
        """What the ResourceManager says. `late=1`: there was no such slot for slot.request.timeout; `backends` there are."""
        profile = ResourceProfile(float(cores))
        bodies: dict[str, m.AnyMessage] = {
            "registered": m.JobMasterRegistered(job_id=JOB, backends=int(backends)),
            "heartbeat": m.HeartbeatRequest(int(backends)),
            "not-enough": m.NotEnoughResources(
                job_id=JOB, profile=profile, reason="no worker has such a slot", timed_out=bool(late)
            ),
            "closed": m.JobClosed(job_id=JOB),
        }
        self.deliver("rm", bodies[what], token=1)

    def do_cancel(self, why: str = "") -> None:
        self.deliver("dispatcher", m.CancelJob(job_id=JOB, reason=why.replace("-", " ")), token=1)

    def do_savepoint(self, number: str, name: str, after: str = "go-on", to: str = "") -> None:
        """`savepoint 1 sp after=stop`: request 1 is for a savepoint of that id."""
        self.give(Asked(int(number), TriggerSavepoint(name, to, AfterSavepoint(after))))

    def do_saved(self, worker: str, name: str, problem: str = "") -> None:
        failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=problem) if problem else None
        body = m.SavepointAnswer(resource_id=ResourceID(worker), job_id=JOB, savepoint_id=name, failure=failure)
        self.deliver(worker, body)

    def do_checkpoint(self, number: str) -> None:
        """Request `number` is for a checkpoint."""
        self.give(Asked(int(number), TriggerCheckpoint()))

    def do_looked(self, worker: str, number: str, *points: str, problem: str = "", fast: str = "") -> None:
        """`looked w1 3 v:7/2`: a worker has found batch 7 of `v` for checkpoint 3, and the oldest that is left is 2."""
        exception = OVERTAKEN if fast else ""
        failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=problem, exception=exception) if problem else None
        body = m.AcknowledgeCheckpoint(
            resource_id=ResourceID(worker),
            job_id=JOB,
            checkpoint_id=int(number),
            points=tuple(map(_point, points)),
            failure=failure,
        )
        self.deliver(worker, body)

    def do_checkpoints(self) -> None:
        """All that is known of them."""
        view = self.core.view().checkpoints
        assert view is not None, "a stream has checkpoints"
        known = view.history
        self.out.append(
            f"{known.completed} completed, {known.failed} failed, {known.restored} restored, last is {known.last_id}"
        )
        self.out.append(f"retained: {', '.join(str(each.checkpoint_id) for each in known.retained) or 'none'}")
        for each in known.newest:
            what = each.savepoint or ", ".join(f"{point.uid}:{point.batch}" for point in each.points)
            self.out.append(f"{each.checkpoint_id} {each.status.value} {each.duration_ms} ms {what}{each.failure}")

    # ── looking ──────────────────────────────────────────────────────────────────────────────
    def do_view(self, unsaid: str = "") -> None:
        """`unsaid=1`: as it is shown while its result is not stored."""
        view = self.core.view(may_end=not unsaid)
        summary_line = self.core.summary(may_end=not unsaid)
        assert summary_line == summary_of(view), "a line of an overview says what the view says"
        self.out += summary(view)

    def _execution(self, text: str) -> ExecutionReport:
        name, _, rest = text.partition("@")
        allocation, _, state = rest.partition(":")
        return ExecutionReport(attempt(name), ExecutionState[state or "RUNNING"], AllocationID(allocation))

    def _update(self, text: str) -> TaskStateUpdate:
        name, state, *lost = text.split(":")
        here, made, failure = attempt(name), None, None
        if state == "FINISHED":
            made = self._outcome(here)
        elif state == "DIED":
            failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the JVM was killed", backend=lost[0])
        elif lost:
            failure = FailureInfo(kind=FailureKind.PARTITION, message="a stored result is gone", partitions=tuple(lost))
        elif state == "FAILED":
            failure = FailureInfo(kind=FailureKind.USER, message="the user's code raised")
        elif state == "HOPELESS":
            failure = FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="wrong version")
        elif state == "REFUSED":
            message, kind = "it needs more than a share", FailureKind.NON_RECOVERABLE
            failure = FailureInfo(kind=kind, message=message, needs_all=True)
        elif state == "UNBEGUN":
            failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the disk is full", unbegun=True)
        ended = ExecutionState["FAILED" if state in ("HOPELESS", "REFUSED", "UNBEGUN", "DIED") else state]
        return TaskStateUpdate(attempt=here, state=ended, outcome=made, failure=failure)

    def _outcome(self, here: RegionAttemptID):
        if self.core.job.graph.job_type is JobType.STREAMING:
            return TaskOutcome()
        logical = self.core.topology.logical_of(here.region)
        names = tuple(vertex.id for vertex in logical.vertices)
        return outcome(self.core.job.graph, names, here.region - logical.offset, here.attempt, size_bytes=100)


def _point(text: str) -> QueryPoint:
    uid, _, batches = text.partition(":")
    batch, _, oldest = batches.partition("/")
    return QueryPoint(uid=uid, batch=int(batch), oldest_batch=int(oldest or 0), size_bytes=100)


def _request(text: str) -> SplitRequest:
    name, _, number = text.partition(":")
    return SplitRequest(attempt(name), int(number), "here")


def summary(view: JobView) -> list[str]:
    """A view on a few lines."""
    head = f"{view.status.name}, {view.regions} regions, {view.restarts} restarts{view.reason and ': '}{view.reason}"
    vertices = [
        f"{vertex.name}: {vertex.status.name} {show(vertex.tasks)}, {vertex.attempts} attempts"
        + "".join(f", at {show(item.attempt)}" for item in vertex.progress)
        for vertex in view.vertices
    ]
    return [head, *vertices, *(f"exception {show(entry)}" for entry in view.exceptions)]
