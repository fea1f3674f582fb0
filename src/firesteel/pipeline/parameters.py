"""Job parameters: what functions declare, and the values they are given."""

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from firesteel.pipeline.definition import Argument, FunctionDefinition, did_you_mean
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.parametertypes import SCALARS, Choice, ParameterType, WireValue, parameter_type

NAMED_MAX = 10
"""Unknown parameters that an error names."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A job parameter, as all functions that take it agree on."""

    name: str
    type: str
    required: bool
    default: WireValue | None = None
    """Default in wire form; None when there is none, or when it is None."""
    functions: tuple[str, ...]
    """Functions that take it."""


class DeclaredParameters(msgspec.Struct, frozen=True):
    """Parameters of a pipeline, by name, in the order of its functions."""

    parameters: Mapping[str, Parameter]
    types: Mapping[str, ParameterType]


def declared_parameters(takers: Mapping[str, list[tuple[FunctionDefinition, Argument]]]) -> DeclaredParameters:
    """Raises InvalidPipeline when functions disagree on one."""
    types = {name: _agreed_type(name, uses) for name, uses in takers.items()}
    return DeclaredParameters({name: _declared(name, uses, types[name]) for name, uses in takers.items()}, types)


def parameter_values(
    declared: DeclaredParameters, given: Mapping[str, object], flags: Sequence[str] = ()
) -> dict[str, WireValue]:
    """Values in wire form: what is given, else the defaults. A parameter without either is left out.

    `flags` are names that were given without a value. Raises InvalidPipeline for an unknown name or a value that does
    not fit the type.
    """
    if unknown := [name for name in (*given, *flags) if name not in declared.parameters]:
        raise InvalidPipeline(_unknown(unknown, declared))
    for name in flags:
        if declared.types[name] != SCALARS["bool"]:
            text = f"only a bool is true without a value, and this is a {declared.types[name].name}"
            raise InvalidPipeline(f"parameter {name!r}: {text}: give --param {name}=...")
    values: dict[str, WireValue] = dict.fromkeys(flags, True)
    for name, parameter in declared.parameters.items():
        if name in flags:
            continue
        value = given.get(name)
        wire = parameter.default if value is None else to_wire(declared.types[name], value, name)
        if wire is not None:
            values[name] = wire
    return values


def inherited_values(declared: DeclaredParameters, texts: Mapping[str, str]) -> dict[str, WireValue]:
    """Values of another pipeline's parameters in wire form, of those that this one takes. Raises InvalidPipeline for one that
    does not fit."""
    return {name: to_wire(declared.types[name], text, name) for name, text in texts.items() if name in declared.types}


def to_wire(wanted: ParameterType, value: object, name: str) -> WireValue:
    """The value in a job graph for `value`: one of its type, or the text of one. Raises InvalidPipeline."""
    try:
        return wanted.to_wire(wanted.parsed(value) if isinstance(value, str) else value)
    except (ValueError, TypeError):
        text = f"parameter {name!r}: {value!r} is not a {wanted.name} ({wanted.example})"
        raise InvalidPipeline(text) from None


def annotated_type(definition: FunctionDefinition, argument: Argument) -> ParameterType | None:
    """The parameter type an argument is annotated with, None when it is none.

    An argument without annotation has the type of its default, else str.
    """
    annotation = argument.annotation
    if annotation is inspect.Parameter.empty:
        has_value = argument.has_default and argument.default is not None
        annotation = type(argument.default) if has_value else str
    elif isinstance(annotation, str):
        annotation = evaluated(definition.callable, annotation)
    return parameter_type(annotation)


def evaluated(function: Callable[..., object] | None, annotation: str) -> Any:
    """An annotation that is written as a text; None when it is known to a type checker only."""
    # The same trust as in running the file: the text is the user's own code.
    inner = inspect.unwrap(function) if function else None
    try:
        return eval(annotation, getattr(inner, "__globals__", {}))
    except (NameError, AttributeError, TypeError, SyntaxError):
        return None


def argument_value(function: Callable[..., object], name: str, wire: WireValue, base: Path) -> object:
    """The value for the argument `name`, by its annotation. Raises LookupError when that can't be found out here."""
    annotation = inspect.signature(inspect.unwrap(function)).parameters[name].annotation
    default = inspect.signature(inspect.unwrap(function)).parameters[name].default
    if isinstance(annotation, str):
        annotation = evaluated(function, annotation)
    elif annotation is inspect.Parameter.empty:
        annotation = type(default)
    found = parameter_type(annotation)
    if found is None:
        raise LookupError(f"the annotation of {name!r} names a type that its function does not know where it runs")
    return found.of_wire(wire, base)


def _unknown(names: Sequence[str], declared: DeclaredParameters) -> str:
    named = ", ".join(f"{name!r}{did_you_mean(name, declared.parameters)}" for name in names[:NAMED_MAX])
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    takes = ", ".join(declared.parameters) or "none"
    return f"unknown parameter{'s' * (len(names) > 1)} {named}{more} (this pipeline takes {takes})"


def _agreed_type(name: str, uses: Sequence[tuple[FunctionDefinition, Argument]]) -> ParameterType:
    first, argument = uses[0]
    found = annotated_type(first, argument)
    assert found is not None, "the arguments of a pipeline were checked"
    for other, use in uses[1:]:
        if (here := annotated_type(other, use)) != found:
            raise other.error(
                f"parameter {name!r} is {here.name if here else 'none'} here and {found.name} in {first.name!r}:"
                " one parameter has one type; rename one of them"
            )
    return found


def _declared(name: str, uses: list[tuple[FunctionDefinition, Argument]], wanted: ParameterType) -> Parameter:
    defaults = [(each, _default(each, use, wanted)) for each, use in uses if use.has_default]
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
        type=wanted.name,
        required=default is None and not everywhere,
        default=default,
        functions=tuple(definition.name for definition, _ in uses),
    )


def _default(definition: FunctionDefinition, argument: Argument, wanted: ParameterType) -> WireValue | None:
    default = argument.default
    if default is None:
        return None
    if (
        isinstance(default, str)
        and not isinstance(default, enum.Enum)
        and not isinstance(wanted, Choice)
        and wanted != SCALARS["str"]
    ):
        raise definition.error(f"default of {argument.name!r} is a text, but its type is {wanted.name}")
    try:
        return to_wire(wanted, default, argument.name)
    except InvalidPipeline as error:
        raise definition.error(f"default of {error.message}") from None
