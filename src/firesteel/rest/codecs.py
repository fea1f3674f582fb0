"""Bytes of answers, and the checks of what comes in names and texts."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from firesteel.model.failures import FailureInfo
from firesteel.model.secrets import is_secret
from firesteel.rest.errors import RestError, bad_request
from firesteel.rest.javathrowable import encode_throwable
from firesteel.rest.schema.cluster import ErrorAnswer
from firesteel.rest.schema.jobs import SerializedThrowable

JSON = "application/json; charset=UTF-8"
HIDDEN = "******"

ID = re.compile(r"[0-9a-f]{32}")
_SENSITIVE_PART = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|api_?key)=)[^&;\s]+|(://[^/:@\s]*:)[^/@\s]+(?=@)"
)
_BEARER = re.compile(r"(?i)(\bbearer )\S+")
_encoder = msgspec.json.Encoder()


def json_response(body: Any, status: int = 200) -> Response:
    return Response(_encoder.encode(body), status, media_type=None, headers={"Content-Type": JSON})


def error_response(error: RestError, *more: str) -> Response:
    return json_response(ErrorAnswer([error.message, *more]), error.status)


def checked_id(text: str, name: str) -> str:
    """An id of 32 hex digits, as they are written everywhere: in lower case. Raises RestError 400."""
    if ID.fullmatch(text.lower()) is None:
        raise bad_request(f"Cannot resolve path parameter ({name}) from value {text!r}: it is 32 hex digits.")
    return text.lower()


def redacted(values: Mapping[str, object]) -> dict[str, str]:
    """Texts by key, in order, with secrets hidden: those that their key names, and those inside addresses."""
    return {key: redacted_value(key, _text(values[key])) for key in sorted(values)}


def redacted_value(key: str, value: str) -> str:
    if is_secret(key):
        return HIDDEN
    return _SENSITIVE_PART.sub(lambda match: f"{match[1] or match[2]}{HIDDEN}", value)


def redacted_text(text: str) -> str:
    """Text that a program has written, without what looks like a secret."""
    return _BEARER.sub(rf"\1{HIDDEN}", redacted_value("", text))


def throwable(failure: FailureInfo) -> SerializedThrowable:
    """A failure as Flink's Java clients read it."""
    name = failure.exception or f"firesteel.{failure.kind.value}"
    text = stack_text(failure)
    return SerializedThrowable(
        class_name=name, stack_trace=text, serialized_throwable=encode_throwable(failure.headline(), text, name)
    )


def stack_text(failure: FailureInfo) -> str:
    """Text of a failure: where and what, then all there is."""
    return f"{failure.headline()}\n{failure.trace}" if failure.trace else failure.headline()


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
