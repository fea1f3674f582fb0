"""What a master asks one worker on behalf of somebody who looks: its files, its threads, a job made of a file.

Nothing here changes what runs. A question that gets lost is answered by nobody, and given up after its time.
"""

import msgspec

from firesteel.model.ids import InstanceID
from firesteel.model.message import Message

PART_BYTES_MAX = 256 << 10
"""What of a file is told in one answer."""

FILES_MAX = 2_000
"""Files that a worker names in one answer: those that were written last."""

READ_WAIT_MAX_MS = 30_000
"""How long a worker waits at most for a file to grow."""


class Inquiry(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A question to a worker."""


class ListFiles(Inquiry, frozen=True):
    """Answered by FileList."""

    prefix: str = ""
    """What their names begin with."""


class ReadFile(Inquiry, frozen=True):
    """Answered by FilePart. While there is nothing behind `offset`, for so long until there is."""

    name: str
    offset: int = 0
    """Where to begin; a negative one counts from the end."""
    wait_ms: int = 0


class DumpThreads(Inquiry, frozen=True):
    """Answered by ThreadDump."""


class BuildJob(Inquiry, frozen=True):
    """Make a job of a file that was uploaded, in a process of its own. Answered by JobBuilt."""

    sha256: str
    """The file, as a blob."""
    file_name: str
    entry: str
    """What of it: see `pipeline.uploaded`; empty where there is only one."""
    request: bytes
    """JSON of a `pipeline.build.BuildRequest`, but for what names files."""


class Answer(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What a worker says."""


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


class ThreadEntry(msgspec.Struct, frozen=True):
    name: str
    stack: str


class ThreadDump(Answer, frozen=True):
    threads: tuple[ThreadEntry, ...]


class JobBuilt(Answer, frozen=True):
    """The artifacts are blobs at the master now."""

    graph: bytes
    """JSON of the JobGraph."""
    artifacts: tuple[str, ...]
    """By SHA-256."""


class BuildFailed(Answer, frozen=True):
    """What is wrong with the file: its author's fault."""

    message: str
    location: str = ""
    trace: str = ""


class InquiryRefused(Answer, frozen=True):
    """It can't be answered: `reason` is a sentence."""

    reason: str
    is_missing: bool = False
    """What was asked for is not there."""


AnyInquiry = ListFiles | ReadFile | DumpThreads | BuildJob
AnyAnswer = FileList | FilePart | ThreadDump | JobBuilt | BuildFailed | InquiryRefused


class AskWorker(Message, frozen=True):
    """From the ResourceManager. `number` is its own, to know the answer by."""

    instance_id: InstanceID
    number: int
    inquiry: AnyInquiry


class WorkerAnswered(Message, frozen=True):
    """To the ResourceManager that has asked."""

    number: int
    answer: AnyAnswer
