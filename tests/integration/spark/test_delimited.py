"""CSV that Spark has written is read back as it was, also with the texts that other readers stumble over."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from firesteel.client.delimited import Delimited
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark
PIECES = ("", "a", '"', "\\", ",", "\n", "||")
TEXTS = [None, *sorted({"".join(each) for each in itertools.product(PIECES, repeat=3)})]


@pytest.mark.parametrize(
    "options",
    [{}, {"header": "true"}, {"escape": '"'}, {"sep": "||"}, {"quoteAll": "true"}, {"nullValue": "none"}],
    ids=str,
)
def test_texts_are_what_they_were(local: InProcess, tmp_path: Path, options: dict[str, Any]) -> None:
    """Blanks at both ends are Spark's to trim, unless it is told to leave them; and it quotes null, too, if it is to quote all."""
    rows = [(number, text, "last") for number, text in enumerate(TEXTS)]
    frame = local.spark.createDataFrame(rows, "n int, t string, l string").coalesce(1)
    frame.write.options(**options, ignoreLeadingWhiteSpace="false", ignoreTrailingWhiteSpace="false").csv(
        str(tmp_path / "out")
    )
    (file,) = (tmp_path / "out").glob("part-*")
    lines = file.read_text().removesuffix("\n").split("\n")
    found = Delimited({name.lower(): value for name, value in options.items()}).rows(lines)
    null = "" if "quoteAll" in options else None
    expected = [(str(number), null if text is None else text, last) for number, text, last in rows]
    assert [tuple(row.values()) for row in found] == expected
