"""Whether a plan, run on each subtask's share of the rows, gives in all what it gives on all rows.

The walk goes over unresolved Connect plans, so it asks Spark nothing. It knows of every relation whether a subtask has
all its rows or a part, and which columns hold the keys by which the parts were made. What it does not understand it
refuses, on parts: a false refusal costs a word (`per_share=True`), a false approval costs rows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from firesteel.adapters.spark.joins import join_shares, union_shares
from firesteel.adapters.spark.operators import BeyondRow, beyond_row, children, column_name
from firesteel.adapters.spark.sharing import PART, WHOLE, Share, plan_ids

Refuse = Callable[[str], None]
"""Takes the operator that needs more than a share; raises, unless a result per share is what the author wants."""

_ROW_WISE = frozenset(
    ["filter", "hint", "repartition", "repartition_by_expression", "sample", "sample_by", "drop_na", "with_watermark"]
)
_NAMING = frozenset(
    ["project", "with_columns", "with_columns_renamed", "drop", "to_df", "subquery_alias", "sort", "aggregate", "join"]
)
"""Operators after which the columns' names are known, when they were before."""
_WHOLE_INPUT = {
    "limit": "limit",
    "offset": "offset",
    "tail": "tail",
    "summary": "summary",
    "describe": "describe",
    "crosstab": "crosstab",
    "cov": "cov",
    "corr": "corr",
    "approx_quantile": "approxQuantile",
    "freq_items": "freqItems",
    "transpose": "transpose",
    "collect_metrics": "observe",
    "map_partitions": "mapInPandas or mapInArrow",
}
"""Operators that need every row, by the user's name for them."""


class PlanWalk:
    """The shares of a plan's relations. `known` has those of inputs and earlier results, by plan id; `leaf` is what is
    read from outside."""

    def __init__(self, known: Mapping[int, Share], refuse: Refuse, leaf: Share = WHOLE) -> None:
        self._known, self._refuse, self._leaf = known, refuse, leaf

    def share_of(self, relation: Any) -> Share:
        """What a subtask has of the rows of `relation`."""
        plan_id = relation.common.plan_id
        if relation.common.HasField("plan_id") and plan_id in self._known:
            return self._known[plan_id]
        kind = relation.WhichOneof("rel_type")
        node = getattr(relation, kind) if kind else relation
        inputs = [self.share_of(child) for child in relations_in(node)]
        if not inputs:
            return self._leaf
        if all(share.whole for share in inputs):
            return self._whole(kind, node, inputs)
        handler = getattr(self, f"_{kind}", None)
        if handler is not None:
            return handler(node, *inputs)  # type: ignore[no-any-return]
        if kind in _ROW_WISE:
            self._check(children(node), inputs[0])
            return inputs[0]
        self._refuse(_WHOLE_INPUT.get(kind, kind or "this operator"))
        return inputs[0] if len(inputs) == 1 and kind in ("limit", "offset", "tail", "collect_metrics") else PART

    def _whole(self, kind: str | None, node: Any, inputs: list[Share]) -> Share:
        """Of rows that every subtask has: nothing is refused, and their columns' names are worth knowing."""
        names = WHOLE
        if kind in _ROW_WISE or kind in ("limit", "offset", "tail"):
            names = inputs[0]
        elif kind in _NAMING:
            names = getattr(PlanWalk(self._known, lambda operator: None), f"_{kind}")(node, *inputs)
        return replace(names, whole=True, keys=(), far=frozenset())

    def _check(self, expressions: Iterable[Any], share: Share) -> None:
        for expression in expressions:
            for found in beyond_row(expression):
                self._check_one(found, share)

    def _check_one(self, found: BeyondRow, share: Share) -> None:
        if found.partition is None:
            self._refuse(found.shown)
        elif not share.complete_for(share.names_of(found.partition)):
            self._refuse(f"{found.shown} partitioned by {', '.join(map(_shown, found.partition)) or 'nothing'}")

    # ── one method a kind of relation: its proto, then its inputs' shares, one of which is a part ─────────
    def _project(self, node: Any, share: Share) -> Share:
        self._check(node.expressions, share)
        return share.projected(node.expressions)

    def _with_columns(self, node: Any, share: Share) -> Share:
        self._check((alias.expr for alias in node.aliases), share)
        return share.changed([name for alias in node.aliases for name in alias.name])

    def _with_columns_renamed(self, node: Any, share: Share) -> Share:
        pairs = [(rename.col_name, rename.new_col_name) for rename in node.renames]
        return share.renamed({**dict(node.rename_columns_map), **dict(pairs)})

    def _drop(self, node: Any, share: Share) -> Share:
        foreign = [each for each in node.columns if share.is_foreign(each) and not share.name_of(each)]
        left = share.without([*node.column_names, *(column_name(each) for each in node.columns if each not in foreign)])
        return replace(left, columns=None) if foreign else left

    def _to_df(self, node: Any, share: Share) -> Share:
        return share.renamed_by_position(list(node.column_names))

    def _to_schema(self, node: Any, share: Share) -> Share:
        return replace(share, keys=(), columns=None)  # its casts may make two keys of one

    def _parse(self, node: Any, share: Share) -> Share:
        return PART

    def _fill_na(self, node: Any, share: Share) -> Share:
        return share.changed(list(node.cols)) if node.cols else replace(share, keys=())

    _replace = _fill_na

    def _unpivot(self, node: Any, share: Share) -> Share:
        self._check(children(node), share)
        kept = replace(share.projected(node.ids), columns=None)
        return kept.changed([node.variable_column_name, node.value_column_name])

    def _subquery_alias(self, node: Any, share: Share) -> Share:
        plans = frozenset(each for each in share.foreign if isinstance(each, int))
        return replace(share, aliases=frozenset((node.alias.lower(),)), foreign=plans)

    def _sort(self, node: Any, share: Share) -> Share:
        self._check(children(node), share)
        if not node.HasField("is_global") or node.is_global:
            self._refuse("orderBy")
        return share

    def _deduplicate(self, node: Any, share: Share) -> Share:
        everything = node.all_columns_as_keys and bool(share.keys)
        if not everything and not share.complete_for(node.column_names):
            self._refuse("distinct" if node.all_columns_as_keys else _by("dropDuplicates", node.column_names))
        return share

    def _aggregate(self, node: Any, share: Share) -> Share:
        grouping = [*node.grouping_expressions]
        names = share.names_of(grouping)
        self._check(grouping, share)
        plain, pivot = node.GROUP_TYPE_GROUPBY, node.GROUP_TYPE_PIVOT
        if node.group_type not in (plain, pivot):
            self._refuse("rollup, cube or grouping sets")
        if node.group_type == pivot and not node.pivot.values:
            self._refuse("pivot without given values")
        if not share.complete_for(names):
            self._refuse(_by("groupBy", map(_shown, grouping)))
        found = share.projected(grouping, node.aggregate_expressions)
        return found if node.group_type == plain else replace(found, columns=None)

    def _group_map(self, node: Any, share: Share, *others: Share) -> Share:
        grouping = node.grouping_expressions
        if others or not share.complete_for(share.names_of(grouping)):
            self._refuse(_by("groupBy", map(_shown, grouping)) + " with a function over groups")
        return PART

    def _co_group_map(self, node: Any, left: Share, right: Share) -> Share:
        mine = [left.name_of(each) for each in node.input_grouping_expressions]
        other = [right.name_of(each) for each in node.other_grouping_expressions]
        if left.whole or right.whole or not left.meets(right, list(zip(mine, other, strict=False))):
            self._refuse(_by("cogroup", mine))
        return PART

    def _join(self, node: Any, left: Share, right: Share) -> Share:
        self._check([node.join_condition] if node.HasField("join_condition") else [], PART)
        return join_shares(node, (left, right), (plan_ids(node.left), plan_ids(node.right)), self._refuse)

    def _set_op(self, node: Any, left: Share, right: Share) -> Share:
        return union_shares(node, left, right, self._refuse)

    def _with_relations(self, node: Any, *shares: Share) -> Share:
        root, *references = shares
        if any(not share.whole for share in references):
            self._refuse("a subquery or SQL text")
        return root if not root.whole else PART


def relations_in(message: Any) -> list[Any]:
    """The relations directly inside a proto message, in the order of its fields."""
    found: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for item in value if field.is_repeated else (value,):
            if not hasattr(item, "DESCRIPTOR"):
                continue
            if item.DESCRIPTOR.full_name == "spark.connect.Relation":
                found.append(item)
            elif item.DESCRIPTOR.full_name != "spark.connect.Expression":
                found += relations_in(item)
    return found


def _shown(expression: Any) -> str:
    alias = expression.alias.name
    return column_name(expression) or (f"... as {alias[0]}" if len(alias) == 1 else "an expression")


def _by(operator: str, names: Iterable[str]) -> str:
    shown = ", ".join(names)
    return f"{operator}({shown})" if shown else f"{operator}() of everything"
