"""Verbs of stories about what has workers let go of a job."""

from firesteel.core.jobmaster.jobrelease import JobReleaseCore
from firesteel.core.settings import JobReleaseSettings
from firesteel.model import messages as m
from firesteel.model.ids import Address, FencingToken, ResourceID
from firesteel.model.messages import Leader
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskOutcome
from tests.core.graphs import JOB, commit_of
from tests.core.stories.player import Player, attempt

SETTINGS = JobReleaseSettings(10_000, 50_000, 10_000)
"""Heartbeats come every 10 s; after 50 s of silence a worker is lost."""


class JobReleasePlayer(Player):
    """Workers have 10 s to report. The journal knows of `stored/a`, which the job has left."""

    core: JobReleaseCore

    def make_core(self) -> JobReleaseCore:
        me = Leader(Address("jm"), FencingToken(4, "jm"))
        dispatcher = Leader(Address("dispatcher"), FencingToken(1, "dispatcher"))
        return JobReleaseCore(JOB, SETTINGS, me, dispatcher, undeleted=("stored/a",), retained="")

    def do_no_journal(self) -> None:
        """The job is long over, and its journal gone."""
        me, dispatcher = Leader(Address("jm"), FencingToken(4, "jm")), self.core.dispatcher
        self.core = JobReleaseCore(JOB, SETTINGS, me, dispatcher, undeleted=None, retained=None)

    def do_report(self, worker: str, ended: str = "") -> None:
        """`report w1 ended=0#0`: it also tells that this attempt has ended, and left a sink's output."""
        body = m.TaskManagerReport(
            resource_id=ResourceID(worker), job_id=JOB, sequence=1, slots=(), executions=(), updates=_ended(ended)
        )
        self.deliver(worker, body)

    def do_ended(self, worker: str, name: str) -> None:
        body = m.UpdateTaskExecutionStates(resource_id=ResourceID(worker), job_id=JOB, sequence=2, updates=_ended(name))
        self.deliver(worker, body)

    def do_released(self, worker: str) -> None:
        self.deliver(worker, m.JobReleased(resource_id=ResourceID(worker), job_id=JOB))

    def do_goodbye(self, worker: str) -> None:
        self.deliver(worker, m.DisconnectTaskExecutor(resource_id=ResourceID(worker), reason="it is shut down"))

    def do_wrong(self) -> None:
        for body in (m.JobMasterRegistered(job_id=JOB), m.JobClosed(job_id=JOB)):
            self.deliver("rm", body, 1)


def _ended(name: str) -> tuple[TaskStateUpdate, ...]:
    if not name:
        return ()
    outcome = TaskOutcome(sinks=(commit_of(name),))
    canceled = TaskStateUpdate(attempt=attempt(name), state=ExecutionState.CANCELED)
    return (canceled, TaskStateUpdate(attempt=attempt(name), state=ExecutionState.FINISHED, outcome=outcome))
