"""Bodies about the cluster and its workers."""

import msgspec


class Empty(msgspec.Struct, frozen=True):
    """Success with nothing to say: `{}`, since clients refuse an empty body."""


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Any 4xx and 5xx. Flink's client takes it for an error only when `errors` is the sole key."""

    errors: list[str]


class Features(msgspec.Struct, frozen=True, rename="kebab"):
    web_submit: bool
    web_cancel: bool
    web_rescale: bool
    web_history: bool


class DashboardConfiguration(msgspec.Struct, frozen=True, rename="kebab"):
    refresh_interval: int
    """Milliseconds."""
    timezone_name: str
    timezone_offset: int
    """Milliseconds east of UTC."""
    flink_version: str
    """Version of the API that is served."""
    flink_revision: str
    features: Features


class ClusterOverviewWithVersion(msgspec.Struct, frozen=True, rename="kebab"):
    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str


class ConfigurationInfoEntry(msgspec.Struct, frozen=True):
    key: str
    value: str


class JvmInfo(msgspec.Struct, frozen=True):
    version: str
    arch: str
    options: list[str]


class EnvironmentInfo(msgspec.Struct, frozen=True):
    jvm: JvmInfo
    classpath: list[str]


class ClusterLeader(msgspec.Struct, frozen=True, rename="kebab"):
    """Empty texts and epoch 0 while it is not known who leads, or where this is the only master."""

    leads: bool
    """Whether it is the master that was asked."""
    name: str = ""
    node: str = ""
    address: str = ""
    """Address at which workers reach it."""
    rest_address: str = ""
    epoch: int = 0


class StandbyInfo(msgspec.Struct, frozen=True):
    name: str
    """The process, for people."""


class MastersInfo(msgspec.Struct, frozen=True):
    """Who leads, and those that would take over, as the leader sees them by their connections."""

    leader: ClusterLeader
    standbys: list[StandbyInfo] = []


class LogInfo(msgspec.Struct, frozen=True):
    name: str
    size: int
    mtime: int


class LogListInfo(msgspec.Struct, frozen=True):
    logs: list[LogInfo]


class ThreadInfo(msgspec.Struct, frozen=True, rename="camel"):
    thread_name: str
    stringified_thread_info: str


class ThreadDumpInfo(msgspec.Struct, frozen=True, rename="camel"):
    thread_infos: list[ThreadInfo]


class ProfilingInfoList(msgspec.Struct, frozen=True, rename="camel"):
    profiling_list: list[str] = []


class SparkApplicationInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a worker's Spark is on a cluster, or on a Connect server of others."""

    master: str
    application_id: str
    """Empty where nobody tells."""
    tracking_url: str
    """Spark's own pages of it, while it runs."""
    executors: int
    """-1: nobody has counted them."""


class TaskManagerSparkInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """/taskmanagers/:taskmanagerid/spark: ours."""

    applications: list[SparkApplicationInfo]
    slot: str
    """What a slot of the worker is, in words."""


class Metric(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    value: str | None = None
    """Absent in a list of names."""


class AggregatedMetric(msgspec.Struct, frozen=True, omit_defaults=True):
    """In a list of names there is nothing but names; else there is what was asked for."""

    id: str
    min: float | None = None
    max: float | None = None
    avg: float | None = None
    sum: float | None = None
    skew: float | None = None
    """Percent."""


class ClusterDataSetListResponseBody(msgspec.Struct, frozen=True, rename="camel"):
    data_sets: list[dict[str, str]]


# ── workers ──────────────────────────────────────────────────────────────────────────────────
class ResourceProfileInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Memory in MiB, as Flink has it; what a Spark worker does not divide is all called heap."""

    cpu_cores: float
    task_heap_memory: int
    task_off_heap_memory: int = 0
    managed_memory: int = 0
    network_memory: int = 0
    extended_resources: dict[str, float] = {}


class HardwareDescription(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The worker's machine; bytes, -1 where it has not said."""

    cpu_cores: int
    physical_memory: int
    free_memory: int
    """Largest heap, as Flink's workers say it; here of the worker's Spark backends together."""
    managed_memory: int = 0


class TaskExecutorMemoryConfiguration(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Bytes; null is what a worker does not divide."""

    framework_heap: int | None = None
    task_heap: int | None = None
    framework_off_heap: int | None = None
    task_off_heap: int | None = None
    network_memory: int | None = None
    managed_memory: int | None = None
    jvm_metaspace: int | None = None
    jvm_overhead: int | None = None
    total_flink_memory: int | None = None
    total_process_memory: int | None = None


class SlotInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    job_id: str
    resource: ResourceProfileInfo
    assigned_tasks: int = 1


class TaskManagerInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    id: str
    path: str
    data_port: int = -1
    jmx_port: int = -1
    time_since_last_heartbeat: int
    """Milliseconds since the epoch, whatever its name says."""
    slots_number: int
    free_slots: int
    assigned_tasks: int
    total_resource: ResourceProfileInfo
    free_resource: ResourceProfileInfo
    hardware: HardwareDescription
    memory_configuration: TaskExecutorMemoryConfiguration
    blocked: bool = False
    labels: list[str] = []
    """Ours: what the worker is called by those who want it."""


class GarbageCollectorInfo(msgspec.Struct, frozen=True):
    name: str
    count: int
    time: int


class TaskManagerMetricsInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Null is what nobody has measured."""

    heap_used: int | None = None
    heap_committed: int | None = None
    heap_max: int | None = None
    non_heap_used: int | None = None
    non_heap_committed: int | None = None
    non_heap_max: int | None = None
    direct_count: int | None = None
    direct_used: int | None = None
    direct_max: int | None = None
    mapped_count: int | None = None
    mapped_used: int | None = None
    mapped_max: int | None = None
    netty_shuffle_memory_segments_available: int | None = None
    netty_shuffle_memory_segments_used: int | None = None
    netty_shuffle_memory_segments_total: int | None = None
    netty_shuffle_memory_available: int | None = None
    netty_shuffle_memory_used: int | None = None
    netty_shuffle_memory_total: int | None = None
    garbage_collectors: list[GarbageCollectorInfo] = []


class TaskManagerDetailsInfo(TaskManagerInfo, frozen=True, rename="camel", kw_only=True):
    metrics: TaskManagerMetricsInfo = TaskManagerMetricsInfo()
    allocated_slots: list[SlotInfo] = []


class TaskManagersInfo(msgspec.Struct, frozen=True):
    taskmanagers: list[TaskManagerInfo]
