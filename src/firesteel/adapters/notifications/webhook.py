"""What a webhook is sent: a change of a job's state as JSON, with a signature."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from firesteel.model.failures import FailureInfo
from firesteel.model.options import ConfigurationError
from firesteel.model.secrets import redacted_text
from firesteel.model.statuschange import JobStatusChange
from firesteel.runtime.services import Clock

TIMESTAMP, SIGNATURE = "Firesteel-Timestamp", "Firesteel-Signature"
_SENDABLE = re.compile(r"[!-~]+")
"""Printable characters of ASCII: all that a request's line and its headers are made of."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What a job fails from, or has failed from."""

    kind: str
    message: str
    exception: str
    function: str
    location: str


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Body of the request."""

    event: str = "job-status-changed"
    id: str
    """The same again for the same end of a job; another state that is told again has a new one."""
    cluster: str
    jid: str
    name: str
    owner: str
    state: str
    timestamp: int
    """Milliseconds since the epoch."""
    cause: Cause | None


def webhook_body(change: JobStatusChange, cluster: str) -> bytes:
    event = WebhookEvent(
        id=change.id,
        cluster=cluster,
        jid=change.job_id,
        name=change.name,
        owner=change.owner,
        state=change.status.value,
        timestamp=change.time_ms,
        cause=_cause(change.failure) if change.failure is not None else None,
    )
    return msgspec.json.encode(event)


class Signer:
    """Headers that say when a body was sent and, by an HMAC with a secret, that it was sent by who knows that."""

    def __init__(self, secret: str, clock: Clock) -> None:
        """Without a secret there is no signature."""
        self._secret, self._clock = secret.encode(), clock

    def headers(self, body: bytes) -> Mapping[str, str]:
        time = str(self._clock.now_ms() // 1_000)
        if not self._secret:
            return {TIMESTAMP: time}
        return {TIMESTAMP: time, SIGNATURE: f"sha256={signature(self._secret, time, body)}"}


def signature(secret: bytes, time: str, body: bytes) -> str:
    """HMAC-SHA256 in hex of the time, a dot and the body; so that neither can be taken for another one's."""
    return hmac.new(secret, time.encode() + b"." + body, hashlib.sha256).hexdigest()


def _cause(failure: FailureInfo) -> Cause:
    return Cause(
        kind=failure.kind.value,
        message=redacted_text(failure.message),
        exception=failure.exception,
        function=failure.vertex,
        location=failure.location,
    )


def checked_url(key: str, url: str) -> str:
    """An http or https URL with a host, that can be sent as it is. Raises ConfigurationError, which does not tell it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigurationError(f"{key}: it is no URL like https://HOST/PATH")
    if "@" in parts.netloc:
        raise ConfigurationError(f"{key}: it has a user or password, which are not sent: leave them out")
    if _SENDABLE.fullmatch(url) is None:
        raise ConfigurationError(
            f"{key}: it has characters that URLs don't: write them as %XX, those of a host as xn--"
        )
    return url


def checked_api_key(key: str, value: str) -> str:
    """A text that a header can have, or none. Raises ConfigurationError, which does not tell it."""
    if value and _SENDABLE.fullmatch(value) is None:
        raise ConfigurationError(f"{key}: it has a space, or characters that are not of ASCII")
    return value
