"""Write docs/functions.md from the declarations in firesteel.pipeline: `make docs`."""

import ast
import inspect
from pathlib import Path

from firesteel.model.jobgraph import FunctionKind
from firesteel.pipeline import definition
from firesteel.pipeline.authoring import option_names
from firesteel.pipeline.overrides import OPTIONS as SETTABLE
from firesteel.pipeline.parametertypes import SCALARS

PAGE = "docs/functions.md"
DECORATORS = (FunctionKind.SOURCE, FunctionKind.TRANSFORM, FunctionKind.SINK, FunctionKind.RESULT)

HEAD = """\
# Functions: their options and parameters

Generated from `src/firesteel/pipeline` by `make docs`.

## Options

Keyword arguments of `@pipeline.source`, `@pipeline.transform`, `@pipeline.sink` and `@pipeline.result`, known to type
checkers and editors: `@pipeline.transform(parallelism=4, retries=2)`. Those marked *set* can be changed for one job:
`firesteel run FILE --set counts.retries=3`.

| Option | Type | Of | | Meaning |
|---|---|---|---|---|
"""
PARAMETERS = """
## Parameters

The argument `spark` is the session, as `SparkSession.builder.getOrCreate()` is in a function. An argument that names no
other function, and is neither `spark` nor `context`, is a job parameter: `--param NAME=VALUE` on the
command line, or a value of the type in `ClusterClient.submit(..., {"NAME": value})`. Its annotation is its type (without
one, that of its default, else `str`), its default the value when none is given; `T | None = None` gives `None`. Functions
that take the same parameter must agree on both. All that are missing are named at once.

| Annotation | As a text |
|---|---|
"""
MORE = """\
| `Literal["day", "week"]` | one of them |
| an `Enum` | the name of a member, or else its value |
| `list[T]` of these, or `list` | texts between commas, or a JSON array for those that have commas of their own; an empty text is an empty list |

A `bool` alone is true: `--param full`. A relative `Path` starts where the client is, like all paths of a pipeline, and
arrives as an absolute one.
"""


def render() -> str:
    """The whole page."""
    options = "".join(row(*each) for each in described())
    scalars = "".join(f"| `{each.name}` | {each.example} |\n" for each in SCALARS.values())
    return HEAD + options + PARAMETERS + scalars + MORE


def described() -> list[tuple[str, str, str]]:
    """Name, type and meaning of each option, as FunctionOptions declares them."""
    (declared,) = ast.parse(inspect.getsource(definition.FunctionOptions)).body
    assert isinstance(declared, ast.ClassDef)
    found = []
    for statement, text in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign):
            assert isinstance(text, ast.Expr), "each option has a sentence"
            assert isinstance(text.value, ast.Constant), "each option has a sentence"
            found.append((ast.unparse(statement.target), ast.unparse(statement.annotation), str(text.value.value)))
    return found


def row(name: str, kind: str, meaning: str) -> str:
    """One line of the table."""
    of = ", ".join(each.value for each in DECORATORS if name in option_names(each))
    shown = kind.replace("|", "\\|")
    return f"| `{name}` | `{shown}` | {of} | {'*set*' if name in SETTABLE else ''} | {' '.join(meaning.split())} |\n"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / PAGE).write_text(render())
