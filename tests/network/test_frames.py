"""The wire format: bytes to frames, whatever they are, and the form that other processes rely on."""

import contextlib
import struct
import typing

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from firesteel.adapters.rpc import frames as f
from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages import Envelope
from tests.core.messages import SAMPLES

LIMIT = 1 << 20
HELLO = f.Hello(purpose="messages", node="n", cluster_id="c", firesteel="1", python="3.11", pyspark="4.3.0")
TOKEN = FencingToken(7, "me")
ENVELOPES = [
    Envelope(sender=Address("a"), recipient=Address("b"), sender_token=TOKEN, recipient_token=None, body=body)
    for body in SAMPLES
]
OTHERS: list[f.Frame] = [
    HELLO,
    f.Ping(),
    f.Absent(Address("a"), "gone"),
    f.Superseded(Address("a"), "n"),
    f.ClusterOver(),
    f.GetBlob("ab"),
    f.PutBlob("ab"),
    f.DropBlob("ab"),
    f.AppendOutput("ab", "0.stdout", 7, b"\x00\xff"),
    f.BlobChunk(b"\x00\xff"),
    f.BlobEnd(),
    f.BlobRefused("no", is_missing=True),
]
ALL: list[f.Frame] = [*ENVELOPES, *OTHERS]


def stream_of(*sent: f.Frame) -> bytes:
    return f.preface() + b"".join(f.encode_frame(frame, LIMIT) for frame in sent)


def test_every_kind_of_frame_has_a_sample() -> None:
    assert {type(frame) for frame in ALL} == set(typing.get_args(f.Frame))


@hypothesis.given(st.lists(st.sampled_from(ALL), max_size=8), st.lists(st.integers(1, 400)))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(sent: list[f.Frame], cuts: list[int]) -> None:
    data, decoder = stream_of(*sent), f.FrameDecoder(LIMIT)
    found: list[f.Frame] = []
    for size in cuts:
        found += decoder.frames(data[:size])
        data = data[size:]
    found += decoder.frames(data)
    assert found == sent
    assert decoder.is_between_frames


def test_a_connection_that_ends_within_a_frame_is_noticed() -> None:
    decoder = f.FrameDecoder(LIMIT)
    assert list(decoder.frames(stream_of(HELLO)[:-1])) == []
    assert not decoder.is_between_frames


@hypothesis.given(st.binary(max_size=200))
def test_garbage_is_a_protocol_error_or_waits_for_more(data: bytes) -> None:
    """Also after a good beginning, and with a good length before it."""
    for text in (data, f.preface() + data, f.preface() + struct.pack(">I", len(data)) + data):
        with contextlib.suppress(f.ProtocolError):
            list(f.FrameDecoder(LIMIT).frames(text))


@hypothesis.given(st.sampled_from(ALL), st.integers(0, 10_000), st.integers(0, 255))
def test_one_wrong_byte_never_does_more_than_end_the_connection(frame: f.Frame, place: int, value: int) -> None:
    data = bytearray(stream_of(frame))
    data[place % len(data)] = value
    with contextlib.suppress(f.ProtocolError):
        list(f.FrameDecoder(LIMIT).frames(bytes(data)))


def test_what_came_before_garbage_is_delivered() -> None:
    found: list[f.Frame] = []
    with pytest.raises(f.ProtocolError, match="no message"):
        found.extend(f.FrameDecoder(LIMIT).frames(stream_of(HELLO, f.Ping()) + struct.pack(">I", 1) + b"\xc1"))
    assert found == [HELLO, f.Ping()]


def test_other_programs_and_other_versions_are_told_apart() -> None:
    with pytest.raises(f.ProtocolError, match="no firesteel process"):
        list(f.FrameDecoder(LIMIT).frames(b"GET / HTTP/1.1\r\n"))
    with pytest.raises(f.WrongVersion, match="speaks version 9") as caught:
        list(f.FrameDecoder(LIMIT).frames(b"FSTL\x00\x09"))
    assert caught.value.theirs == 9


def test_a_frame_beyond_the_limit_is_refused_before_it_is_read_and_before_it_is_sent() -> None:
    with pytest.raises(f.FrameTooLarge, match=r"rpc.frame-size.max"):
        list(f.FrameDecoder(100).frames(f.preface() + struct.pack(">I", 101)))
    with pytest.raises(f.FrameTooLarge):
        f.encode_frame(f.BlobChunk(b"x" * 100), 100)


def test_nesting_without_end_is_no_message() -> None:
    nested = b"\x91" * 100_000
    with pytest.raises(f.ProtocolError):
        list(f.FrameDecoder(LIMIT).frames(f.preface() + struct.pack(">I", len(nested)) + nested))


def test_unknown_fields_are_passed_over() -> None:
    """So that a newer process of the same protocol version may say more."""
    payload = msgspec.msgpack.encode({"type": "Absent", "address": "a", "reason": "r", "more": 1})
    assert list(f.FrameDecoder(LIMIT).frames(f.preface() + struct.pack(">I", len(payload)) + payload)) == [
        f.Absent(Address("a"), "r")
    ]
