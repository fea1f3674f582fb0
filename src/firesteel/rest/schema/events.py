"""Data of a cluster's events, and bodies about who waits, who asks, and attempts."""

import msgspec


class Leading(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """`leader`: the master whose events follow. Names are empty where it is the only one."""

    name: str
    rest_address: str
    epoch: int
    now: int
    """The master's clock, in milliseconds since the epoch."""


class JobNamed(msgspec.Struct, frozen=True):
    """`job-gone`: the job is not known any more. `progress`: its view has other figures than before."""

    jid: str


class AttemptNamed(msgspec.Struct, frozen=True, array_like=True):
    region: int
    attempt: int
    taskmanager: str
    """Worker where that is news; else empty."""


class AttemptsChanged(msgspec.Struct, frozen=True, kw_only=True):
    """`attempts`: something has become a fact of a job's attempts, failures or commits."""

    jid: str
    at: int
    kind: str
    """`deployed`, `finished`, `failed`, `canceled`, `restart`, `failure` or `commit`."""
    text: str
    attempts: list[AttemptNamed]
    """The first 16."""
    count: int
    """Number of them all; of regions that run again, or of outputs that are committed."""


class WorkersChanged(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """`workers`: workers have come or gone, or slots were taken or given back."""

    taskmanagers: int
    slots_total: int
    slots_available: int
    joined: list[str]
    left: list[str]
    free: dict[str, int]
    """Workers that have other free slots than were told before: 100 at most, the others in the next event."""


class WaitingJob(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    jid: str
    place: int
    queue: str
    priority: int
    slots_missing: int
    reason: str


class QueueInfo(msgspec.Struct, frozen=True):
    """The line for slots; also the data of the event `queue`."""

    waiting: int
    first: list[WaitingJob]


class UserInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Who asks, as this master knows him."""

    name: str
    """Empty where nobody has to say who he is."""
    roles: list[str]
    needs_token: bool


class SparkPagesAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a browser can show Spark's pages of a job."""

    path: str
    until: int
    """Milliseconds since the epoch; nobody is shown anything there after that."""


class AttemptRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """An attempt of a subtask; times in milliseconds since the epoch, -1 for what has not happened or is not known."""

    vertex: int
    """Place of its vertex in `vertices`."""
    subtask: int
    attempt: int
    state: str
    taskmanager: str
    deployed: int
    running: int
    ended: int
    read_records: int
    read_bytes: int
    write_records: int
    write_bytes: int
    followed: int = -1
    """When the next attempt of its subtask began to wait."""
    spark_time: int = -1
    memory_peak: int = -1


class AttemptsInfo(msgspec.Struct, frozen=True, kw_only=True):
    now: int
    vertices: list[str]
    """Ids of vertices, in the order of the graph."""
    attempts: list[AttemptRow]
    """Attempts by vertex, subtask and number."""
    truncated: bool
    """Whether there are more than are told."""
