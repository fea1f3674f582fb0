"""The form in which all messages travel."""

import msgspec

from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages.dispatcher import ToDispatcher
from firesteel.model.messages.jobmaster import ToJobMaster
from firesteel.model.messages.leadership import AboutLeaders
from firesteel.model.messages.resourcemanager import ToResourceManager
from firesteel.model.messages.taskexecutor import ToTaskExecutor

AnyMessage = ToJobMaster | ToTaskExecutor | ToResourceManager | ToDispatcher | AboutLeaders


class Envelope(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message on its way.

    A fenced endpoint takes only envelopes whose `recipient_token` is its own; whoever is told
    something by a leader compares `sender_token` with the leader it knows.
    """

    sender: Address
    recipient: Address
    sender_token: FencingToken | None = None
    recipient_token: FencingToken | None = None
    body: AnyMessage
