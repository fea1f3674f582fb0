"""Tasks have an owner, and errors reach somebody."""

import ast
from pathlib import Path

from tests.tidy.source import dotted, parsed, python_files, relative

BROAD_EXCEPT_ALLOWED = {
    "src/firesteel/runtime/endpoint.py": "a mailbox: a bug ends this endpoint, reported, and never the process",
}
"""Files in which `except Exception` may stand, each with the reason."""

ORPHAN_MAKERS = ("asyncio.create_task", "asyncio.ensure_future", "loop.create_task", "get_running_loop().create_task")


def catches_all(handler: ast.ExceptHandler) -> bool:
    """`except:`, `except Exception`, `except BaseException`, alone or in a tuple; re-raising ones are fine."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(kind is None or dotted(kind) in ("Exception", "BaseException") for kind in types)
    last = handler.body[-1]
    return broad and not (isinstance(last, ast.Raise) and last.exc is None)


def makes_orphan(node: ast.Call) -> bool:
    """Starts a task outside any task group."""
    name = dotted(node.func)
    if not name and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        name = f"{dotted(node.func.value.func).split('.')[-1]}().{node.func.attr}"
    return any(name == maker or name.endswith("." + maker) for maker in ORPHAN_MAKERS)


def places(file: Path, *, of: str) -> list[str]:
    """`file:line` of each broad except, or of each orphaned task."""
    nodes = ast.walk(parsed(file))
    if of == "except":
        lines = [node.lineno for node in nodes if isinstance(node, ast.ExceptHandler) and catches_all(node)]
    else:
        lines = [node.lineno for node in nodes if isinstance(node, ast.Call) and makes_orphan(node)]
    return [f"{relative(file)}:{line}" for line in lines]


def test_broad_except_only_at_the_edges() -> None:
    files = [file for file in python_files("src") if relative(file) not in BROAD_EXCEPT_ALLOWED]
    found = [place for file in files for place in places(file, of="except")]
    assert not found, f"name what can go wrong, or add the file with its reason to BROAD_EXCEPT_ALLOWED: {found}"


def test_allowance_is_used() -> None:
    """An allowance that nobody needs any more goes."""
    present = {relative(file): file for file in python_files("src")}
    idle = [name for name in BROAD_EXCEPT_ALLOWED if name in present and not places(present[name], of="except")]
    assert not idle, idle


def test_tasks_are_started_in_a_task_group() -> None:
    found = [place for file in python_files("src") for place in places(file, of="task")]
    assert not found, f"a task outside a task group is lost with its error: {found}"
