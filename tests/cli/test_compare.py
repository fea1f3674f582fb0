"""What `firesteel compare` says of what it has found, and when it calls that the same."""

import pytest

from firesteel.cli.jobs.compare import is_same, lines_of
from firesteel.client.comparing import QueryComparison
from firesteel.client.comparison import Comparison, Sample


def found(*, settled: bool = True, after: int = -1, only_first: int = 0, different: int = 0) -> QueryComparison:
    rows = Comparison(first_rows=9, second_rows=9, equal=7, only_first=only_first, different=different)
    return QueryComparison(
        uid="result", rows=rows, after=after, first_batch=8 if settled else -1, second_batch=6 if settled else -1
    )


@pytest.mark.parametrize(
    ("comparison", "by_key", "same", "words"),
    [
        (
            found(),
            False,
            True,
            "result: the same: 7 rows equal, 0 only in the first, 0 only in the second; up to batch 8",
        ),
        (found(after=3), True, True, "(since batch 3, where they parted)"),
        (found(only_first=1), False, False, "different: 7 rows equal, 1 only in the first"),
        (found(only_first=1), True, False, "different: 7 keys equal, 0 in both with other rows, 1 only in the first"),
        (found(only_first=1, settled=False), True, True, "no difference yet: 7 keys equal"),
        (found(only_first=1, settled=False), False, False, "not settled: 7 rows equal"),
        (found(different=1, settled=False), True, False, "different: 7 keys equal, 1 in both with other rows"),
        (found(settled=False), False, True, "the same: 7 rows equal"),
    ],
)
def test_verdicts(comparison: QueryComparison, by_key: bool, same: bool, words: str) -> None:
    assert is_same(comparison, by_key=by_key) is same
    assert words in lines_of(comparison, by_key=by_key)[0]
    assert ("had both read the same" in lines_of(comparison, by_key=by_key)[0]) is (comparison.first_batch < 0)


def test_samples_are_lines() -> None:
    sample = Sample(key={"k": "ä"}, first=[{"k": "ä", "n": 1}], second=[])
    rows = Comparison(first_rows=1, second_rows=0, equal=0, only_first=1, samples=[sample])
    comparison = QueryComparison(uid="result", rows=rows, after=-1, first_batch=0, second_batch=0)
    assert lines_of(comparison, by_key=True)[1] == '  {"k": "ä"}: first {"k": "ä", "n": 1} | second none'
