"""The core's order is part of its result, and its decisions name every case."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import dotted, functions, parsed, python_files, relative

CORE = "src/firesteel/core"
SET_TYPES = ("set", "frozenset", "Set", "AbstractSet", "MutableSet")
SET_METHODS = ("union", "intersection", "difference", "symmetric_difference")
ORDERED_FROM = ("list", "tuple", "enumerate", "iter", "next", "map", "filter", "zip", "dict.fromkeys", "reversed")
"""Calls whose result takes its order from their argument's."""


class SetNames:
    """Names of one file that hold sets, as far as annotations and plain assignments tell."""

    def __init__(self, tree: ast.AST) -> None:
        self.names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and is_set_type(node.annotation):
                self.names.add(dotted(node.target))
            elif isinstance(node, ast.arg) and node.annotation is not None and is_set_type(node.annotation):
                self.names.add(node.arg)
            elif isinstance(node, ast.Assign) and self.is_set(node.value):
                self.names.update(dotted(target) for target in node.targets)
        self.names.discard("")

    def is_set(self, node: ast.AST) -> bool:
        """Whether the expression is a set for sure."""
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in SET_METHODS:
                return self.is_set(owner)
            case ast.Call(func=func):
                return dotted(func) in ("set", "frozenset")
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
                return self.is_set(left) or self.is_set(right)
            case ast.Name() | ast.Attribute():
                return dotted(node) in self.names
            case _:
                return False


def is_set_type(annotation: ast.AST) -> bool:
    """`set[...]`, `frozenset[...]` and their abstract kin, also as one side of a union."""
    match annotation:
        case ast.Subscript(value=base):
            return dotted(base).split(".")[-1] in SET_TYPES
        case ast.BinOp(left=left, right=right):
            return is_set_type(left) or is_set_type(right)
        case _:
            return dotted(annotation).split(".")[-1] in SET_TYPES


def iterated(tree: ast.AST) -> Iterator[ast.expr]:
    """Every expression whose order becomes visible."""
    for node in ast.walk(tree):
        match node:
            case ast.For(iter=source) | ast.comprehension(iter=source) | ast.Starred(value=source):
                yield source
            case ast.Call(func=func, args=[*sources]) if dotted(func) in ORDERED_FROM:
                yield from sources


def unordered(file: Path) -> list[str]:
    """`file:line` of each iteration over a set."""
    tree = parsed(file)
    sets = SetNames(tree)
    unseen = order_free(tree)
    return [
        f"{relative(file)}:{source.lineno}"
        for source in iterated(tree)
        if sets.is_set(source) and id(source) not in unseen
    ]


def order_free(tree: ast.AST) -> set[int]:
    """Sources whose order can't be seen: a set built of them, or all, any, sum, sorted of them."""
    free: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.comprehension] = []
        if isinstance(node, ast.SetComp):
            parts = node.generators
        elif isinstance(node, ast.Call) and dotted(node.func) in ("all", "any", "frozenset", "set", "sorted", "sum"):
            parts = [part for inner in node.args if isinstance(inner, ast.GeneratorExp) for part in inner.generators]
        free.update(id(part.iter) for part in parts)
    return free


def test_no_iteration_over_sets() -> None:
    found = [place for file in python_files(CORE) for place in unordered(file)]
    assert not found, f"sort it, or keep a dict: {found}"


def test_the_check_sees_sets() -> None:
    """The check itself: what it must find and what it must let pass."""
    bad = ["for x in {1, 2}: pass", "[x for x in set(y)]", "s: set[int] = f()\nlist(s)", "s = {1} | z\ntuple(s)"]
    good = ["for x in sorted({1}): pass", "any(x for x in {1})", "{x for x in {1}}", "1 in {1}", "len({1})"]
    for text in bad + good:
        tree = ast.parse(text)
        sets, free = SetNames(tree), order_free(tree)
        seen = [source for source in iterated(tree) if sets.is_set(source) and id(source) not in free]
        assert bool(seen) == (text in bad), text


HAPPENINGS = ("event", "timer", "body", "envelope.body", "message", "record", "effect", "request")
"""What a match over events is written upon. Over a state, having nothing to do is the rule."""


def is_silent(case: ast.match_case, lines: list[str]) -> bool:
    """A last case that takes everything, does nothing, and has no comment that says why."""
    takes_all = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
    does_nothing = all(isinstance(statement, ast.Pass) for statement in case.body)
    return takes_all and does_nothing and "#" not in "".join(lines[case.pattern.lineno - 1 : case.body[-1].lineno])


def test_no_event_is_ignored_in_silence() -> None:
    """mypy refuses a `match` that leaves a case open; here: nor is one closed by `case _: pass`."""
    found = [
        f"{relative(file)}:{node.lineno}"
        for file in python_files(CORE)
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Match)
        and dotted(node.subject).removeprefix("self.") in HAPPENINGS
        and is_silent(node.cases[-1], file.read_text().splitlines())
    ]
    assert not found, f"end with assert_never, name the cases, or say why in a comment on `pass`: {found}"


def test_core_has_no_coroutines() -> None:
    found = [
        f"{relative(file)}: {name}"
        for file in python_files(CORE, "src/firesteel/model")
        for name, node in functions(parsed(file))
        if isinstance(node, ast.AsyncFunctionDef)
    ]
    assert not found, found


def test_nothing_is_found_by_its_address() -> None:
    """`id(each)` is another object's when `each` is gone: what is looked up by it is found or not as memory has it."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in python_files(CORE, "src/firesteel/testing")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and dotted(node.func) == "id"
    ]
    assert not found
