"""What a worker has of one job, and what it owes the job's master."""

from dataclasses import dataclass, field

from firesteel.core.execution.tasktable import TaskTable
from firesteel.core.slots.table import TaskSlotTable
from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.messages import TaskStateUpdate
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskDeployment


@dataclass(slots=True)
class JobConnection:
    """What this worker has of one job."""

    leader: m.Leader
    heard_ms: int
    """When the job's master was heard of last."""
    tasks: TaskTable = field(default_factory=TaskTable)
    committing: dict[str, None] = field(default_factory=dict)
    is_cut: bool = False
    """The connection to the job's master broke, and nothing was heard of it since."""
    told: int = -1
    """Number of the newest AllocatedSlots."""
    discard: tuple[str, ...] = ()
    """What to delete when the job is released."""
    ending: bool = False
    """The job is over: let go of it as soon as no attempt is left."""
    releasing: bool = False

    def submit(
        self, deployments: tuple[TaskDeployment, ...], table: TaskSlotTable, job_id: JobID
    ) -> tuple[tuple[TaskDeployment, ...], bool]:
        """Admit attempts into their slots: those to start, and whether any was refused for want of its slot."""
        started: list[TaskDeployment] = []
        refused = False
        for deployment in deployments:
            slot = table.find(deployment.allocation_id)
            if slot is not None and slot.job_id == job_id:
                table.activate(deployment.allocation_id)
                if self.tasks.admit(deployment):
                    started.append(deployment)
            elif not self.tasks.knows(deployment.attempt):
                failure = FailureInfo(
                    kind=FailureKind.ENVIRONMENT, message="the worker does not have the slot any more"
                )
                update = TaskStateUpdate(attempt=deployment.attempt, state=ExecutionState.FAILED, failure=failure)
                self.tasks.refuse(update)
                refused = True
        return tuple(started), refused

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
    resource_id: ResourceID, job_id: JobID, sequence: int, body: m.AnyMessage
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
        case m.AllocatedSlots() if not (body.held or body.wants_report):
            return ()
        case m.SubmitTasks() | m.CancelTasks() | m.AllocatedSlots():
            nothing = m.TaskManagerReport(
                resource_id=resource_id, job_id=job_id, sequence=sequence, slots=(), executions=()
            )
            return (nothing,)
        case _:
            return ()  # it asks for nothing
