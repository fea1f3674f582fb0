"""Relations of a source with input splits, told apart: which are pieces of the splits it has drawn.

A source is called once a draw. What it reads besides, rows of its own or a path of its own, comes with every draw again.
"""

import re
from collections.abc import Iterable
from typing import Any

from firesteel.adapters.spark.splits.argument import DateSplits, FileSplits, RangeSplits
from firesteel.adapters.spark.splits.kafka import FORMAT, KafkaSplits
from firesteel.adapters.spark.splits.paths import escaped

_ROW_BY_ROW = ("filter", "subquery_alias", "with_columns_renamed", "to_df", "drop")
"""Operators that may lie between the condition of the splits and what is read."""


class Pieces:
    """`splits`: the argument the source is called with."""

    def __init__(self, splits: FileSplits | RangeSplits | DateSplits | KafkaSplits) -> None:
        self._splits = splits

    def __contains__(self, relation: Any) -> bool:
        """Whether all rows of `relation`, a Connect relation, are of these splits."""
        kind = relation.WhichOneof("rel_type")
        if kind == "filter":
            return self._is_condition(relation.filter.condition) and _is_read(relation.filter.input)
        if kind == "range" and isinstance(self._splits, RangeSplits):
            whole = relation.range
            return whole.start == whole.end or (whole.start, whole.end) in self._splits.ranges
        if kind != "read" or not relation.read.HasField("data_source"):
            return False
        source = relation.read.data_source
        match self._splits:
            case FileSplits(files=files):
                return bool(source.paths) and set(source.paths) <= {*files, *map(escaped, files)}
            case RangeSplits(predicates=predicates):
                return bool(source.predicates) and set(source.predicates) <= set(predicates)
            case DateSplits(dates=dates):
                return bool(source.paths) and all(_names_one(path, dates) for path in source.paths)
            case KafkaSplits(offsets=offsets):
                given = {name: source.options.get(name) for name in ("assign", "startingOffsets", "endingOffsets")}
                return bool(source.format == FORMAT) and given in offsets

    def _is_condition(self, condition: Any) -> bool:
        """Whether it keeps rows of the splits only: their predicate, or that and something else."""
        if condition.WhichOneof("expr_type") == "unresolved_function":
            call = condition.unresolved_function
            return bool(call.function_name == "and") and any(map(self._is_condition, call.arguments))
        if condition.WhichOneof("expr_type") != "expression_string":
            return False
        text = condition.expression_string.expression
        match self._splits:
            case RangeSplits():
                return bool(text == self._splits.predicate) or text in self._splits.predicates
            case DateSplits(dates=dates):
                shown = re.escape(", ".join(f"DATE'{day.isoformat()}'" for day in dates))
                return re.fullmatch(rf"CAST\([\w.`]+ AS DATE\) IN \({shown}\)" if dates else "1 = 0", text) is not None
            case _:
                return False


def _is_read(relation: Any) -> bool:
    while (kind := relation.WhichOneof("rel_type")) in _ROW_BY_ROW:
        relation = getattr(relation, kind).input
    return bool(kind == "read")


def _names_one(path: str, dates: Iterable[Any]) -> bool:
    """Whether a path names one of these days: its year, month and day, in this order and next to one another."""
    digits = re.compile(r"(\d{4})\D{0,7}?(\d{1,2})\D{0,5}?(\d{1,2})(?!\d)")
    named = {tuple(map(int, match.groups())) for match in digits.finditer(path)}
    return any((day.year, day.month, day.day) in named for day in dates)
