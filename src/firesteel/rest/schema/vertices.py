"""Bodies about a job's vertices and their subtasks."""

import msgspec

from firesteel.rest.schema.jobs import IOMetricsInfo


class SubtaskDetails(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A subtask's attempt. `start_time` is there twice: the dashboard reads the older name."""

    subtask: int
    status: str
    attempt: int
    endpoint: str
    start_time: int
    end_time: int
    duration: int
    metrics: IOMetricsInfo
    taskmanager_id: str
    status_duration: dict[str, int]
    other_concurrent_attempts: list[str] = []
    start_time_of_old: int = msgspec.field(name="start_time")


class MetricStatistics(msgspec.Struct, frozen=True):
    min: int
    max: int
    avg: int
    sum: int
    median: int
    p25: int
    p75: int
    p95: int


class AggregatedTaskDetailsInfo(msgspec.Struct, frozen=True, rename="kebab"):
    metrics: dict[str, MetricStatistics]
    status_duration: dict[str, MetricStatistics]


class JobVertexDetailsInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    name: str
    parallelism: int
    max_parallelism: int
    now: int
    subtasks: list[SubtaskDetails]
    aggregated: AggregatedTaskDetailsInfo


class SubtaskTimeInfo(msgspec.Struct, frozen=True):
    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[str, int]


class SubtasksTimesInfo(msgspec.Struct, frozen=True):
    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimeInfo]


class VertexTaskManager(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    endpoint: str
    status: str
    start_time: int
    end_time: int
    duration: int
    metrics: IOMetricsInfo
    status_counts: dict[str, int]
    taskmanager_id: str
    aggregated: AggregatedTaskDetailsInfo


class JobVertexTaskManagersInfo(msgspec.Struct, frozen=True):
    id: str
    name: str
    now: int
    taskmanagers: list[VertexTaskManager]


class SubtaskBackPressureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Without the ratios of what nobody measures: how long a task was idle, and busy."""

    subtask: int
    attempt: int = msgspec.field(name="attempt-number")
    level: str = msgspec.field(name="backpressureLevel")
    ratio: float


class JobVertexBackPressureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Back pressure; without a level, a time and subtasks, as Flink answers, where nothing was measured."""

    status: str
    level: str | msgspec.UnsetType = msgspec.field(name="backpressureLevel", default=msgspec.UNSET)
    end_timestamp: int | msgspec.UnsetType = msgspec.field(name="end-timestamp", default=msgspec.UNSET)
    subtasks: list[SubtaskBackPressureInfo] | msgspec.UnsetType = msgspec.UNSET


class UserAccumulators(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    id: str
    user_accumulators: list[dict[str, str]] = []


class SubtaskAccumulatorsInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: list[dict[str, str]] = []


class SubtasksAllAccumulatorsInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulatorsInfo]


class SubtaskAttemptAccumulators(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    subtask: int
    attempt: int
    id: str
    user_accumulators: list[dict[str, str]] = []


class FlameGraphNode(msgspec.Struct, frozen=True):
    name: str = "root"
    value: int = 0
    children: list["FlameGraphNode"] = []


class VertexFlameGraph(msgspec.Struct, frozen=True, rename="camel"):
    end_timestamp: int
    """When it was made. Flink's dashboard knows -1: nothing of the vertex runs, -2: flame graphs are switched off."""
    data: FlameGraphNode = FlameGraphNode()
