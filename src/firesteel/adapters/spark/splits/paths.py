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


def partition_root(path: str, files: Sequence[str]) -> str:
    """The directory from which on Spark looks for partition directories of `files`; empty when there are none.

    It is what `path` means: a pattern means each of its matches, which have as many steps as it has, and Spark refuses
    partition directories below several of them. Raises UserError for a pattern whose alternatives have several steps.
    """
    if re.search(r"\{[^}]*/[^}]*\}", path):
        raise UserError(f"the path {path} has a / in an alternative {{...}}: give a directory or a simpler pattern")
    depth = len(_steps(path))
    partitioned = (file for file in files if any("=" in step for step in _steps(file)[depth:-1]))
    return next((file[: _end_of_step(file, depth)] for file in partitioned), "")


def _plain(path: str) -> str:
    """The path without scheme and authority."""
    match = _SCHEME.match(path)
    rest = path[match.end() :] if match else path
    return re.sub(r"^//[^/]*", "", rest)


def _steps(path: str) -> list[str]:
    return [step for step in _plain(path).split("/") if step]


def _end_of_step(path: str, count: int) -> int:
    """Position at which step number `count` of `path` ends."""
    position = len(path) - len(_plain(path))
    for _ in range(count):
        while path[position] == "/":
            position += 1
        end = path.find("/", position)
        position = len(path) if end < 0 else end
    return position
