"""Who leads: told between processes, from where elections are known."""

import msgspec

from firesteel.model.ids import Address, FencingToken
from firesteel.model.message import Message


class Leader(msgspec.Struct, frozen=True):
    """The leader of a component, and where to reach it."""

    address: Address
    token: FencingToken


class FollowLeader(Message, frozen=True):
    """Answered by a LeaderIs now, and by one at each change while the connection holds."""

    component: str


class UnfollowLeader(Message, frozen=True):
    component: str


class LeaderIs(Message, frozen=True):
    component: str
    leader: Leader | None = None


AboutLeaders = FollowLeader | UnfollowLeader | LeaderIs
"""Between processes."""
