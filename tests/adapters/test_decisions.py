"""The count of a share: a number to decide by, and none for a plan."""

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.shares.decisions import ShareCount


@pytest.mark.parametrize(
    "calculate",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.eq,
        operator.ne,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
    ],
)
@pytest.mark.parametrize("other", [3, 7, 0.5, 7.0, Decimal(7), True])
def test_it_is_calculated_with_and_compared_as_a_number_is(calculate: Callable[[Any, Any], Any], other: Any) -> None:
    for found, wanted in (
        (calculate(ShareCount(7), other), calculate(7, other)),
        (calculate(other, ShareCount(7)), calculate(other, 7)),
        (calculate(ShareCount(7), ShareCount(other)), calculate(7, other)),
    ):
        assert str(found) == f"{wanted} (of a share of the rows)"
        assert bool(found) is bool(wanted)


@pytest.mark.parametrize("made", [lambda count: count, lambda count: count > 5, lambda count: count * 2 == 14])
def test_no_number_comes_of_it(made: Callable[[Any], Any]) -> None:
    for use in (int, float, operator.index, lambda answer: answer.alias):
        with pytest.raises(PipelineRefused, match="has counted this subtask's share"):
            use(made(ShareCount(7)))


def test_it_is_nothing_else() -> None:
    count: Any = ShareCount(7)
    assert count != "7"
    assert count not in (None, "7")
    assert {ShareCount(7): 1}[count] == 1
    with pytest.raises(TypeError):
        assert count < "8"
