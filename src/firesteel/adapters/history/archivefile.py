"""The form of an archive's file: a line with the version, which entries there are and how long each is, then the entries.

What an entry holds is the business of whoever writes it; an archive of a master has views by job, one of the history
server has all that is kept of one job.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, BinaryIO, NamedTuple

import msgspec

from firesteel.model.stored import UNREADABLE

ARCHIVE_VERSION = 1
_HEAD = re.compile(rb"firesteel-archive (\d{1,9}) (\d{1,9})\n")
_HEAD_BYTES_MAX = 64
_Lengths = dict[str, Annotated[int, msgspec.Meta(ge=0)]]


class Damaged(ValueError):
    """The disk's fault, or of a later firesteel: no archive that can be read."""


class Extent(NamedTuple):
    """Place of an entry in its file."""

    offset: int
    length: int


def archive_head(lengths: Mapping[str, int]) -> bytes:
    """What comes before entries of these names and lengths."""
    index = msgspec.msgpack.encode(lengths)
    return b"firesteel-archive %d %d\n%b" % (ARCHIVE_VERSION, len(index), index)


def packed(entries: Mapping[str, bytes]) -> bytes:
    """A whole file."""
    return b"".join((archive_head({name: len(data) for name, data in entries.items()}), *entries.values()))


def read_extents(file: BinaryIO) -> dict[str, Extent]:
    """Places of the entries of a file that is read from its beginning, all within it. Raises Damaged, and nothing else
    whatever the bytes are."""
    line = file.readline(_HEAD_BYTES_MAX)
    found = _HEAD.fullmatch(line)
    if found is None or int(found[1]) != ARCHIVE_VERSION:
        raise Damaged(f"it begins with {line!r}")
    length = int(found[2])
    size = file.seek(0, os.SEEK_END)
    if len(line) + length > size:
        raise Damaged(f"it has {size} bytes, and its index ends at {len(line) + length}")
    file.seek(len(line))
    try:
        places = dict(extents(len(line) + length, msgspec.msgpack.decode(file.read(length), type=_Lengths)))
    except UNREADABLE as error:
        raise Damaged(str(error)) from None
    end = max((place.offset + place.length for place in places.values()), default=0)
    if end > size:
        raise Damaged(f"it has {size} bytes, and should have {end}")
    return places


def extents(offset: int, lengths: Mapping[str, int]) -> Iterator[tuple[str, Extent]]:
    """Places of entries that follow one another from `offset` on."""
    for name, length in lengths.items():
        yield name, Extent(offset, length)
        offset += length
