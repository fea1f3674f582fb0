"""Failures that were found, shrunk and kept: a seed and all that is to go wrong in it, in a file of TOML."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Regression:
    """A run that once failed."""

    level: str
    seed: int
    what: str
    """How it failed."""
    mishaps: tuple[str, ...]


def read(path: Path) -> Regression:
    content = tomllib.loads(path.read_text())
    return Regression(content["level"], content["seed"], content["what"], tuple(content["mishaps"]))


def write(path: Path, regression: Regression) -> None:
    names = "".join(f"    {json.dumps(name)},\n" for name in regression.mishaps)
    head = f"level = {json.dumps(regression.level)}\nseed = {regression.seed}\nwhat = {json.dumps(regression.what)}\n"
    path.write_text(f"{head}mishaps = [\n{names}]\n")
