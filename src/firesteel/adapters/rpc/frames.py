"""The wire format, without any I/O: bytes of a connection to frames, and frames to bytes.

Each side sends a preface (`FSTL` and a protocol version) and then frames: a length of four bytes,
big-endian, and that many bytes of MessagePack, which hold one of the types in `Frame`. The first
frame is a Hello. Nothing of another kind is decoded: no input can make this process run code.
"""

import struct
from collections.abc import Iterator
from typing import Union

import msgspec

from firesteel.model.ids import Address
from firesteel.model.messages import Envelope
from firesteel.model.stored import UNREADABLE

MAGIC = b"FSTL"
PROTOCOL_VERSION = 3
"""Grows when a peer of the version before could not follow; a golden file holds every frame's form."""

_PREFACE = struct.Struct(">4sH")
_LENGTH = struct.Struct(">I")


class ProtocolError(Exception):
    """The peer's fault, or of whoever configured it: what it sent is not what this connection is for."""


class Refused(ProtocolError):
    """The peer belongs to another cluster, or runs what could not work together with this process."""


class WrongVersion(Refused):
    """The peer speaks another version of the protocol."""

    def __init__(self, theirs: int) -> None:
        super().__init__(f"it speaks version {theirs} of the protocol, this process version {PROTOCOL_VERSION}")
        self.theirs = theirs


class FrameTooLarge(ProtocolError):
    """A frame, to be sent or announced by the peer, is beyond the limit."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a message of {size} bytes is beyond rpc.frame-size.max, {limit} bytes")
        self.size, self.limit = size, limit


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first frame of each side: who speaks, and what for."""

    purpose: str
    """`messages` or `blobs`."""
    node: str
    """The process, for people."""
    cluster_id: str
    firesteel: str
    python: str
    """Python's minor version, like `3.12`: what was pickled for it is not for another."""
    pyspark: str
    process: str = ""
    """Another one for each process, also of those with the same name."""


class Ping(msgspec.Struct, frozen=True, tag=True):
    """A sign of life."""


class Absent(msgspec.Struct, frozen=True, tag=True):
    """No endpoint of that address is here, or not any more."""

    address: Address
    reason: str


class Superseded(msgspec.Struct, frozen=True, tag=True):
    """A newer process speaks as an endpoint of the peer, under its address."""

    address: Address
    node: str
    """The newer process, for people."""


class ClusterOver(msgspec.Struct, frozen=True, tag=True):
    """Message of a leader that was told to end the cluster to those who stand by: they end too."""


class GetBlob(msgspec.Struct, frozen=True, tag=True):
    """Answered by BlobChunks and a BlobEnd, or by BlobRefused."""

    sha256: str


class PutBlob(msgspec.Struct, frozen=True, tag=True):
    """Followed by BlobChunks and a BlobEnd; answered by BlobEnd when the blob is there, or by BlobRefused."""

    sha256: str


class DropBlob(msgspec.Struct, frozen=True, tag=True):
    """Nobody will ask for the blob. Answered by BlobEnd."""

    sha256: str


class AppendOutput(msgspec.Struct, frozen=True, tag=True):
    """Piece of what a script has printed, with its place. Answered by BlobEnd, or by BlobRefused."""

    job_id: str
    name: str
    offset: int
    data: bytes


class BlobChunk(msgspec.Struct, frozen=True, tag=True):
    data: bytes


class BlobEnd(msgspec.Struct, frozen=True, tag=True):
    pass


class BlobRefused(msgspec.Struct, frozen=True, tag=True):
    reason: str
    is_missing: bool = False


Frame = Union[
    Envelope,
    Hello,
    Ping,
    Absent,
    Superseded,
    ClusterOver,
    GetBlob,
    PutBlob,
    DropBlob,
    AppendOutput,
    BlobChunk,
    BlobEnd,
    BlobRefused,
]

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Frame)


def preface() -> bytes:
    """Bytes that a side sends before its first frame."""
    return _PREFACE.pack(MAGIC, PROTOCOL_VERSION)


def encode_frame(frame: Frame, limit_bytes: int) -> bytes:
    """The frame as it is sent. Raises FrameTooLarge."""
    payload = _ENCODER.encode(frame)
    if len(payload) > limit_bytes:
        raise FrameTooLarge(len(payload), limit_bytes)
    return _LENGTH.pack(len(payload)) + payload


class FrameDecoder:
    """Takes the bytes of one direction of a connection as they come."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._buffer = bytearray()
        self._is_greeted = False

    @property
    def is_between_frames(self) -> bool:
        """Whether the connection may end here without anything being cut off."""
        return self._is_greeted and not self._buffer

    def frames(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now. Raises ProtocolError after those before it; then nothing may follow."""
        self._buffer += data
        if not self._is_greeted and not self._greet():
            return
        start = 0
        try:
            while (payload := self._payload_at(start)) is not None:
                start += _LENGTH.size + len(payload)
                yield _decoded(payload)
        finally:
            del self._buffer[:start]

    def _greet(self) -> bool:
        """Check the preface; False while it is not whole."""
        head = bytes(self._buffer[: len(MAGIC)])
        if head != MAGIC[: len(head)]:
            raise ProtocolError("it is no firesteel process, or expects TLS where this one does not (or the reverse)")
        if len(self._buffer) < _PREFACE.size:
            return False
        _, version = _PREFACE.unpack_from(self._buffer)
        if version != PROTOCOL_VERSION:
            raise WrongVersion(version)
        del self._buffer[: _PREFACE.size]
        self._is_greeted = True
        return True

    def _payload_at(self, start: int) -> bytes | None:
        """The payload of the frame that begins at `start`, or None while it is not whole."""
        if len(self._buffer) < start + _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer, start)
        if size > self._limit:
            raise FrameTooLarge(size, self._limit)
        end = start + _LENGTH.size + size
        return bytes(self._buffer[end - size : end]) if len(self._buffer) >= end else None


def _decoded(payload: bytes) -> Frame:
    try:
        frame: Frame = _DECODER.decode(payload)
    except UNREADABLE as error:
        raise ProtocolError(f"it sent what is no message ({error})") from None
    return frame
