"""A judgement of Spark's planner: whether a physical plan of marked inputs works partition by partition.

Read from EXPLAIN FORMATTED, whose tree has names of operators and numbers only: no text of a user's can be taken for one.
"""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum

_LINE = re.compile(r"(?P<indent>[ :+-]*)(?:\* )?(?P<name>[A-Za-z].*?) \((?P<number>\d+)\)")
_ATTRIBUTE = re.compile(r"#\d+L?")
_SEED = re.compile(r"-?\d+")
_RANDOM = re.compile(r"\b(rand|randn|uuid|shuffle|uniform|randstr|random)\(", re.IGNORECASE)
_OF_PLACE = re.compile(
    r"\b(monotonically_increasing_id|spark_partition_id|distributed_sequence_id|distributed_id)\(\)(?!#\d)",
    re.IGNORECASE,
)
_OF_FILE = re.compile(r"\b(input_file_name|input_file_block_start|input_file_block_length)\(\)(?!#\d)", re.IGNORECASE)
_SAMPLE = re.compile(r"\) Sample[^\n]*\n(?:[^\n]+\n)*?Arguments: [^\n]*, (-?\d+)(?:\n|$)")
_KEYS = re.compile(r"^Keys \[\d+\]: ", re.MULTILINE)
_SUBQUERY = re.compile(r"^Subquery:\d+ Hosting ", re.MULTILINE)
_BROADCAST_OF = {
    "BuildRight": ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "LeftSingle", "ExistenceJoin"),
    "BuildLeft": ("Inner", "Cross", "RightOuter"),
}
"""Joins that are right when each share meets the whole other side."""
_OF_GROUPING_SETS, _OF_DISTINCTS = ", spark_grouping_id", ", gid"
"""The last key by which Spark groups rows that it has multiplied for several groupings, or for several distinct aggregates."""
_SESSIONS = ("MergingSessions", "UpdatingSessions")
_FOR_ANOTHER = ("Sort", *_SESSIONS)
"""What is there for the operator above it."""
_BY_PARTITION = frozenset(
    [
        *("Project", "Filter", "Sort", "Expand", "Generate", "Sample"),
        *("HashAggregate", "SortAggregate", "ObjectHashAggregate", "ArrowAggregatePython", "AggregateInPandas"),
        *("SortMergeJoin", "ShuffledHashJoin", "Union"),
        *("Window", "WindowGroupLimit", "WindowInPandas", "ArrowWindowPython"),
        *_SESSIONS,
        *("BatchEvalPython", "ArrowEvalPython"),
        *("FlatMapGroupsInPandas", "FlatMapGroupsInArrow", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"),
    ]
)
"""Operators that need nothing but their partition, given that the planner has put no exchange below them."""


class Rows(Enum):
    """The part that a subtask has of an operator's rows."""

    SHARE = "a share"
    WHOLE = "all"
    BROADCAST = "all, for a join"
    NONE = "none"


@dataclass(slots=True)
class Operator:
    """One of a physical plan."""

    name: str
    number: int
    children: list["Operator"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Judgement:
    rows: Rows
    problems: tuple[str, ...]
    """Operators that need more than a share, by the user's name. Empty: each share gives its part of the whole."""
    marks: int
    """Marked inputs in the plan: fewer than were put into it when Spark sees that one gives no row."""
    only_layout: bool
    """Whether all problems are rows that Spark lays out anew by keys."""

    def reviewed(self, second: "Judgement") -> "Judgement":
        """What counts, when a plan of neutral keys was judged too. It names a problem better, and does away with those of
        layout; but it is not the user's plan, so that nothing else may differ."""
        is_same = second.rows is self.rows and second.marks == self.marks
        is_better = len(second.problems) < len(self.problems)
        return second if is_same and is_better and (second.problems or self.only_layout) else self


def judge(explained: str, *, given: Set[int] = frozenset(), files_are_the_users: bool = False) -> Judgement:
    """Judge a text of EXPLAIN FORMATTED. `given`: seeds that the user has given. `files_are_the_users`: what is read are the
    files of a source, not our own."""
    tree, _, rest = explained.partition("\n\n")
    root = _parsed(tree.splitlines()[1:])
    described, *subqueries = _SUBQUERY.split(rest)
    reading = _Reading(_sections(described, root))
    rows = reading.rows_of(root, [])
    seen = [*(reading.sections.get(number, "") for number in reading.seen), *subqueries]
    whole = [*(reading.sections.get(number, "") for number in reading.whole), *subqueries]
    problems = [*reading.problems, *_subquery_problems(subqueries)]
    problems += _nondeterminism("\n".join(seen), "\n".join(whole), given, files_are_the_users)
    return Judgement(
        rows, tuple(dict.fromkeys(problems)), reading.marks, only_layout=len(problems) == reading.laid_out_anew
    )


def _parsed(lines: Sequence[str]) -> Operator:
    """The tree. Raises ValueError for what is none."""
    path: list[tuple[int, Operator]] = []
    root: Operator | None = None
    for line in lines:
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise ValueError(f"not a line of a physical plan: {line!r}")
        depth, operator = len(match["indent"]), Operator(match["name"].strip(), int(match["number"]))
        while path and path[-1][0] >= depth:
            path.pop()
        if path:
            path[-1][1].children.append(operator)
        root = root or operator
        path.append((depth, operator))
    if root is None:
        raise ValueError("no physical plan")
    return root


def _sections(text: str, root: Operator) -> dict[int, str]:
    """Texts about each operator, by number. Numbers ascend, so text that looks like a heading is passed over."""
    names = {operator.number: operator.name for operator in _all(root)}
    found: dict[int, str] = {}
    start = 0
    for number in sorted(names):
        heading = f"({number}) {names[number].split()[0]}"
        at = text.find(heading, start)
        if at < 0:
            continue
        following = text.find(f"\n\n({number + 1}) ", at)
        end = len(text) if following < 0 else following
        found[number], start = text[at:end], end
    return found


def _all(operator: Operator) -> Iterator[Operator]:
    yield operator
    for child in operator.children:
        yield from _all(child)


class _Reading:
    """Goes through a tree from its root, down to the marked inputs."""

    def __init__(self, sections: dict[int, str]) -> None:
        self.sections = sections
        self.problems: list[str] = []
        self.laid_out_anew = 0
        """Those of the problems that are rows laid out anew by keys."""
        self.marks = 0
        self.seen: list[int] = []
        """Operators above the marks ..."""
        self.whole: list[int] = []
        """... and those of them that every subtask runs on the same rows."""

    def rows_of(self, operator: Operator, above: list[Operator]) -> Rows:
        """`above`: its parents, nearest first."""
        if operator.name == "CollectMetrics":
            self.marks += 1
            return Rows.SHARE
        below = [self.rows_of(child, [operator, *above]) for child in operator.children]
        rows = self._combined(operator, below, above)
        self.seen.append(operator.number)
        if rows in (Rows.WHOLE, Rows.BROADCAST):
            self.whole.append(operator.number)
        return rows

    def _combined(self, operator: Operator, below: list[Rows], above: list[Operator]) -> Rows:
        if not below:
            return Rows.NONE if "Arguments: <empty>" in self.sections.get(operator.number, "") else Rows.WHOLE
        if operator.name == "BroadcastExchange":
            if below[0] is Rows.SHARE:
                self.problems.append(_named_join(above))
            return Rows.BROADCAST
        present = [rows for rows in below if rows is not Rows.NONE]
        if Rows.SHARE not in present:
            return Rows.WHOLE if present or self._is_of_nothing(operator) else Rows.NONE
        match operator.name.split():
            case ["BroadcastHashJoin" | "BroadcastNestedLoopJoin", kind, build]:
                self._check_broadcast(kind.partition("(")[0], build, below)
            case [name, *_] if name in _BY_PARTITION:
                self._check_alike(operator, present)
            case _:
                self.problems.append(self._named(operator, above))
                self.laid_out_anew += "hashpartitioning(" in self.sections.get(operator.number, "")
        return Rows.SHARE

    def _is_of_nothing(self, operator: Operator) -> bool:
        """Whether an operator makes a row of no rows: an aggregate without keys."""
        return "Aggregate" in operator.name and not _KEYS.search(self.sections.get(operator.number, ""))

    def _check_broadcast(self, kind: str, build: str, below: list[Rows]) -> None:
        if Rows.BROADCAST in below and kind not in _BROADCAST_OF.get(build, ()):
            side = "right" if build == "BuildRight" else "left"
            self.problems.append(f"a {_spaced(kind)} join whose {side} side every subtask has whole")

    def _check_alike(self, operator: Operator, present: Sequence[Rows]) -> None:
        if all(rows is Rows.SHARE for rows in present):
            return
        if operator.name.startswith("Union"):
            self.problems.append("a set operation with rows that every subtask has whole")
        else:
            side = "left" if present[0] is not Rows.SHARE else "right"
            self.problems.append(f"{_named_join([operator])} whose {side} side every subtask has whole")

    def _named(self, operator: Operator, above: list[Operator]) -> str:
        """The user's name of an operator that needs more than a share: mostly an exchange, for the one above it."""
        said = self.sections.get(operator.number, "")
        partitioned = re.search(r"hashpartitioning\((.*), \d+\)", said)
        keys = _ATTRIBUTE.sub("", partitioned[1]) if partitioned else ""
        needing = next((each for each in above if each.name.split()[0] not in _FOR_ANOTHER), None)
        match operator.name.split()[0]:
            case "CollectLimit" | "GlobalLimit" | "LocalLimit" | "CollectTail":
                return "limit"
            case "TakeOrderedAndProject":
                return "orderBy with a limit"
            case "BatchEvalPythonUDTF" | "ArrowEvalPythonUDTF":
                return "a table function in Python, which sees partitions end,"
            case "CartesianProduct":
                return "a join that does not say that columns of both sides are equal"
            case "Exchange" if "rangepartitioning(" in said:
                return "orderBy"
            case "Exchange":
                return self._needed(needing, keys, above)
            case other:
                return other

    def _needed(self, needing: Operator | None, keys: str, above: list[Operator]) -> str:
        """The user's name for what has an exchange below it, of these keys."""
        needs = needing.name.split()[0] if needing is not None else ""
        if needing is not None and "Aggregate" in needs:
            if keys.endswith((_OF_GROUPING_SETS, _OF_DISTINCTS)) and any(
                each.name == "Expand" for each in _all(needing)
            ):
                several = "a groupBy with several distinct aggregates"
                return several if keys.endswith(_OF_DISTINCTS) else f"rollup, cube or grouping sets ({keys})"
            said = self.sections.get(needing.number, "")
            functions = re.search(r"^Functions(?: \[\d+\])?: \[(.*)\]$", said, re.MULTILINE)
            if functions is not None and not functions[1]:
                return f"distinct({keys})"
            firsts = functions is not None and re.fullmatch(r"(first\(.*?, false\)(, )?)+", functions[1])
            return f"dropDuplicates({keys})" if firsts else f"groupBy({keys})" if keys else "groupBy() of everything"
        if "Limit" in needs and needs != "WindowGroupLimit":
            return "limit"
        if "Window" in needs:
            return f"a window partitioned by {keys or 'nothing'}"
        if "Join" in needs:
            return f"{_named_join(above)} on {keys or 'nothing'}"
        if needs.startswith("FlatMapCoGroups"):
            return f"cogroup({keys})"
        if needs.startswith("FlatMapGroups"):
            return f"groupBy({keys}) with a function over groups"
        return f"rows distributed by {keys}" if keys else "rows in one partition"


_KEYED = re.compile(
    r"(distinct|dropDuplicates|groupBy|cogroup)\(.+\)|a window partitioned by |rows distributed by |.* join\b"
)
_UNKEYED = re.compile(r"cross join|(on|by) nothing$|that does not say that columns of both sides are equal$")


def has_columns(problem: str) -> bool:
    """Whether an operator that needs more than a share, by the user's name, works on rows that are equal in some columns: a
    share by those would do."""
    return _KEYED.match(problem) is not None and _UNKEYED.search(problem) is None


def _named_join(above: list[Operator]) -> str:
    """The nearest join."""
    for operator in above:
        parts = operator.name.split()
        if "Join" in parts[0] and len(parts) > 1:
            kind = _spaced(parts[1])
            return f"an {kind} join" if kind == "inner" else f"a {kind} join"
    return "a join"


def _spaced(kind: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()


def _subquery_problems(subqueries: Sequence[str]) -> Iterator[str]:
    """A subquery is worked out from all rows of what it reads, so it may not read a share."""
    for text in subqueries:
        tree = text.partition("\n\n")[0]
        if any(line.lstrip(" :+-*").startswith("CollectMetrics (") for line in tree.splitlines()):
            yield "a subquery over shares"


def seeds_in(explained: str) -> set[int]:
    """Seeds of all its random functions and samples: of those that nobody has given Spark draws others the next time."""
    return {seed for _, seed in _seeded(explained)}


def _nondeterminism(text: str, whole: str, given: Set[int], files_are_the_users: bool) -> Iterator[str]:
    for match in _OF_PLACE.finditer(text):
        yield f"{match[1].lower()}()"
    for match in () if files_are_the_users else _OF_FILE.finditer(text):
        yield f"{match[1].lower()}()"
    for what, seed in _seeded(text):
        if seed in given:
            yield f"{what} with a seed"
    if any(_seeded(whole)):
        yield "a random value on rows that every subtask has whole"


def _seeded(text: str) -> Iterator[tuple[str, int]]:
    """Each random function and sample, with its seed. Columns that are called like one have a number behind them, and those
    that Spark has named by what they are worked out from have no seed: a plan has one in every call."""
    for seed in _SAMPLE.findall(text):
        yield "a sample", int(seed)
    for match in _RANDOM.finditer(text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if _ATTRIBUTE.match(text, end):
            continue
        seeds = _SEED.findall(text[match.end() : end])
        if seeds:
            yield f"{match[1].lower()}()", int(seeds[-1])
