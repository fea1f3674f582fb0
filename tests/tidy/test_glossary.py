"""A word of the project has one meaning, so one row of the glossary."""

import re

import pytest

from tests.tidy.source import ROOT

GLOSSARY = ROOT / "docs" / "GLOSSARY.md"
ROW = re.compile(r"^\| (?P<terms>[^|]+) \| [^|]+ \|$", re.MULTILINE)
HEADING = "Term"


def terms(text: str) -> list[str]:
    """Each term that a row of its tables defines; `vertex (JobVertex)` and `announcer, follower` define two."""
    first_columns = (row["terms"] for row in ROW.finditer(text) if row["terms"] != HEADING)
    return [word for column in first_columns for word in re.split(r", | \(", column.lower().removesuffix(")"))]


def defined_twice(text: str) -> list[str]:
    found = terms(text)
    return sorted({term for term in found if found.count(term) > 1})


def test_a_term_is_defined_once() -> None:
    text = GLOSSARY.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(f"| {HEADING} |")]
    assert len(ROW.findall(text)) == len(rows) + text.count(f"| {HEADING} |"), "a row is a term and its meaning"
    assert not defined_twice(text), "one word, one meaning: merge the rows, or find another word"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("| slot | a |\n| slot pool | b |", []),
        ("| slot | a |\n| region | b |\n| Slot | c |", ["slot"]),
        ("| attempt (Execution) | a |\n| execution | b |", ["execution"]),
        ("| announcer, follower | a |\n| follower | b |", ["follower"]),
    ],
)
def test_terms_are_compared_one_by_one(rows: str, found: list[str]) -> None:
    assert defined_twice(rows) == found
