"""Questions to workers on behalf of clients: each is answered once, by the worker, its loss, or its time."""

from dataclasses import dataclass

from firesteel.core.effects import Timer
from firesteel.core.requests import Request
from firesteel.model.ids import ResourceID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry

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
