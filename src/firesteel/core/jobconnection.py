"""What a worker has of one job, and what it owes the job's master."""

from dataclasses import dataclass, field

import msgspec

from firesteel.core.execution.tasktable import TaskTable
from firesteel.core.slots.table import TaskSlotTable
from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import DataSetID, JobID, ResourceID
from firesteel.model.messages import TaskStateUpdate
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import ResultPartition, TaskDeployment, results_of


@dataclass(frozen=True, slots=True)
class Submission:
    """What became of a SubmitTasks."""

    started: tuple[TaskDeployment, ...]
    refused: bool
    """Some attempt has no slot here."""
    lacking: bool
    """Some attempt reads a group of results that has not come here: its master has to send it again."""


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
    is_cut: bool = False
    """The connection to the job's master broke, and nothing was heard of it since."""
    told: int = -1
    """Number of the newest AllocatedSlots."""
    discard: tuple[str, ...] = ()
    """What to delete when the job is released."""
    ending: bool = False
    """The job is over: let go of it as soon as no attempt is left."""
    releasing: bool = False

    def submit(self, body: m.SubmitTasks, table: TaskSlotTable) -> Submission:
        """Admit attempts into their slots, each with all that it reads."""
        self.results.update((group.dataset_id, (group.group_id, results_of(group))) for group in body.groups)
        started: list[TaskDeployment] = []
        refused = lacking = False
        for deployment in body.deployments:
            slot = table.find(deployment.allocation_id)
            if any(self._group(dataset)[0] != group_id for dataset, group_id in deployment.groups):
                lacking = True
            elif slot is not None and slot.job_id == deployment.attempt.job_id:
                table.activate(deployment.allocation_id)
                if self.tasks.admit(deployment):
                    started.append(self._with_results(deployment))
            elif not self.tasks.knows(deployment.attempt):
                failure = FailureInfo(
                    kind=FailureKind.ENVIRONMENT, message="the worker does not have the slot any more"
                )
                update = TaskStateUpdate(attempt=deployment.attempt, state=ExecutionState.FAILED, failure=failure)
                self.tasks.refuse(update)
                refused = True
        return Submission(tuple(started), refused, lacking)

    def _group(self, dataset: DataSetID) -> tuple[str, tuple[ResultPartition, ...]]:
        return self.results.get(dataset, ("", ()))

    def _with_results(self, deployment: TaskDeployment) -> TaskDeployment:
        inputs = deployment.inputs
        for dataset, _ in deployment.groups:
            inputs += self._group(dataset)[1]
        return msgspec.structs.replace(deployment, inputs=inputs, groups=())

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
