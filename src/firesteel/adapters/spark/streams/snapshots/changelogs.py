"""The lineage that a RocksDB changelog begins with, under state checkpoint format 2: which files its version builds on.

A changelog is one compressed stream of `java.io.DataOutputStream`: a text with its version ("v3", "v4"), a text with the
lineage as JSON, the changes. Codecs: Spark's own default lz4 (its blocks are those of lz4-java's LZ4BlockOutputStream), and
zstd. Others have no reader here.
"""

import io
import json
import struct
from collections.abc import Iterator
from typing import BinaryIO

from firesteel.adapters.spark.streams.snapshots.errors import CheckpointUnknown

_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBIII")  # magic, method and level, compressed bytes, original bytes, checksum
_LZ4_RAW, _LZ4_COMPRESSED = 0x10, 0x20
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_WITH_LINEAGE = ("v3", "v4")


def lineage(source: BinaryIO, path: str) -> tuple[tuple[int, str], ...] | None:
    """Versions and ids of the files before this one, back to a snapshot or to version 1, oldest first. None when the codec
    is another. Raises CheckpointUnknown."""
    start = source.read(len(_LZ4_MAGIC))
    source.seek(0)
    if start == _LZ4_MAGIC:
        text = _Texts(_lz4_blocks(source))
    elif start.startswith(_ZSTD_MAGIC):
        import zstandard  # comes with Spark Connect's client

        text = _Texts(zstandard.ZstdDecompressor().read_to_iter(source))
    else:
        return None
    try:
        version = text.next()
        items = json.loads(text.next()) if version in _WITH_LINEAGE else None
        if items is None:
            raise CheckpointUnknown(path, f"a changelog of version {version[:10]!r} has no lineage")
        return tuple(sorted((int(item["version"]), str(item["checkpointUniqueId"])) for item in items))
    except (ValueError, KeyError, IndexError, EOFError, TypeError) as error:
        raise CheckpointUnknown(path, f"its lineage can't be read ({error!r})") from None


class _Texts:
    """Texts as `DataOutputStream.writeUTF` writes them: their bytes behind their length in two."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._data = b""

    def next(self) -> str:
        (length,) = struct.unpack(">H", self._take(2))
        return self._take(length).decode()

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            block = next(self._blocks, b"")
            if not block:
                raise EOFError("it ends early")
            self._data += block
        taken, self._data = self._data[:size], self._data[size:]
        return taken


def _lz4_blocks(source: BinaryIO) -> Iterator[bytes]:
    while header := source.read(_LZ4_HEADER.size):
        magic, token, size, original, _ = _LZ4_HEADER.unpack(header)
        if magic != _LZ4_MAGIC:
            raise ValueError("no block of lz4")
        block = source.read(size)
        if token & 0xF0 == _LZ4_RAW:
            yield block
        elif token & 0xF0 == _LZ4_COMPRESSED:
            yield _decompressed(block, original)
        else:
            raise ValueError(f"method {token:#x} of lz4")


def _decompressed(block: bytes, original: int) -> bytes:
    """One block of the LZ4 block format (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md)."""
    out, stream = bytearray(), io.BytesIO(block)
    while len(out) < original:
        (token,) = stream.read(1)
        out += stream.read(_length(token >> 4, stream))
        if len(out) >= original:
            break  # the last sequence has literals only
        distance = int.from_bytes(stream.read(2), "little")
        size = _length(token & 0x0F, stream) + 4
        if not 0 < distance <= len(out):
            raise ValueError("a match before the start of the block")
        for _ in range(size):  # a match may overlap what it makes
            out.append(out[-distance])
    return bytes(out)


def _length(nibble: int, stream: io.BytesIO) -> int:
    length = nibble
    more = 255 if nibble == 15 else 0
    while more == 255:
        (more,) = stream.read(1)
        length += more
    return length
