"""What a pipeline of this process needs of the user's own modules travels with it, and nothing else."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.pipeline.ownmodules import is_own_module, own_modules

PROGRAM = """
import json
import numpy
import pyspark
import firesteel
from mine_flat import shout
from mine_package.inner import LIMIT
from mine_nothing import *

def first(lines):
    from mine_late import late
    return [shout(late(line)) for line in lines[:LIMIT]]

def second(lines):
    return lines
"""
FILES = {
    "mine_program.py": PROGRAM,
    "mine_flat.py": "import mine_shared, mine_gone_long_ago\ndef shout(text): return text.upper()\n",
    "mine_shared.py": "import mine_flat, mine_spaces.deep.leaf\n",
    "mine_late.py": "def late(text):\n    from mine_package import other\n    return other.kept(text)\n",
    "mine_package/__init__.py": "raise RuntimeError('nobody imports this to find what it needs')\n",
    "mine_package/inner.py": "from . import sibling\nfrom .sibling import WORD\nLIMIT = 3\n",
    "mine_package/sibling.py": "WORD = 1\n",
    "mine_package/other.py": "from .. import beyond\ndef kept(text): return text\n",
    "mine_package/unused.py": "",
    "mine_spaces/deep/leaf.py": "def broken(:\n",
    "mine_nothing.py": "",
    "mine_unused.py": "",
    "site-packages/mine_installed.py": "",
}

DECORATORS = """
import functools

def timed(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

def silent(function):
    def wrapper(*args):
        return function(*args), unset
    return wrapper
    unset = None
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("mine_")]:
        del sys.modules[name]


def functions_of(name: str, source: str) -> dict[str, object]:
    """Globals of a module that imports nothing while it is made: its imports are found in its code alone."""
    found: dict[str, object] = {"__name__": name}
    exec(compile(source, name, "exec"), found)
    return found


def test_what_functions_import_is_found_without_an_import(program: Path) -> None:
    """In function bodies too, by relative names, through packages and namespaces, in circles; broken files as they are."""
    source = (
        "def work():\n    import mine_flat, json\n    def inner():\n        from mine_package import inner, nothing\n"
    )
    before = set(sys.modules)
    found = own_modules([functions_of("__main__", source)["work"]])  # type: ignore[list-item]
    assert {file.name: file.path for file in found} == {
        name: program / name
        for name in (
            "mine_flat.py", "mine_shared.py", "mine_spaces/deep/leaf.py",
            "mine_package/__init__.py", "mine_package/inner.py", "mine_package/sibling.py",
        )
    }  # fmt: skip
    assert not {name for name in set(sys.modules) - before if name.startswith("mine_")}


def test_a_module_of_functions_travels_with_what_it_imports(program: Path) -> None:
    (program / "mine_package" / "__init__.py").write_text("")
    (program / "mine_flat.py").write_text("import mine_shared\ndef shout(text): return text.upper()\n")
    (program / "mine_spaces" / "deep" / "leaf.py").write_text("")
    module = importlib.import_module("mine_program")
    found = {file.name for file in own_modules([module.second])}
    assert found == {name for name in FILES if "unused" not in name and "installed" not in name}


def test_what_is_behind_a_decorator_is_found_too(program: Path) -> None:
    """By what it says it wraps, and by its closure, where it doesn't say it or one variable is not set yet."""
    (program / "mine_deco.py").write_text(DECORATORS)
    deco = importlib.import_module("mine_deco")
    source = "import mine_shared\ndef work():\n    return mine_shared, late\ndef late():\n    import mine_nothing\n"
    (program / "mine_shared.py").write_text("")
    work = functions_of("__main__", source)["work"]
    for decorator in (deco.timed, deco.silent, lambda function: deco.timed(deco.silent(function))):
        assert {file.name for file in own_modules([decorator(work)])} == {"mine_deco.py", "mine_shared.py"}
    late = functions_of("__main__", source)["late"]
    assert "mine_nothing.py" in {file.name for file in own_modules([deco.timed(late)])}


def test_what_is_installed_is_nobody_s_own(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(program / "site-packages")
    assert is_own_module("mine_flat")
    others = (
        "mine_installed",
        "json",
        "sys",
        "numpy",
        "firesteel",
        "pyspark",
        "__main__",
        "mine_spaces",
        "no.such",
        "",
    )
    assert [name for name in others if is_own_module(name)] == []
