"""Which start of a query an output is of, and what of former ones counts."""

from firesteel.core.checkpoint.generations import (
    Claim,
    Fit,
    fit_of,
    in_order_of_ending,
    is_ended,
    is_late,
    may_stay,
)


def test_an_attempt_is_late_when_a_later_one_of_its_job_was_there() -> None:
    others = [Claim("job", 2), Claim("another", 9), Claim("", 9)]
    assert is_late(Claim("job", 1), others)
    assert not is_late(Claim("job", 2), others)
    assert not is_late(Claim("third", 0), others)
    assert not is_late(Claim("", 0), others), "outside of a pipeline there is none"


def test_a_query_goes_on_with_its_own_batches_and_leaves_no_gap() -> None:
    assert fit_of(7, "q", [], "") is Fit.FITS
    assert fit_of(7, "q", [5, 6], "q") is Fit.FITS
    assert fit_of(3, "q", [5, 6], "q") is Fit.FITS
    assert fit_of(8, "q", [5, 6], "q") is Fit.GAP
    assert fit_of(7, "q", [5, 6], "other") is Fit.OTHER_QUERY


def test_a_generation_ends_what_earlier_ones_have_from_its_first_batch_on() -> None:
    assert [is_ended(held, 5) for held in (4, 5, 6)] == [False, True, True]
    assert in_order_of_ending([1, 3, 2]) == [3, 2, 1]


def test_a_batch_stays_where_it_was_the_last() -> None:
    assert may_stay(7, [5, 6, 7])
    assert may_stay(7, [5, 6]), "there is nothing of it"
    assert may_stay(7, [])
    assert not may_stay(7, [7, 8]), "somebody goes back to before it"
