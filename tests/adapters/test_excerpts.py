"""The lines around the one that failed, as they were when it did."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.task.excerpts import with_excerpt
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.secrets import redacted_code

LINES = [f"line {number}" for number in range(1, 12)]


def excerpt(location: str, *code: Path, **callables: Any) -> str:
    failure = FailureInfo(kind=FailureKind.USER, message="no", location=location)
    plan: Any = SimpleNamespace(callables=callables)
    return with_excerpt(failure, plan, [str(path) for path in code]).excerpt


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (6, ["  3  line 3", "  4  line 4", "  5  line 5", "> 6  line 6", "  7  line 7", "  8  line 8", "  9  line 9"]),
        (1, ["> 1  line 1", "  2  line 2", "  3  line 3", "  4  line 4"]),
        (11, ["   8  line 8", "   9  line 9", "  10  line 10", "> 11  line 11"]),
        (12, []),
        (0, []),
    ],
)
def test_three_lines_before_and_behind(tmp_path: Path, line: int, shown: list[str]) -> None:
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "pipeline.py").write_text("\n".join(LINES))
    assert excerpt(f"sales/pipeline.py:{line}", tmp_path / "elsewhere", tmp_path).splitlines() == shown


def test_a_function_of_a_file_that_is_no_part_of_the_package() -> None:
    found = excerpt("test_excerpts.py:1", function=test_three_lines_before_and_behind, builtin=len)
    assert found.startswith('> 1  """The lines around the one that failed')


@pytest.mark.parametrize("location", ["", "<string>", "a.py", "a.py:b", "none.py:3"])
def test_no_place_no_lines(location: str, tmp_path: Path) -> None:
    assert excerpt(location, tmp_path) == ""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('.option("password", "Secret2024")', '.option("password", "******")'),
        ('{"Authorization": "token ghp_x"}', '{"******": "******"}'),
        ("""'{"password": "geheim"}'""", "'******'"),
        ('keys["api-key"] = "x"', 'keys["api-key"] = "******"'),
        ('connect(password="gehei', "connect(password=******"),
        ('print("it")', 'print("it")'),
    ],
)
def test_what_a_line_that_names_a_secret_shows(line: str, shown: str) -> None:
    assert redacted_code(line) == shown


def test_lines_are_cut_and_secrets_hidden(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x" * 1_000 + '\nreader.option("password", "geheim").option("url", "it")\n"kept"\n')
    failure = FailureInfo(kind=FailureKind.USER, message="no", location="a.py:1")
    plan: Any = SimpleNamespace(callables={})
    told = with_excerpt(failure, plan, [str(tmp_path)])
    assert max(map(len, told.excerpt.splitlines())) < 200
    assert "geheim" in told.excerpt
    assert told.redacted().excerpt.splitlines()[1:] == [
        '  2  reader.option("password", "******").option("******", "******")',
        '  3  "kept"',
    ]
