"""What a master asks one worker on behalf of somebody who looks: its files, its threads, a job made of a file.

Nothing here changes what runs. A question that gets lost is answered by nobody, and given up after its time.
"""

import msgspec

from firesteel.model.ids import InstanceID
from firesteel.model.message import Message

PART_BYTES_MAX = 256 << 10
"""Most bytes of a file that are told in one answer."""

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


class BuildJob(Inquiry, frozen=True):
    """Make a job of a file that was uploaded, in a process of its own. Answered by JobBuilt."""

    sha256: str
    """The file, as a blob."""
    file_name: str
    entry: str
    """Pipeline of the file: see `pipeline.uploaded`; empty where there is only one."""
    request: bytes
    """JSON of a `pipeline.build.BuildRequest`, but for what names files."""


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
    """Artifacts by SHA-256."""


class BuildFailed(Answer, frozen=True):
    """Report of what is wrong with the file: its author's fault."""

    message: str
    location: str = ""
    trace: str = ""


class InquiryRefused(Answer, frozen=True):
    """Refusal of what can't be answered: `reason` is a sentence."""

    reason: str
    is_missing: bool = False
    """Whether what was asked for is not there."""


AnyInquiry = ListFiles | ReadFile | DumpThreads | BuildJob
AnyAnswer = FileList | FilePart | ThreadDump | JobBuilt | BuildFailed | InquiryRefused


class AskWorker(Message, frozen=True):
    """Question of the ResourceManager. `number` is its own, to know the answer by."""

    instance_id: InstanceID
    number: int
    inquiry: AnyInquiry


class WorkerAnswered(Message, frozen=True):
    """Answer to the ResourceManager that has asked."""

    number: int
    answer: AnyAnswer
