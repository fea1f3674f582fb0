"""Options of the decorators, as type checkers, editors and `help` see them."""

import inspect
from typing import get_overloads

import pytest

import firesteel as fs
from firesteel.model.jobgraph import FunctionKind
from firesteel.pipeline.authoring import Pipeline, option_names
from firesteel.pipeline.definition import FunctionOptions

KINDS = (FunctionKind.SOURCE, FunctionKind.TRANSFORM, FunctionKind.SINK, FunctionKind.RESULT)


@pytest.mark.parametrize("kind", KINDS)
def test_decorators_say_what_options_are(kind: FunctionKind) -> None:
    """By the same types, and in a signature that can be asked for."""
    declared = inspect.signature(get_overloads(getattr(Pipeline, kind.value))[1]).parameters
    types = {name: each.annotation for name, each in declared.items() if name != "self"}
    assert types == {name: FunctionOptions.__annotations__[name] for name in types}
    shown = inspect.signature(getattr(fs.Pipeline("shown"), kind.value)).parameters
    assert list(shown) == ["function", *option_names(kind)]


def test_every_option_is_of_some_decorator() -> None:
    assert {name for kind in KINDS for name in option_names(kind)} == set(FunctionOptions.__annotations__)
