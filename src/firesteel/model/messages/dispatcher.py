"""To the Dispatcher: of its JobMasters, and of the ResourceManager."""

from firesteel.model.ids import JobID
from firesteel.model.message import Message
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult, JobView


class JobStatusChanged(Message, frozen=True):
    job_id: JobID
    status: JobStatus


class CancelTooLate(Message, frozen=True):
    """Answers CancelJob: the job's outputs are being made visible, and it is rolled forward."""

    job_id: JobID


class JobTerminated(Message, frozen=True):
    """The job has ended for good and that is durable; cleaning up goes on."""

    result: JobResult
    view: JobView


class JobsUnheard(Message, frozen=True):
    """ResourceManager → Dispatcher: a worker has something of these jobs, and no JobMaster of theirs is registered."""

    job_ids: tuple[JobID, ...]


class JobClosed(Message, frozen=True):
    """Workers hold nothing of the job any more: its JobMaster can go."""

    job_id: JobID


ToDispatcher = JobStatusChanged | CancelTooLate | JobTerminated | JobClosed | JobsUnheard
