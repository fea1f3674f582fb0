"""What a master asks one worker on behalf of somebody who looks: its files, its threads, a job made of a file.

Nothing here changes what runs. A question that gets lost is answered by nobody, and given up after its time.
"""

import msgspec

from firesteel.model.ids import InstanceID, JobID, RegionAttemptID
from firesteel.model.message import Message
from firesteel.model.resources import SparkApplication
from firesteel.model.sparkwork import SparkWork
from firesteel.model.stacks import SampledStack, StackOrder
from firesteel.model.streams import QueriesOrder, QuerySight, QueryState, StateOrder

SPARK_PAGE_BYTES_MAX = 8 << 20
"""Most bytes of a page of Spark's: its largest scripts have less than one MiB, a list of very many tasks some."""

PART_BYTES_MAX = 256 << 10
"""Most bytes of a file that are told in one answer."""

BEFORE_BYTES_MAX = 64 << 10
"""Most bytes that are looked at before a part, for the beginning of its first line."""

FILES_MAX = 2_000
"""Files that a worker names in one answer: those that were written last."""

READ_WAIT_MAX_MS = 30_000
"""Longest time that a worker waits for a file to grow."""


class Inquiry(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A question to a worker."""


class ListFiles(Inquiry, frozen=True):
    """Answered by FileList."""

    prefix: str = ""
    """Beginning of their names."""


class ReadFile(Inquiry, frozen=True):
    """Answered by FilePart. While there is nothing behind `offset`, for so long until there is."""

    name: str
    offset: int = 0
    """Place to begin at; a negative one counts from the end."""
    wait_ms: int = 0


class DumpThreads(Inquiry, frozen=True):
    """Answered by ThreadDump."""


class DescribeSpark(Inquiry, frozen=True):
    """Answered by SparkDescription."""


class ReadSparkPage(Inquiry, frozen=True):
    """One of the pages that Spark serves of what a job runs in. Answered by SparkPage."""

    job_id: JobID
    target: str
    """Path and query, as Spark knows it; begins with a slash."""
    base: str
    """What the reader has before that: links on the page begin with it."""
    reads_all: bool = False
    """Whether the reader may see what other jobs do there, too."""


class LookAtSparkWork(Inquiry, frozen=True):
    """Queries and stages of Spark that are an attempt's, of one that has run there. Answered by SparkWorkSeen."""

    attempt: RegionAttemptID


class BuildJob(Inquiry, frozen=True):
    """Make a job of a file that was uploaded, in a process of its own. Answered by JobBuilt."""

    sha256: str
    """The file, as a blob."""
    file_name: str
    entry: str
    """Pipeline of the file: see `pipeline.uploaded`; empty where there is only one."""
    request: bytes
    """JSON of a `pipeline.build.BuildRequest`, but for what names files."""


class DisposeSavepoint(Inquiry, frozen=True):
    """Delete a savepoint. Answered by SavepointDisposed."""

    path: str


class ReadState(Inquiry, frozen=True):
    """Read state of a query, as of its last committed batch. Answered by StateRead."""

    order: StateOrder


class LookAtQueries(Inquiry, frozen=True):
    """Look where queries write and what they have read. Answered by QueriesSeen."""

    order: QueriesOrder


class SampleStacks(Inquiry, frozen=True):
    """Look where an attempt is, some times. Answered by StacksSampled."""

    order: StackOrder


class Answer(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Answer of a worker."""


class FileEntry(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int
    modified_ms: int


class FileList(Answer, frozen=True):
    files: tuple[FileEntry, ...]


class FilePart(Answer, frozen=True):
    """Bytes `offset` to `end` of a file that has `size_bytes` now. It ends at the end of a line where it can."""

    data: bytes
    offset: int
    end: int
    size_bytes: int
    before: bytes = b""
    """What its first line has before `offset`: only with that is it seen what in `data` is a secret."""


class ThreadEntry(msgspec.Struct, frozen=True):
    name: str
    stack: str


class ThreadDump(Answer, frozen=True):
    threads: tuple[ThreadEntry, ...]


class SparkDescription(Answer, frozen=True):
    """The applications of a worker, one for each of its drivers; none where all of its Spark is in its own JVMs."""

    applications: tuple[SparkApplication, ...]


class SparkPage(Answer, frozen=True):
    """Answer of Spark's. Of its headers, those that matter to a browser; `location` is one for the reader."""

    status: int
    content_type: str = ""
    location: str = ""
    body: bytes = b""


class SparkWorkSeen(Answer, frozen=True):
    """What Spark still tells of it."""

    work: SparkWork


class JobBuilt(Answer, frozen=True):
    """The artifacts are blobs at the master now."""

    graph: bytes
    """JSON of the JobGraph."""
    artifacts: tuple[str, ...]
    """Artifacts by SHA-256."""


class BuildFailed(Answer, frozen=True):
    """Report of what is wrong with the file: its author's fault."""

    message: str
    location: str = ""
    trace: str = ""


class SavepointDisposed(Answer, frozen=True):
    """It is gone."""


class StateRead(Answer, frozen=True):
    """The rows that were asked for."""

    state: QueryState


class QueriesSeen(Answer, frozen=True):
    """The queries, in the order in which they were named."""

    queries: tuple[QuerySight, ...]


class StacksSampled(Answer, frozen=True):
    """Stacks of the attempt's Python and of the JVM that works for it, as far as they can be had."""

    stacks: tuple[SampledStack, ...]


class InquiryRefused(Answer, frozen=True, omit_defaults=True):
    """Refusal of what can't be answered: `reason` is a sentence."""

    reason: str
    is_missing: bool = False
    """Whether what was asked for is not there."""
    is_forbidden: bool = False
    """Whether it is there, and not for whoever asks."""


AnyInquiry = (
    ListFiles
    | ReadFile
    | DumpThreads
    | DescribeSpark
    | ReadSparkPage
    | LookAtSparkWork
    | BuildJob
    | DisposeSavepoint
    | ReadState
    | LookAtQueries
    | SampleStacks
)
AnyAnswer = (
    FileList
    | FilePart
    | ThreadDump
    | SparkDescription
    | SparkPage
    | SparkWorkSeen
    | JobBuilt
    | BuildFailed
    | SavepointDisposed
    | StateRead
    | QueriesSeen
    | StacksSampled
    | InquiryRefused
)


class AskWorker(Message, frozen=True):
    """Question of the ResourceManager. `number` is its own, to know the answer by."""

    instance_id: InstanceID
    number: int
    inquiry: AnyInquiry


class WorkerAnswered(Message, frozen=True):
    """Answer to the ResourceManager that has asked."""

    number: int
    answer: AnyAnswer
