"""The text of a physical plan, as `explain` prints it: its nodes, and what its columns are made of. Pure.

Spark numbers columns anew for each plan, and a projection gives any name to anything. So a column is written as what it is
made of, down to the columns of the sources, which have names only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_TREE = re.compile(r"(?:[: ] {2})*(?:[:+]- )?")
_MARKS = re.compile(r"^(?:\*\(\d+\) |!)")
"""Before a name: that code was generated for it, or that columns are missing below it."""
_NUMBER = re.compile(r"#(\d+)L?(?:-T\d+ms)?")
_COLUMN = re.compile(r"(?P<name>[^(]+?)#(?P<id>\d+)L?(?:-T\d+ms)?")
_NAMED = re.compile(r"(?P<made>.*) AS (?P<name>.+?)#(?P<id>\d+)L?(?:-T\d+ms)?", re.DOTALL)
_WINDOW = re.compile(
    r"named_struct\(start, .*?precisetimestampconversion\(\(\(precisetimestampconversion\((?P<column>.+?), TimestampType, LongType\)"
    r" - CASE WHEN .*? - (?P<offset>\d+)\) % (?P<slide>\d+)\) < 0\).* \+ (?P<width>\d+)\), LongType, TimestampType\)\)\)",
    re.DOTALL,
)
_SESSION = re.compile(
    r"named_struct\(start, precisetimestampconversion\(precisetimestampconversion\((?P<column>.+?), TimestampType, LongType\)"
    r".*precisetimestampconversion\((?P=column) \+ (?P<gap>.+?), TimestampType, LongType\), LongType, TimestampType\)\)\)",
    re.DOTALL,
)
_IDENTITY = re.compile(r"@[0-9a-f]{4,8}\b")
"""What Java prints of an object without a text of its own: another one in each JVM."""
_SEED = re.compile(r"(\brandn?\(|\brandstr\(\d+, |\buuid\(Some\(|, Some\()-?\d+(?=[,)])")
"""Of rand, randn and uniform, randstr, uuid, shuffle. Where none was given, it is another one with each submission."""
_GENERATE = re.compile(
    r"(?P<made>.*?)(?:, \[(?P<kept>[^\[\]]*)\])?, (?P<outer>true|false), \[(?P<columns>[^\[\]]*)\]", re.DOTALL
)
_OPENING, _CLOSING = "([{", ")]}"
EXPANSIONS_MAX = 20_000
"""Characters of what one column is made of; of a longer one the rest is left out."""


@dataclass(slots=True)
class Node:
    """An operator of the plan."""

    name: str
    text: str
    """What stands behind its name."""
    children: list["Node"] = field(default_factory=list)

    def walk(self) -> Iterator["Node"]:
        """This one, then all below, the first child's first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def lists(self) -> list[list[str]]:
        """The lists in brackets that its arguments are, each part by part."""
        return [parts(each[1:-1]) for each in parts(self.text) if each.startswith("[") and each.endswith("]")]


def parsed(explained: str) -> Node | None:
    """The root of the physical plan; None where there is none."""
    _, found, plan = _SEED.sub(r"\1", _IDENTITY.sub("", explained)).rpartition("== Physical Plan ==\n")
    path: list[Node] = []
    for line in plan.splitlines() if found else ():
        if not line.strip():
            break
        tree = _TREE.match(line)
        assert tree is not None, "it matches nothing, too"
        depth = len(tree[0]) // 3
        if path and (depth == 0 or depth > len(path)):  # the text of a literal goes on
            path[-1].text += f"\n{line}"
            continue
        name, _, text = _MARKS.sub("", line[tree.end() :]).partition(" ")
        name, opened, more = name.partition("(")
        node = Node(name, f"{opened}{more} {text}".strip() if opened else text)
        del path[depth:]
        if path:
            path[-1].children.append(node)
        path.append(node)
    return path[0] if path else None


def parts(text: str) -> list[str]:
    """Parted by the commas that are in no brackets."""
    found, depth, start = [], 0, 0
    for place, mark in enumerate(text):
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
        elif mark == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*found, last] if last or found else []


class Columns:
    """What the columns of a plan are made of."""

    def __init__(self, root: Node) -> None:
        self._made: dict[str, tuple[str, str]] = {}
        """Name and expression, by the number."""
        self._others: dict[str, list[str]] = {}
        """Of columns of a union, which have the numbers of its first child's: what they are of its other children."""
        self._origins: dict[str, str | None] = {}
        """Of those, as far as they were asked for; None while one is written out."""
        for node in root.walk():
            for name, number, made in _definitions(node):
                self._made.setdefault(number, (name, made))
        for node in root.walk():
            if node.name == "Union":
                self._unite([outputs(child) for child in node.children])

    def _unite(self, children: Sequence[Sequence[str] | None]) -> None:
        """Note what the columns of a union are, where its children's texts tell."""
        first, *others = (each or () for each in children)
        for column, *same in zip(first, *others, strict=False):
            match = _NAMED.fullmatch(column) or _COLUMN.fullmatch(column)
            if match:
                self._made.setdefault(match["id"], (match["name"], column))
                self._others.setdefault(match["id"], []).extend(map(without_alias, same))

    def origin(self, expression: str) -> str:
        """The expression in terms of the sources' columns."""
        written, start = [], 0
        for match in _NUMBER.finditer(expression):
            before, number = expression[start : match.start()], match[1]
            name = self._made.get(number, ("", ""))[0]
            if name and before.endswith(name) and (made := self._origin_of(number)) is not None:
                before = before[: -len(name)] + made
            written.append(before)
            start = match.end()
        return _with_windows("".join(written) + expression[start:])[:EXPANSIONS_MAX]

    def _origin_of(self, number: str) -> str | None:
        """Of a column, once however many name it; None for one that is named in what it is made of."""
        if number not in self._origins:
            self._origins[number] = None
            made = [self._made[number][1], *self._others.get(number, ())]
            self._origins[number] = " | ".join(dict.fromkeys(map(self.origin, made)))
        return self._origins[number]

    def origins(self, expressions: Sequence[str]) -> list[str]:
        return [self.origin(without_alias(each)) for each in expressions]

    def is_literal(self, expression: str) -> bool:
        """Whether it is one, perhaps by the name of a column. Not told of those with a bracket in them."""
        expression = without_alias(expression)
        column = _COLUMN.fullmatch(expression)
        if column and column["id"] in self._others:
            return False
        if column and self._made.get(column["id"], ("", ""))[0] == column["name"]:
            made = self._made[column["id"]][1]
            return made != expression and self.is_literal(made)
        return "(" not in expression and not _NUMBER.search(expression)


def without_alias(expression: str) -> str:
    """The expression, without the name that it gets."""
    match = _NAMED.fullmatch(expression)
    return match["made"] if match else expression


def _with_windows(expression: str) -> str:
    """The expression, if it is a window of time as Spark writes it out, by column, width, slide and offset."""
    if session := _SESSION.fullmatch(expression):
        return f"session_window({session['column']}, {session['gap']})"
    windows = {_window(each) for each in expression.split(" | ")}
    return windows.pop() if len(windows) == 1 and "" not in windows else expression


def _window(expression: str) -> str:
    """Empty for what is none."""
    found = _WINDOW.fullmatch(expression)
    if found is None:
        return ""
    return f"window({found['column']}, {', '.join(_time(found[name]) for name in ('width', 'slide', 'offset'))})"


def _time(microseconds: str) -> str:
    return f"{int(microseconds) / 1_000_000:g} s"


def _definitions(node: Node) -> Iterator[tuple[str, str, str]]:
    """Name, number and expression of each column that an operator makes."""
    lists = node.lists()
    for expression in (each for group in lists for each in group):
        if match := _NAMED.fullmatch(expression):
            yield match["name"], match["id"], match["made"]
    if node.name == "Expand" and len(lists) == 2:
        rows = [parts(row[1:-1]) for row in lists[0]]
        for place, column in enumerate(lists[1]):
            yield from _defined(column, " | ".join(dict.fromkeys(row[place] for row in rows if place < len(row))))
    if node.name in ("BatchEvalPython", "ArrowEvalPython") and len(lists) >= 2:
        for column, made in zip(lists[1], lists[0], strict=False):
            yield from _defined(column, made)
    if node.name == "Generate" and (generated := _GENERATE.fullmatch(node.text)):
        made = generated["made"] + (" outer" if generated["outer"] == "true" else "")
        columns = parts(generated["columns"])
        for place, column in enumerate(columns):
            yield from _defined(column, f"{made}[{place}]" if len(columns) > 1 else made)


def outputs(node: Node) -> list[str] | None:
    """The columns of an operator's rows, in their order; None where its text does not tell."""
    while node.name not in ("Project", "StreamingRelation", "Generate"):
        if node.name not in _PASSING or not node.children:
            return None
        node = node.children[0]
    if node.name == "Generate":
        generated = _GENERATE.fullmatch(node.text)
        return parts(f"{generated['kept'] or ''},{generated['columns']}".strip(",")) if generated else None
    lists = node.lists()
    return lists[-1] if lists else None


_PASSING = ("Exchange", "Sort", "Filter", "EventTimeWatermark", "UpdateEventTimeColumn", "Union")
"""Operators whose rows are those that they get, or have the columns of their first child."""


def _defined(column: str, made: str) -> Iterator[tuple[str, str, str]]:
    match = _NUMBER.search(column)
    if match and column != made:
        yield column[: match.start()], match[1], made


def arguments(text: str) -> Mapping[str, str]:
    """`keys=[...], functions=[...]`, by name."""
    inner = text[1 : text.rindex(")")] if text.startswith("(") and ")" in text else text
    pairs = (each.partition("=") for each in parts(inner))
    return {name.strip(): value.strip() for name, found, value in pairs if found}
