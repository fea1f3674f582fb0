"""Bodies about jobs."""

import msgspec

from firesteel.model.views import JobResult
from firesteel.rest.schema.cluster import SparkApplicationInfo


class JobDetails(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A line of /jobs/overview. `tasks` has lower-case states and a `total`. The last four fields are ours."""

    jid: str
    name: str
    job_type: str = msgspec.field(name="jobType")
    scheduler_type: str = msgspec.field(default="Default", name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    state: str
    last_modification: int
    tasks: dict[str, int]
    pending_operators: int = 0
    owner: str
    reason: str
    """Why it waits, when it waits."""
    cluster: str = ""
    """Where it ran, as a history server knows it."""
    branch_of: str = ""
    """The job that it is a branch of; empty for what is none, or has been promoted."""


class MultipleJobsDetails(msgspec.Struct, frozen=True):
    jobs: list[JobDetails]


class JobIdWithStatus(msgspec.Struct, frozen=True):
    id: str
    status: str


class JobIdsWithStatusOverview(msgspec.Struct, frozen=True):
    jobs: list[JobIdWithStatus]


class JobStatusInfo(msgspec.Struct, frozen=True):
    status: str


class IOMetricsInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    read_bytes: int = 0
    read_bytes_complete: bool = True
    write_bytes: int = 0
    write_bytes_complete: bool = True
    read_records: int = 0
    read_records_complete: bool = True
    write_records: int = 0
    write_records_complete: bool = True
    accumulated_backpressured_time: int = 0
    accumulated_idle_time: int = 0
    accumulated_busy_time: float = 0.0
    spark_time: int = -1
    """Ours: milliseconds in which Spark had queries of it to run, of its whole region; -1: not known."""
    memory_peak: int = -1
    """Ours: bytes that the processes of an attempt have held at the most; of several that of the largest."""


class JobVertexDetails(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A vertex inside /jobs/:jobid."""

    id: str
    slot_sharing_group_id: str = msgspec.field(name="slotSharingGroupId")
    name: str
    max_parallelism: int = msgspec.field(name="maxParallelism")
    parallelism: int
    status: str
    start_time: int
    end_time: int
    duration: int
    tasks: dict[str, int]
    metrics: IOMetricsInfo
    labels: list[str] = []
    """Ours: what a worker must be called to run it."""


class PlanInput(msgspec.Struct, frozen=True):
    num: int
    id: str
    ship_strategy: str
    exchange: str


class PlanNode(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    parallelism: int
    operator: str
    """Headline of the node in the dashboard: what it does. HTML, as `description` is: both are shown as they are."""
    operator_strategy: str = ""
    description: str
    """The names of its functions."""
    optimizer_properties: dict[str, str] = {}
    inputs: list[PlanInput] = []


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobPlanInfo(msgspec.Struct, frozen=True):
    plan: Plan


class JobDetailsInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """/jobs/:jobid. The last four fields are ours."""

    jid: str
    name: str
    is_stoppable: bool = msgspec.field(default=False, name="isStoppable")
    state: str
    job_type: str
    scheduler_type: str = msgspec.field(default="Default", name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int = msgspec.field(default=-1, name="maxParallelism")
    application_id: str
    now: int
    timestamps: dict[str, int]
    vertices: list[JobVertexDetails]
    status_counts: dict[str, int]
    plan: Plan
    pending_operators: int = 0
    owner: str
    reason: str
    restarts: int
    spark_applications: list[SparkApplicationInfo]
    """Those that do work of it now, where executors are on a cluster."""


class ExecutionConfigInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool = False
    user_config: dict[str, str]
    """The job's own options and parameters; secrets are hidden."""


class JobConfigInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    jid: str
    name: str
    execution_config: ExecutionConfigInfo


class ExceptionInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    exception_name: str
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str] = {}
    task_name: str | None = None
    endpoint: str | None = None
    task_manager_id: str | None = None


class RootExceptionInfo(ExceptionInfo, frozen=True, kw_only=True, rename="camel"):
    concurrent_exceptions: list[ExceptionInfo] = []


class ExceptionHistory(msgspec.Struct, frozen=True):
    entries: list[RootExceptionInfo]
    truncated: bool


class JobExceptionsInfoWithHistory(msgspec.Struct, frozen=True, rename="camel"):
    exception_history: ExceptionHistory


# ── results ──────────────────────────────────────────────────────────────────────────────────
class SerializedThrowable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A cause that Flink's Java clients read back as an exception."""

    class_name: str = msgspec.field(name="class")
    stack_trace: str
    serialized_throwable: str


class QueueStatus(msgspec.Struct, frozen=True):
    """`IN_PROGRESS` or `COMPLETED`."""

    id: str


class FlinkJobResult(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    id: str
    name: str
    application_status: str
    accumulator_results: dict[str, str] = {}
    net_runtime: int
    application_id: str
    start_time: int
    end_time: int
    failure_cause: SerializedThrowable | msgspec.UnsetType = msgspec.UNSET


class JobExecutionResultResponseBody(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """`result` is ours: what the job left behind, sink by sink."""

    status: QueueStatus
    job_execution_result: FlinkJobResult | None = None
    result: JobResult | None = None


class ReturnedRowsBody(msgspec.Struct, frozen=True, kw_only=True):
    """Ours. `arrow` is an Arrow stream in base64."""

    arrow: bytes


class JobAccumulatorsInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    job_accumulators: list[str] = []
    user_task_accumulators: list[str] = []
    serialized_user_task_accumulators: dict[str, str] = {}


class JobSubmitRequestBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The part `request` of a submission: which of the uploaded files is what, by file name."""

    job_graph_file_name: str
    job_artifact_file_names: list[str] = []
    job_jar_file_names: list[str] = []
    """Files of Flink's own jobs, which are not for us."""


class JobSubmitResponseBody(msgspec.Struct, frozen=True, rename="camel"):
    job_url: str


class JobResourceBounds(msgspec.Struct, frozen=True, rename="camel"):
    lower_bound: int
    upper_bound: int


class JobVertexResourceRequirements(msgspec.Struct, frozen=True):
    parallelism: JobResourceBounds


class JobClientHeartbeatRequestBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    expired_timestamp: int = 0
