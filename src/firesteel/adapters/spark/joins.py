"""Joins and set operations of shares: which of them are right when every subtask does its own."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from firesteel.adapters.spark.operators import column_name
from firesteel.adapters.spark.sharing import PART, Share

_LEFT_ONLY = ("JOIN_TYPE_LEFT_SEMI", "JOIN_TYPE_LEFT_ANTI")
_EITHER = ("JOIN_TYPE_INNER", "JOIN_TYPE_CROSS", "JOIN_TYPE_UNSPECIFIED")


def join_shares(
    node: Any, shares: tuple[Share, Share], ids: tuple[frozenset[int], frozenset[int]], refuse: Callable[[str], None]
) -> Share:
    """The share of a join of which at least one side is a part. `ids`: the plan ids of each side."""
    left, right = shares
    kind = node.DESCRIPTOR.enum_types_by_name["JoinType"].values_by_number[node.join_type].name
    shown = kind.removeprefix("JOIN_TYPE_").lower().replace("_", " ")
    if left.whole:
        if kind not in (*_EITHER, "JOIN_TYPE_RIGHT_OUTER"):
            refuse(f"a {shown} join whose left side every subtask has whole")
        return _kept(right, ids[0], left)
    if right.whole:
        if kind not in (*_EITHER, *_LEFT_ONLY, "JOIN_TYPE_LEFT_OUTER"):
            refuse(f"a {shown} join whose right side every subtask has whole")
        return _kept(left, ids[1], right)
    pairs = [(name, name) for name in node.using_columns] or list(_equated(node.join_condition, shares, ids))
    if not left.meets(right, pairs):
        columns = ", ".join(dict.fromkeys(name for pair in pairs for name in pair)) or "other columns"
        refuse(f"a {shown} join on {columns}")
        return PART
    if kind in _LEFT_ONLY:
        return left
    if kind == "JOIN_TYPE_RIGHT_OUTER":
        return _kept(right, ids[0], left)
    if kind == "JOIN_TYPE_FULL_OUTER":
        common = tuple(key & set(node.using_columns) for key in left.keys)
        return replace(PART, keys=common if all(common) else (), foreign=ids[0] | ids[1])
    return _kept(left, ids[1], right)


def _kept(share: Share, other_ids: frozenset[int], other: Share) -> Share:
    """The side whose keys the result has. A bare name that both sides have is refused by Spark itself."""
    return replace(share, columns=None, foreign=share.foreign | other_ids | other.foreign)


def _equated(
    condition: Any, shares: tuple[Share, Share], ids: tuple[frozenset[int], frozenset[int]]
) -> Iterator[tuple[str, str]]:
    """Pairs of columns (left, right) that the condition says to be equal."""
    if condition.WhichOneof("expr_type") != "unresolved_function":
        return
    function = condition.unresolved_function
    if function.function_name == "and":
        for part in function.arguments:
            yield from _equated(part, shares, ids)
    elif function.function_name in ("==", "<=>") and len(function.arguments) == 2:
        first, second = function.arguments
        sides = _side(first, shares, ids), _side(second, shares, ids)
        names = column_name(first), column_name(second)
        if sides == (0, 1):
            yield names
        elif sides == (1, 0):
            yield names[1], names[0]


def _side(expression: Any, shares: tuple[Share, Share], ids: tuple[frozenset[int], frozenset[int]]) -> int | None:
    """0 for a column of the left side, 1 for one of the right, None when that is not certain."""
    attribute = expression.unresolved_attribute
    if attribute.HasField("plan_id"):
        within = [attribute.plan_id in side for side in ids]
        certain = sum(within) == 1 and shares[within.index(True)].name_of(expression)
        return within.index(True) if certain else None
    name = column_name(expression)
    has = [share.columns is not None and name in share.columns for share in shares]
    lacks = [share.columns is not None and name.lower() not in map(str.lower, share.columns) for share in shares]
    if has[0] and lacks[1]:
        return 0
    return 1 if has[1] and lacks[0] else None


def union_shares(node: Any, left: Share, right: Share, refuse: Callable[[str], None]) -> Share:
    """The share of a set operation of which at least one side is a part."""
    if left.whole or right.whole:
        refuse("a set operation with rows that every subtask has whole")
        return PART
    keys = _common_keys(node, left, right)
    if node.set_op_type == node.SET_OP_TYPE_UNION and (node.is_all or not node.HasField("is_all")):
        return replace(left, keys=keys, foreign=left.foreign | right.foreign)
    if not keys:
        refuse("a set operation without duplicates")
    return replace(left, keys=keys, foreign=left.foreign | right.foreign)


def _common_keys(node: Any, left: Share, right: Share) -> tuple[frozenset[str], ...]:
    """Keys that both sides have in the same columns, by position or by name."""
    if len(left.keys) != len(right.keys):
        return ()
    keys: list[frozenset[str]] = []
    for mine, theirs in zip(left.keys, right.keys, strict=True):
        if node.by_name:
            keys.append(mine & theirs)
        else:
            pairs = zip(left.columns or (), right.columns or (), strict=False)
            keys.append(frozenset(a for a, b in pairs if a in mine and b in theirs))
    return tuple(keys) if all(keys) else ()
