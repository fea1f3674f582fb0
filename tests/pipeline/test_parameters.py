"""Types of job parameters: texts, values, and what a function gets."""

import enum
import json
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

import hypothesis.strategies as st
import pytest
from hypothesis import given

import firesteel as fs
from firesteel.adapters.spark.task.plan import convert_parameters
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.parameters import argument_value
from firesteel.pipeline.parametertypes import has_enum, parameter_text, parameter_type
from tests.pipeline.test_checks import build, refused, typed

BASE = Path("/where/the/client/is")


class Mode(enum.Enum):
    FAST = "fast one"
    SAFE = 2


class Level(enum.IntEnum):
    NONE = 0
    SOME = 1


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (list[int], "3, 1,2", [3, 1, 2]),
        (list[str], '["a,b", "c"]', ["a,b", "c"]),
        (list[str], '[" ", "\\t", "a "]', [" ", "\t", "a "]),
        (list, "a, b", ["a", "b"]),
        (list[str], "", []),
        (list[date], "2026-01-31,2026-02-01", [date(2026, 1, 31), date(2026, 2, 1)]),
        (list[Decimal], "[1.10, 2]", [Decimal("1.10"), Decimal(2)]),
        (list[Mode], "FAST,2", [Mode.FAST, Mode.SAFE]),
        (Literal["day", "week"], "week", "week"),
        (Literal[1, 7], " 7 ", 7),
        (Mode, "FAST", Mode.FAST),
        (Mode, "fast one", Mode.FAST),
        (Level, "NONE", Level.NONE),
        (Decimal, "12.50", Decimal("12.50")),
        (Path, "in/a.csv", BASE / "in" / "a.csv"),
        (Path, "/data", Path("/data")),
        (bool, "TRUE", True),
        (datetime, "2026-01-31T12:00", datetime(2026, 1, 31, 12)),  # noqa: DTZ001
        ("Mode | None", "SAFE", Mode.SAFE),
        ("list[Literal['a', 'b']]", "b,a", ["b", "a"]),
    ],
)
def test_from_a_text_to_the_functions_argument(annotation, text: str, value) -> None:
    for given_value in (text, value):
        if isinstance(value, Path) and given_value == value:
            continue  # it starts where the worker is told
        assert received(annotation, given_value) == value
        assert type(received(annotation, given_value)) is type(value)


def received(annotation, given_value):
    """What a function gets, by way of a job graph."""
    pipeline = typed(annotation)
    graph = build(pipeline, parameters={"n": given_value})
    function = pipeline.definitions[0].callable
    assert function is not None
    vars(sys.modules[function.__module__]).update(Mode=Mode, Literal=Literal)
    if has_enum(graph.parameter_types["n"]):
        return argument_value(function, "n", graph.parameters["n"], BASE)
    return convert_parameters(graph, BASE)["n"]


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (list[int], "1,x", "is not a list[int] (each like 4, between commas, or a JSON array"),
        (list[int], "[1", "is not a list[int]"),
        (list[int], "[[1]]", "is not a list[int]"),
        (list[int], "[null]", "is not a list[int]"),
        (list[int], 3, "is not a list[int]"),
        (Literal["day", "week"], "month", "is not a Literal['day', 'week'] (one of day, week)"),
        (Literal[1, 7], True, "is not a Literal[1, 7]"),
        (Mode, "SLOW", "is not a Enum[FAST, SAFE] (one of FAST, SAFE)"),
        (Mode, 2, "is not a Enum"),
        (Decimal, "1,5", "is not a Decimal (like 12.50)"),
        (Decimal, "NaN", "is not a Decimal"),
        (Path, "s3://bucket/a", "is not a Path (a local path; annotate URLs with str)"),
        (Path, "", "is not a Path"),
    ],
)
def test_what_does_not_fit(annotation, value, said: str) -> None:
    assert said in refused(typed(annotation), parameters={"n": value})


@pytest.mark.parametrize(
    "annotation", [list[list[int]], dict, set[int], Literal[None, "a"], Literal["1", 1], list[dict]]
)
def test_what_is_no_type_of_a_parameter(annotation) -> None:
    assert parameter_type(annotation) is None
    assert "as a job parameter it must be annotated with str, int," in refused(typed(annotation))
    assert "Literal[...], an Enum, list[...] of these" in refused(typed(annotation))


def test_defaults() -> None:
    assert build(typed(list[int], n=[1, 2])).parameters == {"n": "[1, 2]"}
    assert build(typed(Literal["a", "b"], n="b")).parameters == {"n": "b"}
    assert build(typed(Mode, n=Mode.SAFE)).parameters == {"n": "SAFE"}
    assert build(typed(Decimal, n=Decimal("1.50"))).parameters == {"n": "1.50"}
    assert build(typed(Path, n=Path("in"))).parameters == {"n": "in"}
    for annotation, default in ((Mode, "SAFE"), (Path, "in"), (list[str], "a,b"), (int, "three")):
        assert "default of 'n' is a text, but its type is" in refused(typed(annotation, n=default))
    assert "default of parameter 'n'" in refused(typed(Literal["a", "b"], n="c"))


def test_a_bool_needs_no_value() -> None:
    assert build(typed(bool, n=False), flags=("n",)).parameters == {"n": True}
    with pytest.raises(InvalidPipeline, match="only a bool is true without a value, and this is a int"):
        build(typed(int, n=3), flags=("n",))
    with pytest.raises(InvalidPipeline, match="unknown parameter 'm'"):
        build(typed(bool), flags=("m",))


def test_all_that_are_missing_are_named_at_once() -> None:
    pipeline = fs.Pipeline("much")

    @pipeline.source
    def lines(spark, day: date, mode: Mode, n: int = 3): ...

    @pipeline.sink
    def result(lines, output: Path): ...

    said = refused(pipeline, parameters={"mode": "FAST"})
    assert "parameter 'day' (date) is missing: give --param day=...; parameter 'output' (Path) is missing: give" in said
    assert "--param output=..." in said
    assert "mode" not in said


def test_one_parameter_has_one_type() -> None:
    pipeline = fs.Pipeline("two")

    @pipeline.source
    def lines(spark, n: list[int]): ...

    @pipeline.sink
    def result(lines, n: list[str]): ...

    assert "parameter 'n' is list[str] here and list[int] in 'lines'" in refused(pipeline)


VALUES = (
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))).map(lambda each: (list[str], each)),
    st.lists(st.integers(-(2**63), 2**63 - 1)).map(lambda each: (list[int], each)),
    st.lists(st.dates()).map(lambda each: (list[date], each)),
    st.lists(st.sampled_from(Mode)).map(lambda each: (list[Mode], each)),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda each: (Decimal, each)),
)


@given(st.one_of(VALUES))
def test_a_values_text_says_the_value(case) -> None:
    """As a client sends it, whose strings of lists have no space around them."""
    annotation, value = case
    if annotation == list[str]:
        value = [each.strip() for each in value]
    found = parameter_type(annotation)
    assert found is not None
    wire = found.to_wire(found.parsed(parameter_text(value)))
    assert found.of_wire(json.loads(json.dumps(wire)), BASE) == value
