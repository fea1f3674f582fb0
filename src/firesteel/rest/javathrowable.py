"""A cause of failure as the Java object that Flink's clients insist on: base64 of a serialised SerializedThrowable.

The stream is that of Java's object serialisation protocol, version 5 (Java Object Serialization
Specification, chapter 6): one object of `org.apache.flink.util.SerializedThrowable`, whose
ancestors are `java.lang.Exception` and `java.lang.Throwable`.
"""

import base64
import struct

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _CLASS, _OBJECT, _STRING, _END, _LONG_STRING = b"\x70", b"\x72", b"\x73", b"\x74", b"\x78", b"\x7c"
_SERIALIZABLE, _WRITES_ITSELF = 2, 3
_SHORT_MAX = 0xFFFF


def encode_throwable(message: str, stack_text: str, class_name: str) -> str:
    """Base64 text; a client prints `stack_text` and shows `message`."""
    throwable_data = _NULL + _string(message) + _NULL + _NULL + _END
    own_data = _string(stack_text) + _string(class_name) + _NULL
    return base64.b64encode(_MAGIC + _OBJECT + _CLASSES + throwable_data + own_data).decode()


def _modified_utf8(text: str) -> bytes:
    """Java's own UTF-8: NUL as two bytes, a character beyond U+FFFF as two surrogates of three bytes each."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = struct.unpack(f">{len(units) // 2}H", units)
    return b"".join(b"\xc0\x80" if code == 0 else chr(code).encode("utf-8", "surrogatepass") for code in codes)


def _name(text: str) -> bytes:
    encoded = _modified_utf8(text)
    return struct.pack(">H", len(encoded)) + encoded


def _string(text: str) -> bytes:
    encoded = _modified_utf8(text)
    if len(encoded) <= _SHORT_MAX:
        return _STRING + struct.pack(">H", len(encoded)) + encoded
    return _LONG_STRING + struct.pack(">Q", len(encoded)) + encoded


def _class(name: str, version: int, flags: int, fields: tuple[tuple[str, str], ...], parent: bytes) -> bytes:
    """A class description; fields are (name, type signature), each an object or an array."""
    described = b"".join(signature[:1].encode() + _name(field) + _string(signature) for field, signature in fields)
    return _CLASS + _name(name) + struct.pack(">qBH", version, flags, len(fields)) + described + _END + parent


_THROWABLE = _class(
    "java.lang.Throwable",
    -3042686055658047285,
    _WRITES_ITSELF,
    (
        ("cause", "Ljava/lang/Throwable;"),
        ("detailMessage", "Ljava/lang/String;"),
        ("stackTrace", "[Ljava/lang/StackTraceElement;"),
        ("suppressedExceptions", "Ljava/util/List;"),
    ),
    _NULL,
)
_EXCEPTION = _class("java.lang.Exception", -3387516993124229948, _SERIALIZABLE, (), _THROWABLE)
_CLASSES = _class(
    "org.apache.flink.util.SerializedThrowable",
    7284183123441947635,
    _SERIALIZABLE,
    (
        ("fullStringifiedStackTrace", "Ljava/lang/String;"),
        ("originalErrorClassName", "Ljava/lang/String;"),
        ("serializedException", "[B"),
    ),
    _EXCEPTION,
)
