"""Names say what a thing is for."""

import ast
import re

from tests.tidy.source import CODE_FOLDERS, parsed, python_files, relative

BANNED = re.compile(r"^(utils?|helpers?|misc|common|manager\d+)$|_(utils?|helpers?|misc)$")
BANNED_CLASS = re.compile(r"(Utils?|Helpers?|Manager\d+|Impl)$")


def test_no_module_is_named_after_nothing() -> None:
    found = {
        relative(file)
        for file in python_files(*CODE_FOLDERS)
        for part in (*file.relative_to(file.anchor).parts[:-1], file.stem)
        if BANNED.search(part) and part in (file.stem, file.parent.name)
    }
    assert not found, f"say what the module is for: {sorted(found)}"


def test_no_class_is_named_after_nothing() -> None:
    found = [
        f"{relative(file)}: {node.name}"
        for file in python_files("src")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ClassDef) and BANNED_CLASS.search(node.name)
    ]
    assert not found, f"say what the class is for: {found}"
