"""Joins and set operations of shares: which of them are right when every subtask does its own."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from firesteel.adapters.spark.operators import SQL_NAME, column_name, qualified_name
from firesteel.adapters.spark.sharing import PART, Share

_LEFT_ONLY = ("JOIN_TYPE_LEFT_SEMI", "JOIN_TYPE_LEFT_ANTI")
_EITHER = ("JOIN_TYPE_INNER", "JOIN_TYPE_CROSS", "JOIN_TYPE_UNSPECIFIED")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_COMPARISON = re.compile(
    rf"\s*(?P<first>{SQL_NAME})\s*(?P<operator><=>|==?|<>|!=|<=?|>=?)\s*(?P<second>{SQL_NAME}|-?[\d.]+|'[^'\\]*')\s*"
)


def join_shares(
    node: Any, shares: tuple[Share, Share], ids: tuple[frozenset[int], frozenset[int]], refuse: Callable[[str], None]
) -> Share:
    """The share of a join. `ids`: the plan ids of each side."""
    left, right = shares
    kind = node.DESCRIPTOR.enum_types_by_name["JoinType"].values_by_number[node.join_type].name
    shown = kind.removeprefix("JOIN_TYPE_").lower().replace("_", " ")
    shown = f"an {shown} join" if shown == "inner" else f"a {shown} join"
    columns = left.columns if kind in _LEFT_ONLY else _columns(node, left, right)
    pairs = [(name, name) for name in node.using_columns] or list(_equated(node.join_condition, shares, ids))
    if left.whole:
        if kind not in (*_EITHER, "JOIN_TYPE_RIGHT_OUTER"):
            refuse(f"{shown} whose left side every subtask has whole")
            return replace(PART, columns=columns)
        return replace(_kept((right, left), ids[0], _turned(pairs) if kind in _EITHER else []), columns=columns)
    if right.whole:
        if kind not in (*_EITHER, *_LEFT_ONLY, "JOIN_TYPE_LEFT_OUTER"):
            refuse(f"{shown} whose right side every subtask has whole")
            return replace(PART, columns=columns)
    elif not left.meets(right, pairs):
        refuse(f"{shown} {_on(pairs)}")
        return replace(PART, columns=columns)
    if kind in _LEFT_ONLY:
        return left
    if kind == "JOIN_TYPE_RIGHT_OUTER":
        return replace(_kept((right, left), ids[0], []), columns=columns)
    if kind == "JOIN_TYPE_FULL_OUTER":
        common = tuple(key & set(node.using_columns) for key in left.keys)
        foreign = frozenset[int | str]().union(*ids, *(share.foreign | share.aliases for share in shares))
        return replace(PART, keys=common if all(common) else (), foreign=foreign, columns=columns)
    return replace(_kept(shares, ids[1], pairs if kind in _EITHER else []), columns=columns)


def _kept(sides: tuple[Share, Share], other_ids: frozenset[int], pairs: Sequence[tuple[str, str]]) -> Share:
    """The first of the two sides, whose keys the result has. A bare name that both have is refused by Spark itself.

    `pairs`: columns (of the first side, of the other) that are equal in every row of the result.
    """
    share, other = sides
    equal = [(mine, theirs) for mine, theirs in pairs if share.lacks(theirs)]
    keys = tuple(key | {theirs for mine, theirs in equal if mine in key} for key in share.keys)
    far = {name for name in share.far if other.lacks(name)} | {theirs for _, theirs in equal}
    foreign = share.foreign | other_ids | other.foreign | other.aliases
    return replace(share, keys=keys, foreign=foreign, far=frozenset().union(*keys) & far)


def _turned(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(right, left) for left, right in pairs]


def _columns(node: Any, left: Share, right: Share) -> tuple[str, ...] | None:
    """The names of a join's columns, where both sides' are known and no two are the same."""
    if left.columns is None or right.columns is None:
        return None
    using = [*node.using_columns]
    common = set(map(str.lower, using))
    names = [*using, *(name for name in (*left.columns, *right.columns) if name.lower() not in common)]
    return tuple(names) if len(set(map(str.lower, names))) == len(names) else None


def _on(pairs: Sequence[tuple[str, str]]) -> str:
    names = ", ".join(dict.fromkeys(name for pair in pairs for name in pair))
    return f"on {names}" if names else "that does not say that columns of both sides are equal"


def _equated(
    condition: Any, shares: tuple[Share, Share], ids: tuple[frozenset[int], frozenset[int]]
) -> Iterator[tuple[str, str]]:
    """Pairs of columns (left, right) that the condition says to be equal."""
    match condition.WhichOneof("expr_type"):
        case "unresolved_function" if condition.unresolved_function.function_name == "and":
            for part in condition.unresolved_function.arguments:
                yield from _equated(part, shares, ids)
        case "unresolved_function" if condition.unresolved_function.function_name in ("==", "<=>"):
            first, second = condition.unresolved_function.arguments
            sides = _side(first, shares, ids), _side(second, shares, ids)
            names = column_name(first), column_name(second)
            if sides == (0, 1):
                yield names
            elif sides == (1, 0):
                yield names[1], names[0]
        case "expression_string":
            for equality in _in_sql(condition):
                yield from _equated(equality, shares, ids)
        case _:
            return


def _in_sql(condition: Any) -> Iterator[Any]:
    """The equalities in SQL text that is nothing but comparisons joined by AND, as expressions."""
    parts = [_COMPARISON.fullmatch(part) for part in _AND.split(condition.expression_string.expression)]
    for part in parts if all(parts) else ():
        assert part is not None, "all of them are"
        if part["operator"] in ("=", "==", "<=>"):
            made = type(condition)()
            made.unresolved_function.function_name = "=="
            for name in (part["first"], part["second"]):
                made.unresolved_function.arguments.add().expression_string.expression = name
            yield made


def _side(expression: Any, shares: tuple[Share, Share], ids: tuple[frozenset[int], frozenset[int]]) -> int | None:
    """0 for a column of the left side, 1 for one of the right, None when that is not certain."""
    attribute = expression.unresolved_attribute
    qualifier, name = qualified_name(expression)
    if attribute.HasField("plan_id"):
        within = [attribute.plan_id in side for side in ids]
        if all(within):  # a frame joined with what was made of it
            within = [shares[1].lacks(name), shares[0].lacks(name)]
    elif qualifier:
        within = [qualifier.lower() in share.aliases | share.foreign for share in shares]
    else:  # that of the one side which has it or of the one that may: Spark refuses a name that both have
        has = [share.columns is not None and name in share.columns for share in shares]
        within = [has[0] or shares[1].lacks(name), has[1] or shares[0].lacks(name)]
    certain = sum(within) == 1 and shares[within.index(True)].name_of(expression)
    return within.index(True) if certain else None


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
