"""The helper that prints a word count's result."""

import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet

EXAMPLE = Path(__file__).parents[2] / "examples" / "top_words.py"


def test_most_frequent_words_come_first(tmp_path: Path) -> None:
    table = pyarrow.table({"word": ["b", "a", "rare", "c"], "count": [5, 5, 1, 1_234_567]})
    pyarrow.parquet.write_table(table.slice(0, 2), tmp_path / "part-0.parquet")
    pyarrow.parquet.write_table(table.slice(2), tmp_path / "part-1.parquet")
    (tmp_path / "_SUCCESS").touch()
    command = [sys.executable, str(EXAMPLE), str(tmp_path), "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split() for line in done.stdout.splitlines()] == [["1,234,567", "c"], ["5", "a"], ["5", "b"]]
