"""Bytes of answers, and the checks of what comes in names and texts."""

import re
from typing import Any

import msgspec
from starlette.responses import Response

from firesteel.model.failures import FailureInfo
from firesteel.rest.errors import RestError, bad_request
from firesteel.rest.javathrowable import encode_throwable
from firesteel.rest.schema.cluster import ErrorAnswer
from firesteel.rest.schema.jobs import SerializedThrowable

JSON = "application/json; charset=UTF-8"

ID = re.compile(r"[0-9a-f]{32}")
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


def throwable(failure: FailureInfo) -> SerializedThrowable:
    """A failure as Flink's Java clients read it."""
    name = failure.exception or f"firesteel.{failure.kind.value}"
    text = stack_text(failure)
    headline = failure.shown_headline()
    return SerializedThrowable(
        class_name=name, stack_trace=text, serialized_throwable=encode_throwable(headline, text, name)
    )


def stack_text(failure: FailureInfo) -> str:
    """Text of a failure: where and what, then all there is; without secrets."""
    shown = failure.redacted()
    return f"{shown.headline()}\n{shown.trace}" if shown.trace else shown.headline()
