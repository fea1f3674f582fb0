"""The lineage at the start of a RocksDB changelog, by codec."""

import io
import json
import struct

import pytest
import zstandard

from firesteel.adapters.spark.streams.snapshots.changelogs import lineage
from firesteel.adapters.spark.streams.snapshots.errors import CheckpointUnknown

ITEMS = [{"version": 3, "checkpointUniqueId": "c"}, {"version": 2, "checkpointUniqueId": "b"}]
LINEAGE = ((2, "b"), (3, "c"))


def content(version: str = "v3", items: object = ITEMS) -> bytes:
    texts = [version.encode(), json.dumps(items).encode()]
    return b"".join(struct.pack(">H", len(text)) + text for text in texts) + b"\xff" * 40


def lz4_block(method: int, data: bytes, original: int) -> bytes:
    return struct.pack("<8sBIII", b"LZ4Block", method | 5, len(data), original, 0) + data


def lz4_literals(data: bytes) -> bytes:
    """One sequence of literals: what a compressor makes of bytes that do not repeat."""
    lengths = b"" if len(data) < 15 else b"\xff" * ((len(data) - 15) // 255) + bytes([(len(data) - 15) % 255])
    return bytes([min(len(data), 15) << 4]) + lengths + data


def test_zstd() -> None:
    assert lineage(io.BytesIO(zstandard.ZstdCompressor().compress(content())), "x") == LINEAGE


@pytest.mark.parametrize("block", [20, 7, 4000])
def test_lz4_in_raw_blocks(block: int) -> None:
    data = content()
    parts = [data[place : place + block] for place in range(0, len(data), block)]
    assert lineage(io.BytesIO(b"".join(lz4_block(0x10, part, len(part)) for part in parts)), "x") == LINEAGE


def test_lz4_compressed() -> None:
    data = content("v4")
    assert lineage(io.BytesIO(lz4_block(0x20, lz4_literals(data), len(data))), "x") == LINEAGE


def test_lz4_repeats_what_it_has_made() -> None:
    """A text of 300 equal letters: one literal, a match that overlaps itself, five literals at the end, as LZ4 asks for."""
    data = content("v" + "3" * 1, items=[{"version": 1, "checkpointUniqueId": "a" * 300}])
    start, end = data.index(b"a" * 300), data.index(b"a" * 300) + 300
    head, rest = data[: start + 1], data[end:]
    match = 299 - 4 - 15
    token = bytes([(15 << 4) | 15])
    literals = bytes([len(head) - 15]) + head if len(head) < 270 else b""
    sequence = token + literals + struct.pack("<H", 1) + b"\xff" * (match // 255) + bytes([match % 255])
    assert lineage(io.BytesIO(lz4_block(0x20, sequence + lz4_literals(rest), len(data))), "x") == ((1, "a" * 300),)


def test_other_codecs_have_no_reader() -> None:
    assert lineage(io.BytesIO(b"\x82SNAPPY\x00" + bytes(30)), "x") is None


@pytest.mark.parametrize(
    "data",
    [
        lz4_block(0x10, content("v2"), len(content("v2"))),
        lz4_block(0x10, content()[:20], 20),
        lz4_block(0x40, b"", 0),
        lz4_block(0x20, b"\x04\x09\x00", 12),
        zstandard.ZstdCompressor().compress(b"\x00\x02v3\x00\x02[]"[:-2]),
        zstandard.ZstdCompressor().compress(content(items=[{"version": 1}])),
    ],
)
def test_what_is_damaged_is_told(data: bytes) -> None:
    with pytest.raises(CheckpointUnknown, match="changelog"):
        lineage(io.BytesIO(data), "state/0/0/4_x.changelog")
