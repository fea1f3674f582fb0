"""What somebody in the same process asks of a core, and how it is answered. Each core that is asked has its own requests."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from firesteel.core.effects import Effect, Event

T = TypeVar("T")


class Request(Generic[T]):
    """What somebody in this process asks of a core; answered by one Reply with the same request id, of type T or an
    exception."""


@dataclass(frozen=True, slots=True)
class Asked(Event):
    request_id: int
    request: Request[Any]


@dataclass(frozen=True, slots=True)
class Reply(Effect):
    """Answers a request; `value` is the answer, or an exception that is to be raised there."""

    request_id: int
    value: object
