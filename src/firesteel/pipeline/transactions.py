"""Sinks that write by none of firesteel's own ways: what they write may be there twice after a retry."""

import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from firesteel.model.jobgraph import FunctionKind
from firesteel.pipeline.definition import FunctionDefinition

TRANSACTIONAL = (
    "write_csv",
    "write_jdbc",
    "write_json",
    "write_parquet",
    "write_table",
    "write_text",
    "write_two_phase",
)
"""Names in `firesteel` whose output is committed with the job."""
AT_LEAST_ONCE = ("write_kafka",)
"""Names in `firesteel` whose output is there as soon as it is written, and again after a retry."""
FUNCTIONS_MAX = 200
"""Functions that a sink calls are looked into, but no more of them."""


def warnings(definitions: Sequence[FunctionDefinition]) -> tuple[str, ...]:
    """A sentence for each sink that is neither transactional, as far as its code tells, nor said to be idempotent."""
    sinks = [each for each in definitions if each.kind is FunctionKind.SINK and not each.idempotent]
    return tuple(filter(None, (_warning(each) for each in sinks)))


def _warning(sink: FunctionDefinition) -> str:
    if _calls(sink.callable, AT_LEAST_ONCE, if_unsure=False):
        return (
            f"sink {sink.name!r} writes to Kafka, at least once: its rows are there before the job has finished, and a retry"
            " sends them again; say idempotent=True if that does no harm to who reads them"
        )
    if _calls(sink.callable, TRANSACTIONAL, if_unsure=True):
        return ""
    return (
        f"sink {sink.name!r} writes by none of fs.write_*: nothing takes back what a failed attempt has written, and a"
        " retry may write it twice; say idempotent=True if that does no harm, or use fs.write_two_phase"
    )


def _calls(function: Callable[..., object] | None, wanted: Sequence[str], *, if_unsure: bool) -> bool:
    """Whether one of these names of `firesteel` is in its code, or in that of functions of the user's own that it names.
    `if_unsure`: the answer where there is too much code to look at."""
    seen: dict[int, None] = {}
    waiting: list[Any] = [function]
    while waiting and len(seen) < FUNCTIONS_MAX:
        current = inspect.unwrap(waiting.pop())
        if id(current) in seen:
            continue
        seen[id(current)] = None
        for name in _names(current.__code__):
            found = current.__globals__.get(name)
            if name in wanted or getattr(found, "__name__", "") in wanted:
                return True
            if inspect.isfunction(found) and _is_own(found.__code__.co_filename):
                waiting.append(found)
            elif inspect.isclass(found):
                waiting += [value for value in vars(found).values() if _is_function_of(value, found.__module__)]
            elif inspect.ismodule(found) and _is_own(getattr(found, "__file__", None) or ""):
                waiting += [value for value in vars(found).values() if _is_function_of(value, found.__name__)]
        waiting += [cell for cell in _closure(current) if inspect.isfunction(cell)]
    return if_unsure and bool(waiting)


def _names(code: CodeType) -> Iterator[str]:
    """Global names and attributes of a function and of those inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _closure(function: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _is_function_of(value: Any, module: str) -> bool:
    return inspect.isfunction(value) and value.__module__ == module


def _is_own(file: str) -> bool:
    """Whether code is the user's: neither installed nor Python's."""
    installed = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sys.prefix)
    return bool(file) and not file.startswith(installed)
