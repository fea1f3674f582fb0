"""Questions to workers on behalf of clients: each is answered once, by the worker, its loss, or its time."""

from dataclasses import dataclass

from firesteel.core.effects import Effect, Event, Request, Timer
from firesteel.model.ids import ResourceID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry
from firesteel.model.messages import Leader

INQUIRIES_MAX = 1_000
"""Questions that wait for an answer at one time; what is asked beyond that is not."""


@dataclass(frozen=True, slots=True)
class AskTaskManager(Request[AnyAnswer]):
    """Answered with an AnyAnswer, UnknownTaskManager or NoAnswer."""

    resource_id: ResourceID
    inquiry: AnyInquiry
    limit_ms: int


@dataclass(frozen=True, slots=True)
class InquiryTimeout(Timer):
    """A worker had its time to answer."""

    number: int


@dataclass(frozen=True, slots=True)
class AnswerInquiry(Effect):
    """Look it up on this worker; answered by InquiryAnswered."""

    asker: Leader
    number: int
    inquiry: AnyInquiry


@dataclass(frozen=True, slots=True)
class InquiryAnswered(Event):
    """Answers AnswerInquiry."""

    asker: Leader
    number: int
    answer: AnyAnswer
