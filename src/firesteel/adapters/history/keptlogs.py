"""The file of what a job has printed, and the answers to those who ask its workers when these have gone."""

import io
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from firesteel.adapters.history.archivefile import Damaged, packed
from firesteel.adapters.history.record import decode_entries
from firesteel.adapters.inspection.logfiles import read_part
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import (
    AnyAnswer,
    AnyInquiry,
    FileEntry,
    FileList,
    FilePart,
    InquiryRefused,
    ListFiles,
    ReadFile,
)
from firesteel.model.secrets import redacted_text
from firesteel.model.stored import UNREADABLE

_INDEX = "index"
_OF_A_JOB = re.compile(r"([0-9a-f]{32})_.*", re.DOTALL)
PIECE_BYTES = 1 << 16
_OUTPUT_BYTES = 1 << 18
"""Most bytes of a script's output that one answer has."""


class KeptLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log file, as it was on its worker."""

    task_manager: ResourceID
    """Empty for a stream of a script, which its master has kept."""
    name: str
    modified_ms: int
    size_bytes: int
    """Size that it had; what is kept of it may be less."""


class KeptText(NamedTuple):
    log: KeptLog
    data: bytes


class KeptLogs:
    """What is kept of one job's prints."""

    def __init__(self, texts: Sequence[KeptText]) -> None:
        self._texts = tuple(texts)

    @property
    def size_bytes(self) -> int:
        return sum(len(each.data) for each in self._texts)

    def holders(self) -> list[ResourceID]:
        """Workers whose files are kept."""
        return list(dict.fromkeys(each.log.task_manager for each in self._texts if each.log.task_manager))

    def answer(self, worker: ResourceID, inquiry: AnyInquiry) -> FileList | FilePart | None:
        """What the worker would answer; None for what is not kept."""
        of_worker = [each for each in self._texts if each.log.task_manager == worker]
        match inquiry:
            case ListFiles(prefix=prefix):
                files = [(each.log.name, each.data, each.log.modified_ms) for each in of_worker]
                found = [FileEntry(name, len(data), time) for name, data, time in files if name.startswith(prefix)]
                return FileList(files=tuple(found))
            case ReadFile(name=name, offset=offset):
                for each in of_worker:
                    if each.log.name == name:
                        return read_part(io.BytesIO(each.data), len(each.data), offset)
            case _:
                pass  # threads and builds are of workers that live
        return None

    def output(self, name: str, offset: int) -> bytes:
        """What a script has printed, from a byte on."""
        for each in self._texts:
            if not each.log.task_manager and each.log.name == name:
                return each.data[offset : offset + _OUTPUT_BYTES]
        return b""


def shown_text(text: KeptText) -> KeptText:
    """The same without secrets; where it is not all there was, its first line says so.

    Piece by piece, since other threads wait for each of them.
    """
    missing = text.log.size_bytes - len(text.data)
    head = f"... ({missing} bytes before this were not archived)\n" if missing > 0 else ""
    pieces = [redacted_text(piece.decode(errors="replace")).encode() for piece in _pieces(text.data)]
    return KeptText(text.log, b"".join((head.encode(), *pieces)))


def _pieces(data: bytes) -> Iterator[bytes]:
    """Whole lines, about `PIECE_BYTES` at a time: what looks like a secret is within a line."""
    begin = 0
    while begin < len(data):
        line_end = data.find(b"\n", begin + PIECE_BYTES)
        end = line_end + 1 if line_end >= 0 else len(data)
        yield data[begin:end]
        begin = end


def encode_logs(texts: Sequence[KeptText]) -> bytes:
    """The file of a job's logs: an entry that lists them, and one for each."""
    index = msgspec.msgpack.encode([each.log for each in texts])
    return packed({_INDEX: index, **{str(number): each.data for number, each in enumerate(texts)}})


def decode_logs(data: bytes) -> KeptLogs:
    """Raises Damaged."""
    entries = decode_entries(data)
    try:
        logs = msgspec.msgpack.decode(entries[_INDEX], type=list[KeptLog])
        return KeptLogs([KeptText(log, entries[str(number)]) for number, log in enumerate(logs)])
    except (KeyError, *UNREADABLE) as error:
        raise Damaged(f"its logs: {error}") from None


def job_of_log(inquiry: AnyInquiry) -> JobID | None:
    """The job whose prints an inquiry is about; None for what is about something else."""
    name = inquiry.prefix if isinstance(inquiry, ListFiles) else inquiry.name if isinstance(inquiry, ReadFile) else ""
    found = _OF_A_JOB.fullmatch(name)
    return JobID(found[1]) if found is not None else None


def with_archived(answer: AnyAnswer, archived: FileList | FilePart | None) -> AnyAnswer:
    """What a worker answers, and what is archived of what it has deleted since."""
    match answer, archived:
        case FileList(files=files), FileList(files=others):
            names = {file.name for file in files}
            return FileList(files=(*files, *(file for file in others if file.name not in names)))
        case InquiryRefused(is_missing=True), FilePart():
            return archived
        case _:
            return answer
