"""Pages of the documentation lead to one another in the site as they do in the repository."""

from pathlib import Path

import pytest

from tests.tidy.source import ROOT
from tools.site import loaded, relinked

PLACES = {ROOT / "docs" / "rest.md": "rest.md", ROOT / "README.md": "index.md"}


@pytest.mark.parametrize(
    ("page", "text", "becomes"),
    [
        ("README.md", "see [REST](docs/rest.md#logs).", "see [REST](rest.md#logs)."),
        ("docs/rest.md", "[home](../README.md), [here](#logs)", "[home](index.md), [here](#logs)"),
        ("docs/rest.md", "a [package](../src/firesteel/rest/README.md) of it", "a package of it"),
        ("docs/rest.md", "[there](https://example.com/a.md)", "[there](https://example.com/a.md)"),
        ("docs/rest.md", "![a picture](pictures/a.svg)", "![a picture](pictures/a.svg)"),
        ("docs/rest.md", "```\n[x](../none.md)\n```\n", "```\n[x](../none.md)\n```\n"),
    ],
)
def test_links(page: str, text: str, becomes: str) -> None:
    assert relinked(text, ROOT / page, PLACES) == becomes


def test_what_a_page_loads_from_elsewhere_is_found() -> None:
    assert loaded('<script src="https://cdn.example.com/x.js"></script>') == [
        '<script src="https://cdn.example.com/x.js'
    ]
    assert loaded("<img src=//a.example.com/x.png>") == ["<img src=//a.example.com/x.png"]
    assert loaded('<a href="https://example.com">x</a><script src="assets/x.js"></script>') == []


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    assert not [page.name for page in Path(ROOT / "docs").glob("*.md") if page.name not in menu]
