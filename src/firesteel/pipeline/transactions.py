"""Sinks that write by none of firesteel's own ways: what they write may be there twice after a retry."""

import functools
import inspect
import itertools
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
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
_MODULE = "firesteel"
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
    `if_unsure`: the answer where there is too much code to look at, or the name is made as it runs."""
    seen: dict[int, None] = {}
    is_dynamic = False
    waiting: list[Any] = [function]
    while waiting and len(seen) < FUNCTIONS_MAX:
        current = inspect.unwrap(waiting.pop())
        if id(current) in seen:
            continue
        seen[id(current)] = None
        names = list(_names(current.__code__))
        is_dynamic = is_dynamic or _looks_names_up(names, current.__globals__)
        for name in names:
            value = current.__globals__.get(name)
            if name in wanted:
                return True
            for found in (value, *_held(value)):
                if getattr(found, "__name__", "") in wanted:
                    return True
                waiting += _code_of(found)
        waiting += [cell for cell in _closure(current) if inspect.isfunction(cell)]
    return if_unsure and (is_dynamic or bool(waiting))


def _looks_names_up(names: Sequence[str], known: Mapping[str, Any]) -> bool:
    """Whether the code with these names may ask the module `firesteel` for a name that is not in the code."""
    module = sys.modules[_MODULE]
    return "getattr" in names and any(name == _MODULE or known.get(name) is module for name in names)


def _code_of(found: Any) -> list[Any]:
    """Functions of the user's own that a global stands for."""
    if inspect.isfunction(found):
        return [found] if _is_own(found.__code__.co_filename) else []
    if inspect.isclass(found):
        return [value for value in vars(found).values() if _is_function_of(value, found.__module__)]
    if inspect.ismodule(found) and _is_own(getattr(found, "__file__", None) or ""):
        return [value for value in vars(found).values() if _is_function_of(value, found.__name__)]
    return []


def _held(value: Any) -> list[Any]:
    """What a table of functions, or one with arguments of its own, holds."""
    if isinstance(value, functools.partial):
        return [value.func]
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return list(itertools.islice(held, FUNCTIONS_MAX))


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
