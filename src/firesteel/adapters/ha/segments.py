"""The files of a journal: what their lines look like, and what may be wrong with them.

A line is the CRC-32 of its text in eight hex digits, a blank, and the text, which is JSON. The first one is
the header. A write is one line, so that what a power cut tears is the last line.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from firesteel.core.journal.journal import JOURNAL_VERSION
from firesteel.core.journal.storedjobs import AnyEntry
from firesteel.model.ids import FencingToken

CHECKSUM_LENGTH = 8

ENTRIES_PER_LINE = 64
"""Entries in a line of a snapshot."""

T = TypeVar("T")


class JournalCorrupt(Exception):
    """The disk's fault, or that of who changed its files: what was written is not what is read."""


class JournalHeader(msgspec.Struct, frozen=True, kw_only=True, tag="journal"):
    """First line of a journal: a file that is a claim, and that the claimant appends to."""

    version: int = JOURNAL_VERSION
    number: int
    token: FencingToken


class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot"):
    """First line of a snapshot: of all that was written before the journal of the same number."""

    version: int = JOURNAL_VERSION
    number: int
    of: int
    """Number of the journal that it ends; 0 when there was none."""
    sealed_length: int
    """Bytes of that journal that count; what is written to it later does not."""
    lines: int
    """That follow."""


_encoder = msgspec.json.Encoder()
_entries = msgspec.json.Decoder(tuple[AnyEntry, ...])
_journal_header = msgspec.json.Decoder(JournalHeader)
_snapshot_header = msgspec.json.Decoder(SnapshotHeader)


def line(content: object) -> bytes:
    text = _encoder.encode(content)
    return b"%08x %b\n" % (zlib.crc32(text), text)


def snapshot_file(number: int, of: int, sealed_length: int, entries: Iterable[AnyEntry]) -> bytes:
    """A whole snapshot."""
    lines, waiting = [], []
    for entry in entries:
        waiting.append(entry)
        if len(waiting) == ENTRIES_PER_LINE:
            lines.append(line(waiting))
            waiting = []
    if waiting:
        lines.append(line(waiting))
    header = SnapshotHeader(number=number, of=of, sealed_length=sealed_length, lines=len(lines))
    return b"".join((line(header), *lines))


def read_snapshot(name: str, data: bytes) -> Iterator[AnyEntry]:
    """Entries of a snapshot. Raises JournalCorrupt: a snapshot appears whole, so nothing of it may be missing."""
    texts = _texts(data)
    header = _decode(_snapshot_header, name, *next(texts, (0, None)))
    _check_version(name, header.version)
    count = 0
    for offset, text in texts:
        batch = _decode(_entries, name, offset, text)
        yield from batch
        count += 1
    if count != header.lines:
        raise JournalCorrupt(f"{name} is damaged: {count} lines follow its header, not {header.lines}")


def read_header(name: str, data: bytes) -> JournalHeader:
    """Raises JournalCorrupt: a journal appears with its header."""
    header = _decode(_journal_header, name, *next(_texts(data), (0, None)))
    _check_version(name, header.version)
    return header


def read_journal(name: str, data: bytes) -> tuple[list[AnyEntry], int]:
    """All entries, and the length in bytes of what counts: a torn last line does not. Raises JournalCorrupt."""
    read_header(name, data)
    entries: list[AnyEntry] = []
    texts = _texts(data)
    length = next(texts)[0] + data.index(b"\n") + 1
    for offset, text in texts:
        end = data.find(b"\n", offset) + 1
        if text is None and end in (0, len(data)):
            break
        batch = _decode(_entries, name, offset, text)
        entries += batch
        length = end
    return entries, length


def _check_version(name: str, version: int) -> None:
    if version != JOURNAL_VERSION:
        raise JournalCorrupt(
            f"{name} has format version {version}, and this firesteel reads {JOURNAL_VERSION}: start the one that wrote it"
        )


def _texts(data: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Offset and text of each line; None for a line that is not as it was written."""
    offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset)
        if end < 0:
            yield offset, None
            return
        checksum, text = data[offset : offset + CHECKSUM_LENGTH], data[offset + CHECKSUM_LENGTH + 1 : end]
        yield offset, text if checksum == b"%08x" % zlib.crc32(text) else None
        offset = end + 1


def _decode(decoder: "msgspec.json.Decoder[T]", name: str, offset: int, text: bytes | None) -> T:
    if text is None:
        raise JournalCorrupt(f"{name} is damaged at offset {offset}: restore it, or the whole directory, from a copy")
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise JournalCorrupt(
            f"{name} can't be read at offset {offset}, by another version of firesteel? ({error})"
        ) from None
