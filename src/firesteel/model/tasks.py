"""Work that a worker is asked to do, and what comes of it."""

import hashlib
import zlib

import msgspec

from firesteel.model.ids import AllocationID, DataSetID, JobVertexID, RegionAttemptID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.resources import SparkApplication
from firesteel.model.splits import SplitEnumeration
from firesteel.model.streams import QueryProgress


class JobInformation(msgspec.Struct, frozen=True, kw_only=True):
    """The things that all attempts of a job share; sent with each batch of deployments."""

    graph: JobGraph
    user: str
    """Owner of the job: the Spark Connect user id of its sessions."""
    instant_ms: int = 0
    """Time that all of its attempts take for the present: when the first was deployed. 0: each query has its own."""


class ResultPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A stored result of one producer subtask: what a blocking edge reads."""

    dataset_id: DataSetID
    subtask: int
    location: str
    """URI of the directory under the attempt's own, holding files of Spark's own rows or Parquet."""
    rows: int = -1
    """Number of rows, or -1 when not known."""
    size_bytes: int = -1
    columns: tuple[str, ...] = ()
    """The user's column names; the files hold columns by position."""
    subpartitions: int = 1
    """Number of them: with more than one, consumer subtask i reads subpartition i, else every consumer all of it."""
    key_types: tuple[str, ...] = ()
    """Canonical types of the keys of HASH subpartitions, as which they were hashed."""
    key_column_types: tuple[str, ...] = ()
    """Types that the columns of these keys have, for people."""
    settings: tuple[tuple[str, str | None], ...] = ()
    """Spark's settings that differed from the job's own when it was made; None: unset. What is made of it has them."""


class ResultGroup(msgspec.Struct, frozen=True, kw_only=True):
    """All registered results of a data set that each subtask of its consumer reads whole: made once, sent to a worker
    once, named by each deployment. So p producers and q consumers cost p + q, not p × q."""

    dataset_id: DataSetID
    group_id: str
    """Stands for the content: another one when a producer has run again."""
    data: bytes
    """Compressed: paths of one directory are much alike."""


def group_results(dataset_id: DataSetID, partitions: list[ResultPartition]) -> ResultGroup:
    """The group of these results, in their order."""
    data = msgspec.msgpack.encode(partitions)
    group_id = hashlib.blake2b(data, digest_size=16).hexdigest()
    return ResultGroup(dataset_id=dataset_id, group_id=group_id, data=zlib.compress(data, level=1))


def results_of(group: ResultGroup) -> tuple[ResultPartition, ...]:
    """Results that `group_results` was given."""
    return _GROUP_DECODER.decode(zlib.decompress(group.data))


_GROUP_DECODER = msgspec.msgpack.Decoder(tuple[ResultPartition, ...])

RESULT_FORMAT = "arrow"
"""Format of a SinkCommit whose rows go to the job's caller: its target is its one file's SHA-256, of Arrow rows."""


class StagedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a sink's output that another subtask has staged for the same target."""

    staging: str
    files: tuple[str, ...]


Columns = tuple[tuple[str, str], ...]
"""Name and type, as Spark writes it (`bigint`), of columns. Empty where nobody has told, like the type of one that
directories have the values of."""


class SinkCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Staged output of a sink, and all it takes to make it visible, by any worker, any number of times."""

    commit_id: str
    """Names this commit for ever: derived from job, region and attempt, and the sink's place in it."""
    vertex_id: JobVertexID
    function: str
    format: str
    """`parquet`."""
    mode: str
    """`overwrite`, `append` or `error`."""
    target: str
    """URI or path of the directory that readers read."""
    staging: str
    """Directory on the target's file system that holds the staged files."""
    files: tuple[str, ...]
    """Staged data files, relative to `staging`, sorted."""
    rows: int = -1
    size_bytes: int = -1
    place: str = ""
    """Identity of the target, the same however those who write there spell it: a path, or a name. Empty: its own."""
    partitions: tuple[str, ...] = ()
    """Directories below the place that get rows, where `files` does not tell."""
    parts: tuple[StagedPart, ...] = ()
    """Parts of the sink's other subtasks: they become visible in the same step."""
    columns: Columns = ()
    """Those of its rows: the first thousand."""

    @property
    def stagings(self) -> tuple[str, ...]:
        """Every directory that the commit takes files from."""
        return (self.staging, *(part.staging for part in self.parts))


class Committed(msgspec.Struct, frozen=True):
    """How a commit ended that was carried out."""

    note: str = ""
    """What the job's owner is to be told of it, like of other jobs that write there."""
    ignored: bool = False
    """Whether none of its rows are there: its mode is `ignore`, and others have written there before."""


class RestorePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint or savepoint an attempt starts from."""

    checkpoint_id: int
    location: str


class TaskDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one pipelined region, to be run in one slot."""

    attempt: RegionAttemptID
    allocation_id: AllocationID
    vertices: tuple[JobVertexID, ...]
    """The region's vertices, in topological order."""
    subtask: int
    """The index that all subtasks of the region share."""
    inputs: tuple[ResultPartition, ...] = ()
    """The registered results its blocking edges read: on the way those read by this subtask alone, at its start all."""
    groups: tuple[tuple[DataSetID, str], ...] = ()
    """Data sets and ids of the ResultGroups that it reads beside its inputs."""
    restore: RestorePoint | None = None
    alone: bool = False
    """Run it in a Spark backend of its own: earlier attempts were there when backends died."""
    former: int = -1
    """Of a stream: the newest attempt before that has, or may have, checkpoint directories. -1: none has, whatever the
    attempt's number."""
    has_run: bool = False
    """Of a stream: an attempt before had them for certain."""
    subtasks: int = 0
    """Number of subtasks that the scheduler has taken for its vertices; 0: as many as the graph says."""

    def shares(self, parallelism: int) -> range:
        """The shares that it reads of what is distributed over its vertices, which have `parallelism` in the graph."""
        count = self.subtasks or parallelism
        return range(self.subtask * parallelism // count, (self.subtask + 1) * parallelism // count)


class IOMetrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of what an attempt, or all of a vertex, has read and written in the end. -1: nobody has counted it."""

    rows_read: int = -1
    bytes_read: int = -1
    rows_written: int = -1
    bytes_written: int = -1
    tasks: int = -1
    """Spark's."""
    spark_ms: int = -1
    """Time in which Spark had a query of the attempt's to run."""
    memory_peak_bytes: int = -1
    """Most that its process, what that has started, and Spark's Python workers beside it have held."""


PEAKS = ("memory_peak_bytes",)
"""Fields of IOMetrics of which several attempts have the largest together; of all others the sum."""


class InputPlace(msgspec.Struct, frozen=True, array_like=True):
    """A place outside the job that a source reads."""

    function: str
    place: str
    """URI, path or table."""
    columns: Columns = ()


class TaskOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Results that a finished attempt leaves behind."""

    partitions: tuple[ResultPartition, ...] = ()
    sinks: tuple[SinkCommit, ...] = ()
    splits: SplitEnumeration | None = None
    """Splits of a source, found by this attempt."""
    io: IOMetrics | None = None
    """Figures of what it has read; what it has written is in its partitions and sinks."""
    reads: tuple[InputPlace, ...] = ()
    """What its sources were seen to read outside the job."""


NOTHING_TO_DO = TaskOutcome(
    io=IOMetrics(rows_read=0, bytes_read=0, rows_written=0, bytes_written=0, tasks=0, spark_ms=0, memory_peak_bytes=0)
)
"""What a subtask leaves whose share another one reads."""


class TaskProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an attempt's Spark work. Reported at a bounded rate; may be lost."""

    attempt: RegionAttemptID
    function: str = ""
    """The sink or stored result being computed."""
    waits_for: str = ""
    """Thing that it needs before it can compute anything, in words; empty when it has that."""
    stages_done: int = 0
    stages_total: int = 0
    tasks_done: int = 0
    tasks_total: int = 0
    tasks_running: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    queries: tuple[QueryProgress, ...] = ()
    """Queries of a streaming attempt."""
    reattachments: int = 0
    """Task processes of a streaming attempt that died before this one, while its queries ran on."""
    application: SparkApplication | None = None
    """The application whose executors do the work, where these are elsewhere."""
