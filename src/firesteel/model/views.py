"""Frozen views: what clients, REST and tests read. Never the live state."""

import msgspec

from firesteel.model.checkpoints import CheckpointsView
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import DataSetID, JobID, JobVertexID, ResourceID
from firesteel.model.jobgraph import JobType
from firesteel.model.labels import Labels
from firesteel.model.metric import MetricValue
from firesteel.model.resources import UNKNOWN_HARDWARE, HardwareDescription, ResourceProfile
from firesteel.model.secrets import redacted_text, redacted_values
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import Columns, InputPlace, IOMetrics, TaskProgress

EVERY_SUBTASK = range(1 << 62)
"""Indices of all subtasks, however many there are."""


class ExceptionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A root failure in a job's exception history, with those that came while it was handled."""

    timestamp_ms: int
    failure: FailureInfo
    region: int = -1
    """-1 for a failure of the whole job."""
    attempt: int = -1
    task_manager: ResourceID | None = None
    concurrent: tuple["ExceptionEntry", ...] = ()

    def together(self) -> tuple["ExceptionEntry", ...]:
        """The entry itself, and those that came with it."""
        return (self, *self.concurrent)

    def redacted(self) -> "ExceptionEntry":
        """The same, without secrets in the failures."""
        concurrent = tuple(entry.redacted() for entry in self.concurrent)
        return msgspec.structs.replace(self, failure=self.failure.redacted(), concurrent=concurrent)


class SubtaskView(msgspec.Struct, frozen=True, kw_only=True):
    """The current or last attempt of a subtask."""

    subtask: int
    state: ExecutionState
    attempt: int
    task_manager: ResourceID | None = None
    """Worker that it was deployed to last."""
    entered_ms: dict[str, int] = {}
    """Times at which it entered each state that it has been in, by the state's name."""
    followed_ms: int = -1
    """Of a former attempt: when the next one began to wait; -1 when that is not known."""
    io: IOMetrics = IOMetrics()
    earlier: tuple["SubtaskView", ...] = ()
    """Former attempts that were deployed, the oldest first, as far as they are kept."""


class VertexView(msgspec.Struct, frozen=True, kw_only=True):
    """A vertex with its subtasks counted by state."""

    id: JobVertexID
    name: str
    functions: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    """Kind of each of its functions: `source`, `transform`, `sink` ..."""
    parallelism: int
    """Number of subtasks that do its work, as far as that is decided; until then the most there may be."""
    max_parallelism: int = 1
    """The most there may be."""
    status: ExecutionState
    tasks: dict[str, int]
    """Number of subtasks in each state that any is in, by the state's name."""
    attempts: int
    """Attempts used by the subtask that used most."""
    start_time_ms: int = -1
    end_time_ms: int = -1
    progress: tuple[TaskProgress, ...] = ()
    """Latest progress of the running regions that hold this vertex, at most 16."""
    io: IOMetrics = IOMetrics()
    """Figures of the subtasks that have finished, together."""
    io_lacking: tuple[str, ...] = ()
    """Names of those figures of `io` that are not known of every subtask."""
    io_uncounted: tuple[str, ...] = ()
    """Names of those that are not even known of every subtask that has finished."""
    first_region: int = 0
    """The region of its subtask 0; those of the others follow."""
    is_script: bool = False
    """Whether what it prints can be read."""
    labels: Labels = ()
    """What a worker must be called to run it."""
    reads: tuple[InputPlace, ...] = ()
    """What its sources declare to read, or have read by their plans; without secrets."""
    subtasks: tuple[SubtaskView, ...] = ()
    """Subtasks; of a job that has ended, the first thousand of all its vertices together."""


class EdgeView(msgspec.Struct, frozen=True, kw_only=True):
    source: JobVertexID
    target: JobVertexID
    dataset: DataSetID
    exchange: str
    partitioner: str


class QueuePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Place of a job in the line for slots."""

    place: int
    """1 is served next."""
    queue: str
    priority: int
    slots_missing: int
    reason: str
    """Why it has not got them."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job at one moment. `version` grows with every change."""

    job_id: JobID
    name: str
    status: JobStatus
    version: int = 0
    timestamps_ms: dict[str, int] = {}
    """Times at which each status was entered last, by its name; milliseconds since the epoch."""
    status_history: tuple[tuple[str, int], ...] = ()
    """The statuses that it has come to, each with the time; the newest of them, the oldest first."""
    start_time_ms: int = -1
    end_time_ms: int = -1
    reason: str = ""
    """Why it waits, when it waits; why it was cancelled, when nobody asked for that."""
    queue: QueuePlace | None = None
    """Place in the line for slots, when it lacks any."""
    regions: int = 0
    restarts: int = 0
    vertices: tuple[VertexView, ...] = ()
    edges: tuple[EdgeView, ...] = ()
    exceptions: tuple[ExceptionEntry, ...] = ()
    """Newest first."""
    job_type: JobType = JobType.BATCH
    owner: str = ""
    """User who submitted it; empty where nobody has to say who he is."""
    parameters: dict[str, str | int | float | bool] = {}
    configuration: dict[str, str] = {}
    """The job's own options."""
    client_heartbeat_timeout_ms: int = 0
    """Timeout as in its graph: whoever follows a job that ends with its client shows that he is there."""
    checkpoints: CheckpointsView | None = None
    """Of a stream."""
    directory: str = ""
    """Directory in which relative paths of the pipeline start; empty where nobody has said so."""
    branch_of: JobID = JobID("")
    """The job that it is a branch of; empty for what is none, or has been promoted."""

    @property
    def is_script(self) -> bool:
        return any(vertex.is_script for vertex in self.vertices)

    def subtasks_of(self, vertex_id: JobVertexID, chosen: range) -> tuple[SubtaskView, ...]:
        """Those of a vertex that the view itself has, of these indices."""
        kept = next((vertex.subtasks for vertex in self.vertices if vertex.id == vertex_id), ())
        return kept[chosen.start : chosen.stop]

    def redacted(self) -> "JobView":
        """The same without secrets, wherever a view may have any: what is shown to others and what is archived."""
        return msgspec.structs.replace(
            self,
            reason=redacted_text(self.reason),
            exceptions=tuple(entry.redacted() for entry in self.exceptions),
            parameters=redacted_values(self.parameters),
            configuration=redacted_values(self.configuration),
            checkpoints=self.checkpoints.redacted() if self.checkpoints is not None else None,
        )


class JobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A line of an overview. Costs the same for every job, however large."""

    job_id: JobID
    name: str
    status: JobStatus
    version: int = 0
    job_type: JobType = JobType.BATCH
    owner: str = ""
    start_time_ms: int = -1
    end_time_ms: int = -1
    modified_ms: int = -1
    """Time at which its status changed last."""
    reason: str = ""
    tasks: dict[str, int] = {}
    """Number of subtasks, of all vertices together, in each state that any is in."""
    cluster: str = ""
    """Where it ran, in a history of several clusters; empty in a master's own list."""
    branch_of: JobID = JobID("")
    """The job that it is a branch of; empty for what is none, or has been promoted."""


def summary_of(view: JobView) -> JobSummary:
    """The line of a job whose view is at hand."""
    tasks: dict[str, int] = {}
    for vertex in view.vertices:
        for state, count in vertex.tasks.items():
            tasks[state] = tasks.get(state, 0) + count
    return JobSummary(
        job_id=view.job_id,
        name=view.name,
        status=view.status,
        version=view.version,
        job_type=view.job_type,
        owner=view.owner,
        start_time_ms=view.start_time_ms,
        end_time_ms=view.end_time_ms,
        modified_ms=max(view.timestamps_ms.values(), default=view.start_time_ms),
        reason=view.reason,
        tasks=tasks,
        branch_of=view.branch_of,
    )


class CommittedSink(msgspec.Struct, frozen=True, kw_only=True):
    """A sink's output that readers can see."""

    function: str
    target: str
    mode: str
    files: int
    rows: int = -1
    size_bytes: int = -1
    note: str = msgspec.field(default="", name="told")
    """Message for its owner, like of another job that wrote there at the same time."""
    columns: Columns = ()


class ReturnedRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that a job returns to its caller, kept as long as its result."""

    function: str
    sha256: str
    """SHA-256 of the blob that holds them, as an Arrow stream."""
    rows: int
    size_bytes: int


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job."""

    job_id: JobID
    name: str
    status: JobStatus
    start_time_ms: int
    end_time_ms: int
    failure: FailureInfo | None = None
    """What it failed from, or was failing from when it was cancelled; why it was cancelled when nobody asked for that."""
    sinks: tuple[CommittedSink, ...] = ()
    restarts: int = 0
    returned: tuple[ReturnedRows, ...] = ()
    owner: str = ""
    """User who submitted it; empty where nobody has to say who he is."""
    retained: str = ""
    """Where its last checkpoint stays; empty where none does."""
    tasks: dict[str, int] = {}
    """Number of subtasks, of all vertices together, in each state that any was in at the end."""
    reads: tuple[str, ...] = ()
    """URIs, paths and tables that its sources have declared or read, without secrets."""
    read_columns: dict[str, Columns] = {}
    """Columns of those of these places of which they are known."""

    @property
    def duration_ms(self) -> int:
        return self.end_time_ms - self.start_time_ms

    def redacted(self) -> "JobResult":
        """The same, without secrets in the failure."""
        return msgspec.structs.replace(self, failure=self.failure.redacted() if self.failure is not None else None)


class TaskManagerView(msgspec.Struct, frozen=True, kw_only=True):
    resource_id: ResourceID
    address: str
    slots: int
    free_slots: int
    profile: ResourceProfile
    since_ms: int
    last_heartbeat_ms: int
    hardware: HardwareDescription = UNKNOWN_HARDWARE
    allocations: tuple[tuple[JobID, ResourceProfile], ...] = ()
    """The job and the size of each slot that is taken."""
    metrics: tuple[MetricValue, ...] = ()
    """Figures that it has told of itself last."""


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment: its workers, jobs and line for slots."""

    task_managers: tuple[TaskManagerView, ...]
    task_managers_lost: int
    """Workers that have gone without a goodbye since this ResourceManager leads."""
    jobs: tuple[JobSummary, ...]
    """Those that have not ended, newest first."""
    ended: dict[str, int]
    """Number of the others by status name."""
    queue: dict[JobID, QueuePlace]
    """Jobs that wait for slots, in the order in which they are served."""


class ClusterOverview(msgspec.Struct, frozen=True, kw_only=True):
    task_managers: int
    slots_total: int
    slots_free: int
    jobs: dict[str, int]
    """Number of jobs by status name."""
