"""Pages lead somewhere, packages introduce themselves, generated pages are up to date."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.source import PACKAGE, ROOT, parsed, relative, tracked_files
from tools import commands_page, functions_page, metrics_page, options_page, states_page

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
README_LINES_MAX = 60
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PACKAGES = sorted(file.parent for file in PACKAGE.rglob("__init__.py") if file.parent != PACKAGE)

GENERATED = {
    page.PAGE: page.render() for page in (commands_page, functions_page, metrics_page, options_page, states_page)
}


@pytest.mark.parametrize("package", PACKAGES, ids=relative)
def test_package_introduces_itself(package: Path) -> None:
    """On a page of its own; or, a room of a package that has one, in its docstring and by name on that page."""
    readme, above = package / "README.md", package.parent / "README.md"
    if readme.exists():
        assert len(readme.read_text().splitlines()) <= README_LINES_MAX
        return
    assert above.exists(), "purpose, vocabulary, entry points, what it does not guarantee: on at most a page"
    assert f"`{package.name}/`" in above.read_text(), f"{relative(above)} does not name it"
    assert ast.get_docstring(parsed(package / "__init__.py")), "what may happen here, and what may not"


def test_relative_links_lead_somewhere() -> None:
    broken = []
    for page in (file for file in tracked_files() if file.suffix == ".md"):
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in LINK.findall(prose):
            path = target.split("#")[0]
            if path and "://" not in path and not (page.parent / path).exists():
                broken.append(f"{relative(page)}: {target}")
    assert not broken, broken


def test_the_walk_through_the_code_names_what_is_there() -> None:
    """Of the event that ARCHITECTURE follows each step says a file and a function; each function is in a named file."""
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    walk = page[page.index("## One event") : page.index("## Decisions")]
    steps = re.split(r"^\d\. ", walk, flags=re.MULTILINE)[1:]
    assert len(steps) == 9, "nine steps"
    files = [PACKAGE / name for name in dict.fromkeys(re.findall(r"`([\w/]+\.py)`", walk))]
    defined = {node.name for file in files for node in ast.walk(parsed(file)) if isinstance(node, DEFINITIONS)}
    for step in steps:
        told = re.sub(r"```.*?```", "", step, flags=re.DOTALL)
        named = re.findall(r"`(?:[A-Z]\w+\.)?(_?[a-z]\w*)`", told)
        assert named, f"no function: {step}"
        assert not [name for name in named if name not in defined], step


@pytest.mark.parametrize(("page", "text"), GENERATED.items(), ids=GENERATED)
def test_generated_page_is_current(page: str, text: str, rewrite: bool) -> None:
    if rewrite:
        (ROOT / page).write_text(text)
    assert (ROOT / page).read_text() == text, "run `make docs`"
