"""Job parameters: their types, their texts, their values in a job graph."""

import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias

import msgspec

from firesteel.pipeline.definition import Argument, FunctionDefinition, did_you_mean
from firesteel.pipeline.errors import InvalidPipeline

WireValue: TypeAlias = str | int | float | bool

PARAMETER_TYPES: dict[str, type] = {
    "str": str, "int": int, "float": float, "bool": bool, "date": date, "datetime": datetime,
}  # fmt: skip
_EXAMPLES = {
    "str": "any text", "int": "like 4", "float": "like 1.5", "bool": "true or false",
    "date": "like 2026-01-31", "datetime": "like 2026-01-31T12:00:00",
}  # fmt: skip
_INT64 = 2**63


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A job parameter, as all functions that take it agree on."""

    name: str
    type: str
    required: bool
    default: WireValue | None = None
    """In wire form; None when there is no default, or when it is None."""
    functions: tuple[str, ...]
    """Functions that take it."""


def declared_parameters(takers: Mapping[str, list[tuple[FunctionDefinition, Argument]]]) -> dict[str, Parameter]:
    """The parameters by name, in the order given. Raises InvalidPipeline when functions disagree on one."""
    return {name: _declared(name, uses) for name, uses in takers.items()}


def parameter_values(declared: Mapping[str, Parameter], given: Mapping[str, object]) -> dict[str, WireValue]:
    """Values in wire form: what is given, else the defaults. A parameter without either is left out.

    Raises InvalidPipeline for an unknown name or a value that does not fit the type.
    """
    for name in given:
        if name not in declared:
            known = f"this pipeline takes {', '.join(declared)}" if declared else "this pipeline takes none"
            raise InvalidPipeline(f"unknown parameter {name!r}{did_you_mean(name, declared)} ({known})")
    values: dict[str, WireValue] = {}
    for name, parameter in declared.items():
        value = to_wire(parameter.type, given[name], name) if given.get(name) is not None else parameter.default
        if value is not None:
            values[name] = value
    return values


def to_wire(type_name: str, value: object, name: str) -> WireValue:
    """The value in a job graph for `value`: one of its type, or the text of one. Raises InvalidPipeline."""
    problem = InvalidPipeline(f"parameter {name!r}: {value!r} is not a {type_name} ({_EXAMPLES[type_name]})")
    wanted = PARAMETER_TYPES[type_name]
    if isinstance(value, str) and wanted is not str:
        try:
            value = _PARSERS[type_name](value.strip())
        except ValueError:
            raise problem from None
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted or not _is_portable(value):
        raise problem
    return value.isoformat() if isinstance(value, date) else value  # type: ignore[return-value]


def from_wire(type_name: str, value: WireValue) -> object:
    """The argument to call a function with, for a value of a job graph."""
    if type_name == "date":
        return date.fromisoformat(str(value))
    return datetime.fromisoformat(str(value)) if type_name == "datetime" else value


def annotated_type(definition: FunctionDefinition, argument: Argument) -> str:
    """Name of the parameter type an argument is annotated with, or empty when it is no parameter type.

    An argument without annotation has the type of its default, else str.
    """
    annotation = argument.annotation
    if annotation is inspect.Parameter.empty:
        has_value = argument.has_default and argument.default is not None
        return _type_name(type(argument.default)) if has_value else "str"
    if isinstance(annotation, str):
        annotation = _evaluated(definition, annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not type(None)]
        annotation = members[0] if len(members) == 1 else None
    return _type_name(annotation)


def _evaluated(definition: FunctionDefinition, annotation: str) -> Any:
    # The same trust as in running the file: the text is the user's own code.
    function = inspect.unwrap(definition.callable) if definition.callable else None
    try:
        return eval(annotation, getattr(function, "__globals__", {}))
    except (NameError, AttributeError, TypeError, SyntaxError):  # known to a type checker only: no parameter type
        return None


def _type_name(annotation: object) -> str:
    return next((name for name, each in PARAMETER_TYPES.items() if each is annotation), "")


def _declared(name: str, uses: list[tuple[FunctionDefinition, Argument]]) -> Parameter:
    first, argument = uses[0]
    type_name = annotated_type(first, argument)
    defaults = [(each, _default(each, use, type_name)) for each, use in uses if use.has_default]
    for other, use in uses[1:]:
        if annotated_type(other, use) != type_name:
            raise other.error(
                f"parameter {name!r} is {annotated_type(other, use)} here and {type_name} in {first.name!r}:"
                " one parameter has one type; rename one of them"
            )
    for other, default in defaults[1:]:
        if default != defaults[0][1]:
            raise other.error(
                f"parameter {name!r} has the default {default!r} here and {defaults[0][1]!r} in"
                f" {defaults[0][0].name!r}: one parameter has one default; rename one of them"
            )
    default = defaults[0][1] if defaults else None
    everywhere = len(defaults) == len(uses)
    return Parameter(
        name=name,
        type=type_name,
        required=default is None and not everywhere,
        default=default,
        functions=tuple(definition.name for definition, _ in uses),
    )


def _default(definition: FunctionDefinition, argument: Argument, type_name: str) -> WireValue | None:
    if argument.default is None:
        return None
    if isinstance(argument.default, str) and type_name != "str":
        raise definition.error(f"default of {argument.name!r} is a text, but its type is {type_name}")
    try:
        return to_wire(type_name, argument.default, argument.name)
    except InvalidPipeline as error:
        raise definition.error(f"default of {error.message}") from None


def _is_portable(value: object) -> bool:
    """Whether JSON can carry it as it is."""
    match value:
        case bool():
            return True
        case int():
            return -_INT64 <= value < _INT64
        case float():
            return math.isfinite(value)
        case str():
            return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
        case _:
            return True


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_PARSERS: dict[str, Callable[[str], object]] = {
    "int": int, "float": float, "bool": _bool, "date": date.fromisoformat, "datetime": datetime.fromisoformat,
}  # fmt: skip
