"""Exponential backoff: doubled to the longest, spread by chance over the upper half, without end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.model.backoff import ExponentialBackoff

DELAYS = ExponentialBackoff(0.1, 2.0)


def test_it_doubles_up_to_the_longest() -> None:
    assert [DELAYS.after(failures) for failures in (1, 2, 3, 5, 6, 7)] == pytest.approx([0.1, 0.2, 0.4, 1.6, 2.0, 2.0])
    assert DELAYS.after(10**9) == 2.0
    assert DELAYS.after(0) == 0.0


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_chance_takes_off_half_of_it_at_most(failures: int, chance: float) -> None:
    whole = DELAYS.after(failures)
    assert whole / 2 <= DELAYS.after(failures, chance=chance) <= whole
