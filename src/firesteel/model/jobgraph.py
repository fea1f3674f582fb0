"""The JobGraph: a pipeline as the master sees it. Structure is readable, user code is opaque.

Wire format: JSON by msgspec, with a schema version (`SCHEMA_VERSION`). `decode_job_graph`
reads this version and the one before; a golden file pins the bytes.
"""

from enum import Enum

import msgspec

from firesteel.model.ids import DataSetID, JobID, JobVertexID
from firesteel.model.resources import UNSPECIFIED, ResourceProfile
from firesteel.model.splits import InputFormat, is_moving
from firesteel.model.stored import UNREADABLE

SCHEMA_VERSION = 1

DEFAULT_GROUP = "default"
"""The slot sharing group of functions that name none."""

type_name = str
"""A parameter's declared type as text: str, int, float, bool, date, datetime."""


class JobType(Enum):
    BATCH = "batch"
    STREAMING = "streaming"


class DistributionPattern(Enum):
    """The choice of producer subtasks that a consumer subtask reads."""

    POINTWISE = "pointwise"
    """Only the one with its own index."""
    ALL_TO_ALL = "all_to_all"
    """All of them."""


class ExchangeMode(Enum):
    PIPELINED = "pipelined"
    """Lazy: both ends are fused into one Spark plan."""
    BLOCKING = "blocking"
    """The producer's result is stored; the consumer reads it when it is finished."""


class Partitioner(Enum):
    """The way a blocking exchange lays rows out over the consumer's subtasks."""

    FORWARD = "forward"
    HASH = "hash"
    REBALANCE = "rebalance"
    BROADCAST = "broadcast"
    SPLITS = "splits"
    """Carries no rows: the producer has found a source's input splits, and the consumer's subtasks draw them."""


class FunctionKind(Enum):
    SOURCE = "source"
    TRANSFORM = "transform"
    SINK = "sink"
    RESULT = "result"
    """A function whose rows go to whoever submitted the job."""
    NOOP = "noop"
    """Runs nothing; finished by the worker itself."""
    SPLITS = "splits"
    """Finds the input splits of a source. No code of the user's."""
    SCRIPT = "script"
    """A whole program that opens its Spark session itself; alone in its job."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A user's function. The master reads its name and wiring and never its code."""

    name: str
    uid: str
    kind: FunctionKind
    entry_point: str = ""
    """`module:function` inside the job's code artifact, or the path of a SCRIPT there; empty for NOOP."""
    inputs: tuple[str, ...] = ()
    """Names of the functions whose results it takes, each also the argument's name."""
    parameters: tuple[str, ...] = ()
    """Names of the job parameters it takes."""
    wants_session: bool = False
    """Takes the argument `spark`."""
    wants_context: bool = False
    """Takes the argument `context`."""
    location: str = ""
    """`file:line` of its definition, for messages."""
    per_share: bool = False
    """Whether operators that need every row are to see their share only, with parallelism above 1."""
    splits: InputFormat | None = None
    """Input format of a source that takes the argument `splits`, and of what finds them."""
    arguments: tuple[str, ...] = ()
    """Arguments that a SCRIPT finds in `sys.argv` behind its own name."""

    @property
    def is_script(self) -> bool:
        return self.kind is FunctionKind.SCRIPT

    cached: bool = False
    """Spark caches its result for those that read it, which are in the same region."""


class JobVertex(msgspec.Struct, frozen=True, kw_only=True):
    """One or more chained functions, in the order they run. The last one's result is the vertex's."""

    id: JobVertexID
    name: str
    functions: tuple[Function, ...]
    parallelism: int = 1
    resources: ResourceProfile = UNSPECIFIED
    max_attempts: int | None = None
    """Attempts a region holding this vertex may use at the most, or the restart strategy's."""
    timeout_ms: int | None = None
    """An attempt that runs longer is failed."""
    slot_sharing_group: str = DEFAULT_GROUP
    """Vertices of different groups are never in one slot together."""
    co_location_group: str = ""
    """Subtasks of equal index in one such group run on one worker, where it has a slot for them."""
    auto_parallelism: bool = False
    """Nobody has said its parallelism for itself: it is the most, and the scheduler may take fewer subtasks for little data."""

    @property
    def draws_splits(self) -> bool:
        """Whether its subtasks draw input splits. With parallelism 1 the one subtask reads all there is at once; it draws
        that where the next attempt would find something else."""
        head = self.functions[0]
        if head.kind is not FunctionKind.SOURCE or head.splits is None:
            return False
        return self.parallelism > 1 or is_moving(head.splits)


class IntermediateDataSet(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a vertex produces for others. `name` is its last function's name."""

    id: DataSetID
    name: str
    producer: JobVertexID


class JobEdge(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer's input."""

    source: DataSetID
    target: JobVertexID
    pattern: DistributionPattern = DistributionPattern.POINTWISE
    exchange: ExchangeMode = ExchangeMode.PIPELINED
    partitioner: Partitioner = Partitioner.FORWARD
    keys: tuple[str, ...] = ()
    """Columns of a HASH partitioner."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A blob that travels with the job, by content."""

    name: str
    """Name of a `file` or an `archive` in an attempt's working directory, from FILE or FILE#TARGET."""
    kind: str
    """`code` (a zip put on the module path), `pickle`, or what an attempt finds in its working directory: a `file`,
    or an `archive`, which is unpacked."""
    sha256: str
    size_bytes: int

    @property
    def is_placed(self) -> bool:
        """Whether it lies in an attempt's working directory."""
        return self.kind in ("file", "archive")

    @property
    def target(self) -> str:
        """Name that it has there."""
        return self.name.rpartition("#")[2]

    @property
    def ending(self) -> str:
        """Ending of an archive's name, which says its format; empty for a format that nobody reads."""
        file = self.name.partition("#")[0].lower()
        return next((each for each in ARCHIVE_ENDINGS if file.endswith(each)), "")


ARTIFACT_KINDS = ("code", "pickle", "file", "archive")
ARCHIVE_ENDINGS = (".zip", ".tar.gz", ".tgz", ".tar")
_UNSAFE = frozenset("/\\#%?*")
_NAME_BYTES_MAX = 200


def is_plain_name(name: str) -> bool:
    """Whether a file may be called so: no path, nothing that a shell, a URI or Spark would read otherwise."""
    if name in ("", ".", "..") or not name.isprintable() or name[0] == "-":
        return False
    return _UNSAFE.isdisjoint(name) and len(name.encode()) <= _NAME_BYTES_MAX


CLIENT_DIRECTORY_VARIABLE = "FIRESTEEL_CLIENT_DIR"
"""Environment variable that tells a pipeline's code `RuntimeEnvironment.directory`."""


class RuntimeEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The versions that the graph was built with; a worker that differs refuses the job naming both."""

    python: str
    """Major.minor."""
    pyspark: str
    """Full version, or empty when pyspark is not installed at the client."""
    directory: str = ""
    """Directory in which relative paths of the pipeline start; empty where nobody has said so: then the worker's."""

    def refusal(self, here: "RuntimeEnvironment", where: str) -> str:
        """Why what was built with these versions can't run with those that `where` has; empty when it can."""
        if self.python and self.python != here.python:
            different = f"Python {self.python}, {where} runs Python {here.python}"
        elif self.pyspark and self.pyspark != here.pyspark:
            different = f"pyspark {self.pyspark}, {where} has pyspark {here.pyspark}"
        else:
            return ""
        return f"the job was built with {different}: use the same version on both sides"


class JobGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A job, ready for submission. `vertices` are in topological order."""

    schema: int = SCHEMA_VERSION
    job_id: JobID
    name: str
    job_type: JobType = JobType.BATCH
    vertices: tuple[JobVertex, ...]
    datasets: tuple[IntermediateDataSet, ...] = ()
    edges: tuple[JobEdge, ...] = ()
    parameters: dict[str, str | int | float | bool] = {}
    """Values for the functions' parameters, already converted to their types (dates as ISO text)."""
    parameter_types: dict[str, type_name] = {}
    configuration: dict[str, str] = {}
    """The job's own options, among them `spark.*`."""
    artifacts: tuple[Artifact, ...] = ()
    environment: RuntimeEnvironment
    owner: str = ""
    """User who submitted it, as the cluster knows him; what a client writes here is overwritten."""
    client_heartbeat_timeout_ms: int = 0
    """The job ends with its client, and that is gone when nothing was heard of it for so long; 0: it goes on alone."""

    @property
    def has_user_code(self) -> bool:
        functions = (function for vertex in self.vertices for function in vertex.functions)
        return any(function.kind is not FunctionKind.NOOP for function in functions)


class InvalidJobGraph(ValueError):
    """The submitter's fault: the graph can't be run. The text says what to change."""


def encode_job_graph(graph: JobGraph) -> bytes:
    """JSON, UTF-8, keys in the order of declaration."""
    return msgspec.json.encode(graph)


def decode_job_graph(data: bytes) -> JobGraph:
    """Read what `encode_job_graph` wrote. Raises InvalidJobGraph for anything else."""
    try:
        schema = msgspec.json.decode(data, type=_SchemaOnly).schema
        if schema != SCHEMA_VERSION:
            raise InvalidJobGraph(
                f"job graph has schema {schema}, this version reads {SCHEMA_VERSION}: use the same version of firesteel on both sides"
            )
        return msgspec.json.decode(data, type=JobGraph)
    except UNREADABLE as error:
        raise InvalidJobGraph(f"not a job graph: {error}") from error


class _SchemaOnly(msgspec.Struct):
    schema: int
