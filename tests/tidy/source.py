"""The project's files as the tidy tests see them."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "firesteel"
CODE_FOLDERS = ("src", "tools", "benchmarks", "examples", "tests")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[Path]:
    """All Python files under these folders (of the project's root), sorted."""
    return sorted(
        file for folder in folders for file in (ROOT / folder).rglob("*.py") if "__pycache__" not in file.parts
    )


def tracked_files() -> list[Path]:
    """What a clone holds, by git's own list; those that are being deleted are left out."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


def relative(path: Path) -> str:
    """The path as people write it."""
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    """The file's syntax tree."""
    return ast.parse(path.read_text(), filename=str(path))


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Each function with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield prefix + node.name, node
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def dotted(node: ast.AST) -> str:
    """`a.b.c` for such an expression, else the empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""
