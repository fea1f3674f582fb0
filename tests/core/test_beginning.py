"""Where a query of an attempt begins, and what becomes of a copy that has missed a file."""

import pytest

from firesteel.core.checkpoint.beginning import COPIES_MAX, Beginning, Missing, Start, beginning_of, missing_file


def test_the_first_attempt_begins_with_nothing_or_a_savepoint() -> None:
    for has_savepoint, start in ((False, Start.NOTHING), (True, Start.SAVEPOINT)):
        found = beginning_of(0, [], former=-1, has_run=False, is_shared=True, has_savepoint=has_savepoint)
        assert found == Beginning(start)


@pytest.mark.parametrize("has_savepoint", [True, False])
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_later_one_goes_on_where_the_newest_before_it_has_come_to(has_savepoint: bool, is_shared: bool) -> None:
    found = beginning_of(7, [4, 0, 2], former=6, has_run=True, is_shared=is_shared, has_savepoint=has_savepoint)
    assert found == Beginning(Start.FORMER, former=4, obsolete=(0, 2))


@pytest.mark.parametrize(
    ("former", "has_run", "is_shared", "start"),
    [
        (0, True, True, Start.LOST),
        (0, True, False, Start.LOST),
        (0, False, False, Start.LOST),
        (-1, False, False, Start.NOTHING),
        (0, False, True, Start.NOTHING),
    ],
)
def test_one_whose_formers_directory_is_not_here_is_lost(
    former: int, has_run: bool, is_shared: bool, start: Start
) -> None:
    """Unless none was made: where all look, what nobody has heard of was not."""
    found = beginning_of(1, [], former=former, has_run=has_run, is_shared=is_shared, has_savepoint=False)
    assert found == Beginning(start)


def test_one_that_comes_after_a_later_one_is_late() -> None:
    """It would begin from an older point, and have the sink take back what counts."""
    for attempt, known in ((3, [2, 4]), (0, [1])):
        found = beginning_of(attempt, known, former=-1, has_run=False, is_shared=True, has_savepoint=False)
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
