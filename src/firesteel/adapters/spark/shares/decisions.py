"""Questions that a function on shares may decide by: how many rows there are, and whether there are any."""

import contextlib
import contextvars
import numbers
import operator
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.adapters.spark.refusals import NeedsAllRows

asking: contextvars.ContextVar[bool] = contextvars.ContextVar("asking", default=False)
"""Whether what Spark is told to run now is such a question."""


class ShareCount:
    """How many rows a subtask's share has, or what a comparison says of that. It can be compared, calculated with and
    printed, and decide; in a plan it would be taken for the count of all rows, so it becomes no number there."""

    __slots__ = ("_rows",)

    def __init__(self, rows: float) -> None:
        self._rows = rows

    def __hash__(self) -> int:
        return hash(self._rows)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __str__(self) -> str:
        return f"{self._rows} (of a share of the rows)"

    __repr__ = __str__

    def __int__(self) -> int:
        raise NeedsAllRows(
            "count() has counted this subtask's share of the rows, and a plan or a number would take it for all: compare it"
            " to decide something; or count in a function of its own with parallelism=1; or say per_share=True"
        )

    __index__ = __int__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return int(self)  # a column's arithmetic has taken it for a column

    def __float__(self) -> float:
        return float(int(self))


def _answering(calculate: Callable[[Any, Any], Any]) -> Callable[[ShareCount, Any], Any]:
    """A method by which numbers are calculated with, or compared; with a column it is the column's affair."""

    def method(mine: ShareCount, other: object) -> Any:
        is_number = isinstance(other, ShareCount | numbers.Number)
        return ShareCount(calculate(_rows(mine), _rows(other))) if is_number else NotImplemented

    return method


def _reflected(calculate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda mine, other: calculate(other, mine)


for _each in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod):
    setattr(ShareCount, f"__{_each.__name__}__", _answering(_each))
    setattr(ShareCount, f"__r{_each.__name__}__", _answering(_reflected(_each)))
for _each in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
    setattr(ShareCount, f"__{_each.__name__}__", _answering(_each))


def _rows(value: Any) -> Any:
    return value._rows if isinstance(value, ShareCount) else value  # noqa: SLF001 - its own


@contextlib.contextmanager
def answered(is_share: Callable[[Any], bool]) -> Iterator[None]:
    """Have `count` and `isEmpty` say, within, that they are about a share, of each frame that `is_share` names."""
    from pyspark.sql.connect.dataframe import DataFrame

    count, is_empty = DataFrame.count, DataFrame.isEmpty

    def counted(frame: Any) -> Any:
        if not is_share(frame):
            return count(frame)
        with _asked():
            return ShareCount(count(frame))

    def emptiness(frame: Any) -> bool:
        with _asked():
            return is_empty(frame)

    DataFrame.count, DataFrame.isEmpty = counted, emptiness  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        DataFrame.count, DataFrame.isEmpty = count, is_empty  # type: ignore[method-assign]


@contextlib.contextmanager
def _asked() -> Iterator[None]:
    token = asking.set(True)
    try:
        yield
    finally:
        asking.reset(token)
