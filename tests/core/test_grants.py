"""Tokens of a later leadership are above all of an earlier one."""

from firesteel.core.leadership.grants import GRANT_BITS, grants_from, leadership_of
from firesteel.model.ids import FencingToken


def test_each_leadership_has_a_range_of_epochs() -> None:
    last = grants_from(7) + (1 << GRANT_BITS) - 1
    assert last < grants_from(8)
    assert [leadership_of(FencingToken(epoch, "m")) for epoch in (grants_from(7), last, last + 1)] == [7, 7, 8]
