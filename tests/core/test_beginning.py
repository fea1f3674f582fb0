"""Where a query of an attempt begins, and what becomes of a copy that has missed a file."""

import pytest

from firesteel.core.checkpoint.beginning import COPIES_MAX, Beginning, Missing, Start, beginning_of, missing_file


def test_the_first_attempt_begins_with_nothing_or_a_savepoint() -> None:
    for has_savepoint, start in ((False, Start.NOTHING), (True, Start.SAVEPOINT)):
        found = beginning_of(0, [], former=-1, is_shared=True, has_savepoint=has_savepoint)
        assert found == Beginning(start)


@pytest.mark.parametrize("has_savepoint", [True, False])
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_later_one_goes_on_where_the_newest_before_it_has_come_to(has_savepoint: bool, is_shared: bool) -> None:
    found = beginning_of(7, [4, 0, 2], former=6, is_shared=is_shared, has_savepoint=has_savepoint)
    assert found == Beginning(Start.FORMER, former=4, obsolete=(0, 2))


def test_one_whose_former_may_have_run_elsewhere_is_lost() -> None:
    assert beginning_of(1, [], former=0, is_shared=False, has_savepoint=True) == Beginning(Start.LOST)
    assert beginning_of(1, [], former=0, is_shared=True, has_savepoint=False) == Beginning(Start.NOTHING)
    assert beginning_of(1, [], former=-1, is_shared=False, has_savepoint=False) == Beginning(Start.NOTHING)


def test_one_that_comes_after_a_later_one_is_late() -> None:
    """It would begin from an older point, and have the sink take back what counts."""
    for attempt, known in ((3, [2, 4]), (0, [1])):
        found = beginning_of(attempt, known, former=-1, is_shared=True, has_savepoint=False)
        assert found == Beginning(Start.LATE)


def test_a_copy_that_is_overtaken_begins_again_some_times() -> None:
    assert [missing_file(5, 6, copies) for copies in range(1, COPIES_MAX + 1)] == [
        *(Missing.OVERTAKEN for _ in range(COPIES_MAX - 1)),
        Missing.TOO_OFTEN,
    ]
    assert missing_file(5, 6, 1, is_fixed=True) is Missing.TOO_OFTEN


def test_what_nothing_can_have_deleted_is_damaged() -> None:
    assert missing_file(5, 5, 1) is Missing.DAMAGED
    assert missing_file(5, None, 1) is Missing.OVERTAKEN
