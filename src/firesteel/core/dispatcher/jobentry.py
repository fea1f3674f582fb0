"""A job as the Dispatcher knows it, and the stages that it goes through."""

from dataclasses import dataclass, field
from enum import Enum

from firesteel.core.dispatcher.admission import without_labels
from firesteel.core.machine import TransitionTable
from firesteel.model import messages as m
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult, JobSummary, JobView


class JobStage(Enum):
    """Where the Dispatcher stands with a job; its JobStatus is the JobMaster's affair."""

    STORING = "STORING"
    RUNNING = "RUNNING"
    STORING_RESULT = "STORING_RESULT"
    RELEASING = "RELEASING"
    CLEANING = "CLEANING"
    DONE = "DONE"


JOB_STAGE_TRANSITIONS = TransitionTable[JobStage](
    {
        (JobStage.STORING, JobStage.RUNNING): "the job graph is durable: the client is answered, the JobMaster starts",
        (JobStage.RUNNING, JobStage.STORING_RESULT): "the JobMaster says how the job ended, or broke for good",
        (JobStage.STORING_RESULT, JobStage.RELEASING): "the result is durable: waiting clients are answered",
        (JobStage.RELEASING, JobStage.CLEANING): "workers hold nothing of the job any more",
        (JobStage.CLEANING, JobStage.DONE): "nothing is left but the result",
    }
)


ENDED = (JobStage.RELEASING, JobStage.CLEANING, JobStage.DONE)
"""The job's result is stored: from here on it is shown as ended, and no successor goes back behind it."""


@dataclass(slots=True)
class JobEntry:
    """A job the Dispatcher knows."""

    job_id: JobID
    name: str
    graph: JobGraph | None
    stage: JobStage
    status: JobStatus = JobStatus.INITIALIZING
    since_ms: int = 0
    result: JobResult | None = None
    keeps_graph: bool = False
    """Whether the graph and its artifacts stay when it is cleaned up, so that it can be submitted once more."""
    view: JobView | None = None
    """The archived view, once it has ended."""
    master: m.Leader | None = None
    """Its JobMaster, as far as that has spoken."""
    cancel: bool = False
    """A client has asked for its end, or is gone."""
    cancel_reason: str = ""
    """Why, when nobody has asked for it."""
    cancelling: list[int] = field(default_factory=list)
    """Requests to cancel it that no JobMaster has safe yet."""
    closed: bool = False
    breaks: int = 0
    submitting: list[int] = field(default_factory=list)
    """Submissions of it that are not answered yet."""
    waiting: list[int] = field(default_factory=list)
    """Requests for the result."""
    summary: JobSummary | None = None
    """Its line in an overview, once it has ended."""

    @property
    def has_ended(self) -> bool:
        """For whoever asks or looks."""
        return self.stage in ENDED

    def is_of(self, graph: JobGraph) -> bool:
        """Whether it was submitted with this graph, as far as it is known; labels were settled when it was stored."""
        return self.graph is not None and without_labels(self.graph) == without_labels(graph)

    @property
    def artifacts(self) -> tuple[str, ...]:
        """SHA-256 of what its graph names."""
        return tuple(artifact.sha256 for artifact in self.graph.artifacts) if self.graph is not None else ()
