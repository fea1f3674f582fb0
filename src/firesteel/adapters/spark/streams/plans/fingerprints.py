"""Fingerprints of streaming queries: what their state is made of, so that another plan does not go on from it. Pure.

Spark knows stateful operators by their place and looks at the types of what is in their state. Where the types are the same
it goes on, whatever the columns mean now.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from firesteel.adapters.spark.streams.plans.places import Place, left, moved
from firesteel.adapters.spark.streams.plans.plantext import Columns, Node, arguments, outputs, parsed, parts

VERSION = 2
SHOWN_CHARACTERS = 160
"""Of an expression in a refusal."""
_PARTIAL, _MERGE = "partial_", "merge_"
_OPERATOR = re.compile(r"\bopId = (\d+)")
_FORMAT = re.compile(r"[\[,]")
_ZONED = re.compile(r" as (?:date|timestamp|string)\)")
"""A cast that may depend on the session's time zone; of other functions Spark prints theirs."""


class StatefulOperator(msgspec.Struct, frozen=True):
    """An operator that keeps state; `holds` has, by rule, what must stay the same, in this order. A rule that is missing is
    not known, and not compared."""

    kind: str
    holds: dict[str, tuple[str, ...]]


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """Of one query. Operators in the order in which Spark numbers them."""

    version: int = VERSION
    sources: tuple[str, ...] = ()
    """Formats, in the order in which Spark numbers them."""
    places: tuple[Place, ...] = ()
    """Where they read from, a join's left side before its right; none where that is not known."""
    output_mode: str = ""
    operators: tuple[StatefulOperator, ...] = ()


def fingerprint(explained: str, output_mode: str, time_zone: str = "", places: Sequence[Place] = ()) -> str:
    """Of the query whose frame is explained so, in a session of that time zone, with sources that read there, as text for a
    manifest; empty when that can't be read."""
    root = parsed(explained)
    if root is None:
        return ""
    columns = Columns(root)
    sources = tuple(_source(node) for node in root.walk() if node.name == "StreamingRelation")
    if not sources:  # SQL over a view of a stream: explained as if it were a batch
        return ""
    found = Fingerprint(
        sources=sources,
        places=tuple(places),
        output_mode=output_mode.lower() or "append",
        operators=tuple(_with_zone(each, time_zone) for each in _operators(root, columns)),
    )
    return msgspec.json.encode(found).decode()


def agreed(first: str, again: str) -> str:
    """The fingerprint of a query that was explained twice: without the rules in which the two differ, as they do where Spark
    writes the current time for `current_timestamp()`."""
    one, other = _decoded(first), _decoded(again)
    if one is None or other is None:
        return ""
    if [each.kind for each in one.operators] != [each.kind for each in other.operators]:
        return ""
    operators = (
        StatefulOperator(
            before.kind, {rule: held for rule, held in before.holds.items() if now.holds.get(rule) == held}
        )
        for before, now in zip(one.operators, other.operators, strict=True)
    )
    return msgspec.json.encode(msgspec.structs.replace(one, operators=tuple(operators))).decode()


def broken_rules(saved: str, new: str) -> list[str]:
    """What keeps a query from going on from the state of another: a sentence for each rule that it breaks. Nothing where one
    of the two is not known."""
    before, now = _decoded(saved), _decoded(new)
    if before is None or now is None:
        return []
    kinds = [operator.kind for operator in before.operators], [operator.kind for operator in now.operators]
    broken = _difference("sources", before.sources, now.sources) or _elsewhere(before.places, now.places)
    if kinds[0] != kinds[1]:
        return [*broken, *_difference("stateful operators", *kinds)]
    if before.operators:
        broken += _difference("output mode", (before.output_mode,), (now.output_mode,))
    several = len(before.operators) > 1
    for number, (old, changed) in enumerate(zip(before.operators, now.operators, strict=True)):
        which = f" of operator {number} ({old.kind})" if several else f" of the {old.kind}"
        for rule in (rule for rule in old.holds if rule in changed.holds):
            broken += _difference(f"{rule}{which}", old.holds[rule], changed.holds[rule])
    return broken


def _elsewhere(before: Sequence[Place], now: Sequence[Place]) -> list[str]:
    exchanged = moved(before, now)
    rule = "order of the sources" if exchanged else "directory of a source"
    return [f"{rule}: it was {old}, and is {new}" for old, new in exchanged or left(before, now)]


def _decoded(text: str) -> Fingerprint | None:
    try:
        found = msgspec.json.decode(text, type=Fingerprint)
    except msgspec.DecodeError:
        return None
    return found if found.version == VERSION else None


def _difference(rule: str, before: Sequence[str], now: Sequence[str]) -> list[str]:
    if tuple(before) == tuple(now):
        return []
    return [f"{rule}: it was {_shown(before, now)}, and is {_shown(now, before)}"]


def _shown(these: Sequence[str], others: Sequence[str]) -> str:
    """What differs from the others, from shortly before the first difference on."""
    text, other = ", ".join(these) or "nothing", ", ".join(others)
    if len(text) <= SHOWN_CHARACTERS:
        return text
    same = next((place for place, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, same - SHOWN_CHARACTERS // 2)
    return f"{'…' if start else ''}{text[start : start + SHOWN_CHARACTERS]}…"


def _source(node: Node) -> str:
    """Its format; where it reads from may change."""
    return _FORMAT.split(node.text, maxsplit=1)[0]


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────
def _operators(root: Node, columns: Columns) -> tuple[StatefulOperator, ...]:
    """By the numbers that Spark gives them."""
    found = sorted((node for node in root.walk() if node.name in _READERS), key=_number)
    return tuple(_READERS[node.name](node, columns) for node in found)


def _with_zone(operator: StatefulOperator, time_zone: str) -> StatefulOperator:
    if not time_zone or not any(_ZONED.search(text) for held in operator.holds.values() for text in held):
        return operator
    return StatefulOperator(operator.kind, {**operator.holds, "time zone of the session": (time_zone,)})


def _number(stateful: Node) -> int:
    match = _OPERATOR.search(stateful.text)
    return int(match[1]) if match else 0


def _aggregation(node: Node, columns: Columns) -> StatefulOperator:
    first = next((each for each in node.walk() if each.name.endswith("Aggregate") and _is_partial(each)), None)
    kind = "session aggregation" if node.name.startswith("Session") else "aggregation"
    if first is None:
        return StatefulOperator(kind, {})
    given = arguments(first.text)
    keys = parts(given.get("keys", "[]")[1:-1])
    functions = [each.removeprefix(_PARTIAL) for each in columns.origins(parts(given.get("functions", "[]")[1:-1]))]
    holds = {"aggregate functions": tuple(functions)}
    stored = next(iter(node.lists()), [])
    if len(keys) >= len(stored) and not any(map(columns.is_literal, keys)):  # else one of them may be the current time
        holds = {"grouping keys": tuple(columns.origins(keys)), **holds}
    return StatefulOperator(kind, holds)


def _is_partial(aggregate: Node) -> bool:
    """Whether it is the first step of an aggregation: of rows, not of what is in the state."""
    return not any(each.startswith(_MERGE) for each in parts(arguments(aggregate.text).get("functions", "[]")[1:-1]))


def _join(node: Node, columns: Columns) -> StatefulOperator:
    left, right = (*node.lists(), [], [])[:2]
    kind = next((each for each in parts(node.text) if each in _JOIN_TYPES), "")
    condition = next((each for each in parts(node.text) if each.startswith("condition = ")), "")
    whole = next((each for each in parts(_inside(condition)) if each.startswith("full = ")), "")
    holds = {
        "join type": (kind,),
        "join keys": tuple(f"{a} = {b}" for a, b in zip(columns.origins(left), columns.origins(right), strict=False)),
        "join condition": (columns.origin(whole.removeprefix("full = ")),),
    }
    for side, child in zip(("left", "right"), node.children, strict=False):
        kept = outputs(child)
        if kept is not None:
            holds[f"columns kept of the {side} side"] = tuple(columns.origins(kept))
    return StatefulOperator("join", holds)


def _keyed(kind: str, rule: str) -> Callable[[Node, Columns], StatefulOperator]:
    def read(node: Node, columns: Columns) -> StatefulOperator:
        lists = node.lists()
        return StatefulOperator(kind, {rule: tuple(columns.origins(lists[0] if lists else []))})

    return read


def _limit(node: Node, columns: Columns) -> StatefulOperator:
    return StatefulOperator("limit", {})


def _inside(text: str) -> str:
    """Of the brackets around the end of a text."""
    return text[text.find("[") + 1 : text.rfind("]")]


_JOIN_TYPES = ("Inner", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi")
_READERS: Mapping[str, Callable[[Node, Columns], StatefulOperator]] = {
    "StateStoreSave": _aggregation,
    "SessionWindowStateStoreSave": _aggregation,
    "StreamingSymmetricHashJoin": _join,
    "StreamingDeduplicate": _keyed("deduplication", "deduplication keys"),
    "StreamingDeduplicateWithinWatermark": _keyed("deduplication within the watermark", "deduplication keys"),
    "StreamingGlobalLimit": _limit,
    "TransformWithStateInPySpark": _keyed("transformWithState", "grouping keys"),
    "FlatMapGroupsInPandasWithState": _keyed("applyInPandasWithState", "grouping keys"),
}
