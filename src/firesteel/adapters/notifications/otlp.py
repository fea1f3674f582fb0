"""Spans as OTLP sends them: an `ExportTraceServiceRequest` of opentelemetry-proto 1, in protobuf.

Written out here: it is six small messages, and all spans have ended when they are told, so that the SDK's clocks, contexts,
samplers and threads would have nothing to do.
"""

import struct
from collections.abc import Mapping, Sequence

import msgspec

_VARINT, _FIXED64, _BYTES = 0, 1, 2
"""Wire types of protobuf."""
KIND_INTERNAL, STATUS_ERROR = 1, 2

Attribute = str | int | bool


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Ids are bytes as the specification has them: 16 of the trace, 8 of a span. Times in milliseconds since the epoch."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    name: str
    start_ms: int
    end_ms: int
    attributes: dict[str, Attribute] = {}
    error: str | None = None
    """Message of what failed; None where nothing did."""


def export_request(spans: Sequence[Span], resource: Mapping[str, Attribute], scope: tuple[str, str]) -> bytes:
    """One request with all spans, of the scope of that name and version."""
    scoped = _text(1, scope[0]) + _text(2, scope[1])
    scope_spans = _message(1, scoped) + b"".join(_message(2, _span(span)) for span in spans)
    return _message(1, _message(1, _attributes(1, resource)) + _message(2, scope_spans))


def _span(span: Span) -> bytes:
    parts = [
        _field(1, span.trace_id),
        _field(2, span.span_id),
        _field(4, span.parent_id) if span.parent_id else b"",
        _text(5, span.name),
        _number(6, KIND_INTERNAL),
        _time(7, span.start_ms),
        _time(8, span.end_ms),
        _attributes(9, span.attributes),
    ]
    if span.error is not None:
        parts.append(_message(15, _text(2, span.error) + _number(3, STATUS_ERROR)))
    return b"".join(parts)


def _attributes(number: int, attributes: Mapping[str, Attribute]) -> bytes:
    return b"".join(_message(number, _text(1, key) + _message(2, _value(value))) for key, value in attributes.items())


def _value(value: Attribute) -> bytes:
    match value:
        case str():
            return _text(1, value)
        case bool():
            return _number(2, int(value))
        case int():
            return _number(3, value)


def _time(number: int, at_ms: int) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<Q", at_ms * 1_000_000)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value & (1 << 64) - 1)


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode(errors="replace"))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


_message = _field
"""A message in a message is its bytes."""


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
