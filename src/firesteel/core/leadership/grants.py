"""Epochs of fencing tokens: each leadership of a process has a range of them, for what is granted within it."""

from firesteel.model.ids import FencingToken

GRANT_BITS = 30
"""Bits of a token's epoch for the grants within one leadership of a process; the others say which leadership."""


def grants_from(leadership: int) -> int:
    """The first epoch of a leadership: above all of those before it."""
    return leadership << GRANT_BITS


def leadership_of(token: FencingToken) -> int:
    return token.epoch >> GRANT_BITS
