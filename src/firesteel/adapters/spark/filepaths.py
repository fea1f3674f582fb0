"""Paths as Spark reads them: absolute, with patterns, with partition directories below a root."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from firesteel.adapters.spark.refusals import UserError

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_SPECIAL = "\\*?[]{}"


def absolute(path: str, base: Path) -> str:
    """A path without scheme, from `base` on: else it would begin where the JVM was started."""
    if _SCHEME.match(path):
        return path
    return os.path.normpath(base / os.path.expanduser(path))


def escaped(path: str) -> str:
    """`path` as a pattern that only itself matches."""
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in path)


def partition_roots(path: str, files: Sequence[str]) -> list[tuple[str, list[str]]]:
    """`files` by the directory that `path` means, from which on Spark looks for partition directories.

    The root is empty where there are none. A pattern means a directory for each match, and a match has as many steps
    as the pattern. Raises UserError for a pattern whose alternatives have several steps.
    """
    if re.search(r"\{[^}]*/[^}]*\}", path):
        raise UserError(f"the path {path} has a / in an alternative {{...}}: give a directory or a simpler pattern")
    depth = len(_steps(path))
    grouped: dict[str, list[str]] = {}
    for file in files:
        steps = _steps(file)
        is_partitioned = any("=" in step for step in steps[depth:-1])
        root = file[: _end_of_step(file, depth)] if is_partitioned else ""
        grouped.setdefault(root, []).append(file)
    return list(grouped.items())


def _plain(path: str) -> str:
    """Without scheme and authority."""
    match = _SCHEME.match(path)
    rest = path[match.end() :] if match else path
    return re.sub(r"^//[^/]*", "", rest)


def _steps(path: str) -> list[str]:
    return [step for step in _plain(path).split("/") if step]


def _end_of_step(path: str, count: int) -> int:
    """Where step number `count` of `path` ends."""
    position = len(path) - len(_plain(path))
    for _ in range(count):
        while path[position] == "/":
            position += 1
        end = path.find("/", position)
        position = len(path) if end < 0 else end
    return position
