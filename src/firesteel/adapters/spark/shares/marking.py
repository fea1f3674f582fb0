"""A Connect plan as the planner is to see it: inputs laid out as their edges say, and marked as shares."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PARTITIONS = 977
"""Partitions of a marked input. Any number above 1: nothing is run."""
MARK = "firesteel-share-"
"""Name of the metric of a marked input, before its number."""
_PLACED = frozenset(("repartition", "repartition_by_expression", "hint"))
"""Operators that change no row, only where rows lie and how they are joined; the planner would believe them."""
_JOINS = ("join", "as_of_join", "lateral_join")
OBSERVE = "observe"
_NEEDS_ALL = {
    "collect_metrics": OBSERVE,
    "map_partitions": "mapInPandas or mapInArrow",
    "tail": "tail",
    "summary": "summary",
    "describe": "describe",
    "crosstab": "crosstab",
    "cov": "cov",
    "corr": "corr",
    "approx_quantile": "approxQuantile",
    "freq_items": "freqItems",
    "transpose": "transpose",
    "apply_in_pandas_with_state": "applyInPandasWithState",
    "zip": "zip",
}
"""Relations of which every row counts and that the planner doesn't say it of, or that Spark would run to plan them."""

Refuse = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Input:
    """The relation that stands in a marked plan for a frame that a function was given, by plan id."""

    relation: Any = None
    """A share of the rows, laid out; None: every subtask has all of them."""
    neutral: Callable[[], Any] | None = None
    """Makes the same with keys of one type a family. A plan of these is asked about when the planner lays
    rows out anew only since it does not know that what compares as equal is in one share."""


class Marking:
    """`given`: by plan id. `numbers`: of marks; those of a view and of a plan that names it must differ. `views`: SQL text
    and tables may be views of shares. `leaf` says whether a relation is a piece of the splits that a source has drawn."""

    def __init__(
        self,
        given: Mapping[int, Input],
        numbers: Iterator[int],
        *,
        views: bool = False,
        leaf: Callable[[Any], bool] = lambda relation: False,
    ) -> None:
        self._given, self._numbers, self._views, self._leaf = given, numbers, views, leaf

    def marked(self, relation: Any, refuse: Refuse, *, neutral: bool = False) -> tuple[Any, bool]:
        """The plan to ask about, and whether it may hold a share. `refuse` is told what can't be asked about."""
        copy = type(relation)()
        copy.CopyFrom(relation)
        rewriting = _Rewriting(self._given, self._numbers, self._views, self._leaf, refuse, neutral)
        return copy, rewriting.visit(copy)


@dataclass(slots=True)
class _Rewriting:
    given: Mapping[int, Input]
    numbers: Iterator[int]
    views: bool
    leaf: Callable[[Any], bool]
    refuse: Refuse
    neutral: bool

    def visit(self, relation: Any) -> bool:
        """Rewrite in place; whether a share may be in it."""
        known = self.given.get(relation.common.plan_id) if relation.common.HasField("plan_id") else None
        if known is not None:
            if known.relation is not None:
                laid_out = known.neutral() if self.neutral and known.neutral is not None else known.relation
                self._mark(relation, laid_out)
            return known.relation is not None
        if self.leaf(relation):
            self._mark(relation, relation)
            return True
        kind = relation.WhichOneof("rel_type")
        node = getattr(relation, kind) if kind else relation
        inputs = relations_in(node)
        parts = [self.visit(each) for each in inputs]
        if kind in _JOINS and any(parts):
            for each, part in zip(inputs, parts, strict=True):
                if not part:
                    broadcast(each)
        if self.neutral:
            _without_null_safety(kind, node)
        if kind in _PLACED:
            _filter_instead(relation, node, keeps=True)
        elif kind == "limit" and node.limit == 0:
            _filter_instead(relation, node, keeps=False)  # the rule that knows that it is empty is not asked
        elif any(parts):
            self._check(kind, node)
        elif not parts:
            return self.views and (kind == "sql" or (kind == "read" and node.HasField("named_table")))
        elif not_repeatable(node):
            self.refuse("a function that is declared not to be deterministic, on rows that every subtask has,")
        return any(parts)

    def _check(self, kind: str | None, node: Any) -> None:
        if kind in _NEEDS_ALL:
            self.refuse(_NEEDS_ALL[kind])
        if kind == "aggregate" and node.group_type == node.GROUP_TYPE_PIVOT and not node.pivot.values:
            self.refuse("pivot without given values")

    def _mark(self, place: Any, laid_out: Any) -> None:
        """Put `laid_out`, closed with a mark, where `place` is. Columns named through `place` are found at the mark."""
        made = type(place)()
        metric = made.collect_metrics.metrics.add().unresolved_function
        made.collect_metrics.name, metric.function_name = f"{MARK}{next(self.numbers)}", "count"
        metric.arguments.add().literal.integer = 1
        made.collect_metrics.input.CopyFrom(laid_out)
        if place.common.HasField("plan_id"):
            made.common.plan_id = place.common.plan_id
            made.collect_metrics.input.common.ClearField("plan_id")
        place.CopyFrom(made)


def broadcast(relation: Any) -> None:
    """Say of a relation, in place, that a join is to broadcast it: every subtask has all its rows."""
    made = type(relation)()
    made.hint.name = "broadcast"
    made.hint.input.CopyFrom(relation)
    relation.CopyFrom(made)


def spread(relation: Any) -> Any:
    """`relation` with its rows anywhere."""
    made = type(relation)()
    made.repartition.input.CopyFrom(relation)
    made.repartition.num_partitions, made.repartition.shuffle = PARTITIONS, True
    return made


def _filter_instead(relation: Any, node: Any, *, keeps: bool) -> None:
    """Replace a node by a filter that keeps all, or nothing: it may have a plan id by which columns are named."""
    made = type(relation)()
    made.common.CopyFrom(relation.common)
    made.filter.input.CopyFrom(node.input)
    made.filter.condition.literal.boolean = keeps
    relation.CopyFrom(made)


def _without_null_safety(kind: str | None, node: Any) -> None:
    """Replace, in place, joins that find null equal to null: Spark would lay rows out anew for them.

    Comparisons with a constant, and those of filters and columns, stay: Spark works with what they say of rows.
    """
    if kind == "set_op" and node.set_op_type != node.SET_OP_TYPE_UNION:
        node.is_all = True  # which is made of a union and a group
    for expression in expressions_in(node) if kind == "join" else ():
        called = expression.unresolved_function
        if called.function_name == "<=>" and not any(each.HasField("literal") for each in called.arguments):
            called.function_name = "=="


def relations_in(message: Any) -> list[Any]:
    """The relations directly inside a proto message, in the order of its fields."""
    return list(_inside(message, "spark.connect.Relation", "spark.connect.Expression"))


def not_repeatable(node: Any) -> bool:
    """Whether an expression of this relation's own calls a Python function that is declared not to be deterministic."""
    calls = (each.common_inline_user_defined_function for each in expressions_in(node) if _is_udf(each))
    return not all(udf.deterministic for udf in calls)


def expressions_in(node: Any) -> Iterator[Any]:
    """Every expression of a relation's own."""
    for expression in _inside(node, "spark.connect.Expression", "spark.connect.Relation"):
        yield expression
        yield from expressions_in(expression)


def _is_udf(expression: Any) -> bool:
    return bool(expression.WhichOneof("expr_type") == "common_inline_user_defined_function")


def _inside(message: Any, wanted: str, closed: str) -> Iterator[Any]:
    """The messages of type `wanted` nearest inside `message`, not looking into those of type `closed`."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for item in value if field.is_repeated else (value,):
            if not hasattr(item, "DESCRIPTOR"):  # an entry of a map
                continue
            name = item.DESCRIPTOR.full_name
            if name == wanted:
                yield item
            elif name != closed:
                yield from _inside(item, wanted, closed)
