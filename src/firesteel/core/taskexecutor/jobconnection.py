"""What a worker has of one job, and what it owes the job's master."""

from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from firesteel.core.slots.table import TaskSlotTable
from firesteel.core.taskexecutor.tasktable import TaskTable
from firesteel.core.taskexecutor.workeffects import (
    CheckpointDone,
    CommitSink,
    SavepointDone,
    SinkCommitDone,
    StopTask,
    TakeCheckpoint,
    TakeSavepoint,
)
from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import AllocationID, DataSetID, JobID, ResourceID
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import ResultPartition, TaskDeployment, results_of

SILENT_BEATS = 2
"""Heartbeat intervals without a word of a job's master after which something is wrong."""


@dataclass(slots=True)
class Submission:
    """What became of a SubmitTasks."""

    started: list[TaskDeployment] = field(default_factory=list)
    must_report: bool = False
    """Some attempt was not started: it has no slot here, another one sits in its slot, or it reads a group of results
    that has not come here. The job's master decides anew when it has been told what is here."""


@dataclass(slots=True)
class JobConnection:
    """What this worker has of one job."""

    leader: m.Leader
    heard_ms: int
    """When the job's master was heard of last."""
    tasks: TaskTable = field(default_factory=TaskTable)
    results: dict[DataSetID, tuple[str, tuple[ResultPartition, ...]]] = field(default_factory=dict)
    """The newest group of each data set: its id, and what is in it."""
    committing: dict[str, None] = field(default_factory=dict)
    saving: dict[str, None] = field(default_factory=dict)
    """Savepoints that are being written."""
    looking: dict[int, None] = field(default_factory=dict)
    """Checkpoints that points are being looked up for."""
    is_cut: bool = False
    """The connection to the job's master broke, and nothing was heard of it since."""
    heard: int = -1
    """Number of the newest AllocatedSlots."""
    discard: tuple[str, ...] = ()
    """What to delete when the job is released."""
    retained: str | None = ""
    """Where its last checkpoint is to stay then; None: nobody knows."""
    is_given_up: bool = False
    ending: bool = False
    """The job is over: let go of it as soon as no attempt is left."""
    releasing: bool = False
    wanted_slots: dict[AllocationID, None] = field(default_factory=dict)
    """Slots in which one attempt sits, and into which another one was sent."""

    def submit(self, body: m.SubmitTasks, table: TaskSlotTable) -> Submission:
        """Admit attempts into their slots, one into each and each with all that it reads."""
        self.results.update((group.dataset_id, (group.group_id, results_of(group))) for group in body.groups)
        taken = self.tasks.seats()
        made = Submission()
        for deployment in body.deployments:
            slot, is_known = table.find(deployment.allocation_id), self.tasks.knows(deployment.attempt)
            if any(self._group(dataset)[0] != group_id for dataset, group_id in deployment.groups):
                made.must_report = True
            elif slot is None or slot.job_id != deployment.attempt.job_id:
                if not is_known:
                    self._refuse(deployment)
                    made.must_report = True
            else:
                table.activate(deployment.allocation_id)
                if not is_known and deployment.allocation_id in taken:
                    made.must_report |= self._want(deployment.allocation_id)
                elif self.tasks.admit(deployment):
                    taken[deployment.allocation_id] = None
                    made.started.append(self._with_results(deployment))
        return made

    def _refuse(self, deployment: TaskDeployment) -> None:
        failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the worker does not have the slot any more")
        self.tasks.refuse(TaskStateUpdate(attempt=deployment.attempt, state=ExecutionState.FAILED, failure=failure))

    def _want(self, allocation_id: AllocationID) -> bool:
        """Note that an attempt was sent into a slot where another one sits; whether that is news."""
        is_news = allocation_id not in self.wanted_slots
        self.wanted_slots[allocation_id] = None
        return is_news

    def vacated(self) -> bool:
        """Whether a slot that a later attempt was sent into has become free since it was asked last."""
        free = [allocation_id for allocation_id in self.wanted_slots if not self.tasks.sits_in(allocation_id)]
        for allocation_id in free:
            del self.wanted_slots[allocation_id]
        return bool(free)

    def _group(self, dataset: DataSetID) -> tuple[str, tuple[ResultPartition, ...]]:
        return self.results.get(dataset, ("", ()))

    def _with_results(self, deployment: TaskDeployment) -> TaskDeployment:
        inputs = deployment.inputs
        for dataset, _ in deployment.groups:
            inputs += self._group(dataset)[1]
        return msgspec.structs.replace(deployment, inputs=inputs, groups=())

    def commit(self, body: m.CommitSinks) -> list[CommitSink]:
        """Outputs to make visible, but for those that are being so."""
        fresh = [commit for commit in body.commits if commit.commit_id not in self.committing]
        self.committing.update(dict.fromkeys(commit.commit_id for commit in fresh))
        return [CommitSink(body.job_id, commit) for commit in fresh]

    def stop(self, body: m.StopTasks) -> list[StopTask]:
        """Streaming attempts that are to finish, as far as they run."""
        return [StopTask(attempt, body.drain) for attempt in body.attempts if attempt in self.tasks.running]

    def save(self, body: m.TakeSavepoint) -> list[TakeSavepoint]:
        """A savepoint to write, unless that is being done."""
        is_news = body.order.savepoint_id not in self.saving
        self.saving[body.order.savepoint_id] = None
        return [TakeSavepoint(body.job_id, body.order)] if is_news else []

    def look(self, body: m.TriggerCheckpoint) -> list[TakeCheckpoint]:
        """Points to look up for a checkpoint, unless that is being done."""
        is_news = body.order.checkpoint_id not in self.looking
        self.looking[body.order.checkpoint_id] = None
        return [TakeCheckpoint(body.job_id, body.order)] if is_news else []

    def end(self, order: m.ReleaseJobResources | None) -> None:
        """The job is over, or given up where nobody has ordered that."""
        self.ending, self.is_given_up = True, order is None
        if order is not None:
            self.discard, self.retained = order.locations or self.discard, order.retained

    def done(
        self, resource_id: ResourceID, event: SinkCommitDone | SavepointDone | CheckpointDone
    ) -> m.SinkCommitAnswer | m.SavepointAnswer | m.AcknowledgeCheckpoint:
        """A commit, a savepoint or a look for a checkpoint is over; what the job's master is told."""
        if isinstance(event, CheckpointDone):
            self.looking.pop(event.checkpoint_id, None)
            return checkpoint_answer(resource_id, event)
        if isinstance(event, SavepointDone):
            self.saving.pop(event.savepoint_id, None)
            return savepoint_answer(resource_id, event)
        self.committing.pop(event.commit_id, None)
        return commit_answer(resource_id, event)

    def is_silent(self, now_ms: int, heartbeat_interval_ms: int) -> bool:
        """Whether the job's master was not heard of where it should have been."""
        return now_ms - self.heard_ms >= SILENT_BEATS * heartbeat_interval_ms

    def may_be_over(self, now_ms: int, heartbeat_interval_ms: int) -> bool:
        """Whether it may have ended without a word to this worker."""
        return not self.ending and (self.is_cut or self.is_silent(now_ms, heartbeat_interval_ms))

    @property
    def is_owed(self) -> bool:
        """Whether the job's master has not acknowledged an end, not answered a request for input splits, or may have lost this worker."""
        return self.is_cut or bool(self.tasks.unacknowledged or self.tasks.wants)

    def report(
        self, resource_id: ResourceID, job_id: JobID, sequence: int, table: TaskSlotTable
    ) -> m.TaskManagerReport:
        """All that is here of the job, as report number `sequence`."""
        return m.TaskManagerReport(
            resource_id=resource_id,
            job_id=job_id,
            sequence=sequence,
            slots=table.offers(job_id, sequence),
            executions=self.tasks.executions(),
            updates=tuple(self.tasks.unacknowledged.values()),
            progress=tuple(self.tasks.progress.values()),
            wants=tuple(self.tasks.wants.values()),
        )


def answers_without_job(
    resource_id: ResourceID, job_id: JobID, sequence: int, body: m.FromJobMaster
) -> tuple[m.AnyMessage, ...]:
    """What a worker that has nothing of a job says to its master; `sequence` is the number of a report, if it is one."""
    match body:
        case m.ReleaseJobResources():
            return (m.JobReleased(resource_id=resource_id, job_id=job_id),)
        case m.CommitSinks():
            text = f"worker {resource_id} does not know the job any more"
            failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=text)
            return tuple(
                m.SinkCommitAnswer(resource_id=resource_id, job_id=job_id, commit_id=commit.commit_id, failure=failure)
                for commit in body.commits
            )
        case m.TakeSavepoint():
            text = f"worker {resource_id} has nothing of the job: its checkpoints are elsewhere"
            failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=text)
            return (savepoint_answer(resource_id, SavepointDone(job_id, body.order.savepoint_id, failure)),)
        case m.TriggerCheckpoint():
            text = f"worker {resource_id} has nothing of the job: its checkpoints are elsewhere"
            failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=text)
            looked = CheckpointDone(job_id, body.order.checkpoint_id, failure=failure)
            return (checkpoint_answer(resource_id, looked),)
        case m.SubmitTasks() | m.CancelTasks() | m.AllocatedSlots():
            if isinstance(body, m.AllocatedSlots) and not (body.held or body.wants_report):
                return ()
            attempts = body.attempts if isinstance(body, m.CancelTasks) else ()
            nothing = m.TaskManagerReport(
                resource_id=resource_id,
                job_id=job_id,
                sequence=sequence,
                slots=(),
                executions=(),
                updates=tuple(TaskStateUpdate(attempt=each, state=ExecutionState.CANCELED) for each in attempts),
            )
            return (nothing,)
        case m.AcknowledgeTaskStates() | m.NextInputSplits() | m.DiscardResults() | m.StopTasks():
            return ()  # They ask for nothing.
        case _:
            assert_never(body)


def commit_answer(resource_id: ResourceID, event: SinkCommitDone) -> m.SinkCommitAnswer:
    """What the job's master is told of a commit that was done, or could not be."""
    return m.SinkCommitAnswer(
        resource_id=resource_id,
        job_id=event.job_id,
        commit_id=event.commit_id,
        failure=event.failure,
        note=event.done.note,
        ignored=event.done.ignored,
    )


def savepoint_answer(resource_id: ResourceID, event: SavepointDone) -> m.SavepointAnswer:
    """What the job's master is told of a savepoint that was written, or could not be."""
    return m.SavepointAnswer(
        resource_id=resource_id, job_id=event.job_id, savepoint_id=event.savepoint_id, failure=event.failure
    )


def checkpoint_answer(resource_id: ResourceID, event: CheckpointDone) -> m.AcknowledgeCheckpoint:
    """What the job's master is told of points that were looked up, or could not be."""
    return m.AcknowledgeCheckpoint(
        resource_id=resource_id,
        job_id=event.job_id,
        checkpoint_id=event.checkpoint_id,
        points=event.points,
        failure=event.failure,
    )
