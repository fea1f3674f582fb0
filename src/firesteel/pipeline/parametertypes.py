"""Types of job parameters: what a text says, how a value travels in a job graph, what a function gets.

A value travels as JSON's own scalars; what has no form of its own there travels as a text: a date as ISO writes it, an
enum's member as its name, a list as a JSON array.
"""

import enum
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Protocol, TypeAlias

WireValue: TypeAlias = str | int | float | bool

_INT64 = 2**63


class ParameterType(Protocol):
    """One type. What does not fit it raises ValueError or TypeError."""

    @property
    def name(self) -> str:
        """Name as it is shown, and written into job graphs."""

    @property
    def example(self) -> str: ...

    def parsed(self, text: str) -> object:
        """The value that a text says."""

    def to_wire(self, value: object) -> WireValue: ...

    def of_wire(self, wire: WireValue, base: Path) -> object:
        """Value that a function gets; relative paths start at `base`."""


@dataclass(frozen=True)
class Scalar:
    """A type of Python's."""

    type: type
    example: str
    parse: Callable[[str], object]
    write: Callable[[Any], WireValue] = lambda value: value
    read: Callable[[Any, Path], object] = lambda wire, _: wire

    @property
    def name(self) -> str:
        return self.type.__name__

    def parsed(self, text: str) -> object:
        return self.parse(text if self.type is str else text.strip())

    def to_wire(self, value: object) -> WireValue:
        if self.type is float and type(value) is int:
            value = float(value)
        is_one = isinstance(value, Path) if self.type is Path else type(value) is self.type
        if not is_one or not _is_portable(value):
            raise ValueError(value)
        return self.write(value)

    def of_wire(self, wire: WireValue, base: Path) -> object:
        return self.read(wire, base)


@dataclass(frozen=True)
class Choice:
    """`Literal[...]`: one of some texts and numbers."""

    values: tuple[str | int | bool, ...]

    @property
    def name(self) -> str:
        return f"Literal[{', '.join(map(repr, self.values))}]"

    @property
    def example(self) -> str:
        return f"one of {', '.join(map(str, self.values))}"

    def parsed(self, text: str) -> object:
        return next((value for value in self.values if str(value) == text.strip()), text)

    def to_wire(self, value: object) -> WireValue:
        for each in self.values:
            if type(each) is type(value) and each == value:
                return each
        raise ValueError(value)

    def of_wire(self, wire: WireValue, base: Path) -> object:
        return wire


@dataclass(frozen=True)
class Member:
    """An `Enum`: by a member's name, or else its value."""

    type: type[enum.Enum]

    @property
    def name(self) -> str:
        return f"Enum[{', '.join(self.type.__members__)}]"

    @property
    def example(self) -> str:
        return f"one of {', '.join(self.type.__members__)}"

    def parsed(self, text: str) -> object:
        name = text.strip()
        if name in self.type.__members__:
            return self.type[name]
        return next((member for member in self.type if str(member.value) == name), text)

    def to_wire(self, value: object) -> WireValue:
        if not isinstance(value, self.type):
            raise TypeError(value)
        return value.name

    def of_wire(self, wire: WireValue, base: Path) -> object:
        return self.type[str(wire)]


@dataclass(frozen=True)
class ListOf:
    """`list[T]`: texts between commas, or a JSON array for those that have commas of their own."""

    element: ParameterType

    @property
    def name(self) -> str:
        return f"list[{self.element.name}]"

    @property
    def example(self) -> str:
        return f'each {self.element.example}, between commas, or a JSON array like ["a,b", "c"]'

    def parsed(self, text: str) -> object:
        if not text.strip():
            return []
        try:
            is_json = text.lstrip().startswith("[")
            found = json.loads(text) if is_json else [each.strip() for each in text.split(",")]
        except json.JSONDecodeError:
            raise ValueError(text) from None
        if any(each is None or isinstance(each, list | dict) for each in found):
            raise ValueError(text)
        return [self.element.parsed(each if isinstance(each, str) else json.dumps(each)) for each in found]

    def to_wire(self, value: object) -> WireValue:
        if not isinstance(value, list | tuple):
            raise TypeError(value)
        wires = [self.element.to_wire(self.element.parsed(each) if isinstance(each, str) else each) for each in value]
        return json.dumps(wires, ensure_ascii=False)

    def of_wire(self, wire: WireValue, base: Path) -> object:
        return [self.element.of_wire(each, base) for each in json.loads(str(wire))]


def parameter_type(annotation: object) -> ParameterType | None:
    """Type that an evaluated annotation means; None for what is no type of a parameter."""
    origin, members = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        some = [each for each in members if each is not type(None)]
        return parameter_type(some[0]) if len(some) == 1 else None
    if origin is typing.Literal:
        is_plain = all(type(each) in (str, int, bool) for each in members)
        return Choice(members) if is_plain and len({str(each) for each in members}) == len(members) else None
    if annotation is list or origin is list:
        element = parameter_type(members[0]) if members else SCALARS["str"]
        return ListOf(element) if element is not None and not isinstance(element, ListOf) else None
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return Member(annotation)
    return next((each for each in SCALARS.values() if each.type is annotation), None)


def read_wire(type_name: str, wire: WireValue, base: Path) -> object:
    """The value for who knows the type's name only: of an enum, the member's name."""
    if type_name.startswith("list["):
        element = type_name.removeprefix("list[").removesuffix("]")
        return [read_wire(element, each, base) for each in json.loads(str(wire))]
    return SCALARS[type_name].of_wire(wire, base) if type_name in SCALARS else wire


def parameter_text(value: object) -> str:
    """A value of any of these types as a text that says it."""
    match value:
        case enum.Enum():
            return value.name
        case list() | tuple():
            return json.dumps([parameter_text(each) for each in value], ensure_ascii=False)
        case date():
            return value.isoformat()
        case _:
            return str(value)


def has_enum(type_name: str) -> bool:
    """Whether only who has the class can make a value of this type."""
    return "Enum[" in type_name and not type_name.startswith("Literal[")


def _is_portable(value: object) -> bool:
    """Whether JSON can carry it as it is."""
    match value:
        case bool():
            return True
        case int():
            return -_INT64 <= value < _INT64
        case float():
            return math.isfinite(value)
        case Decimal():
            return value.is_finite()
        case str() | Path():
            text = str(value)
            return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
        case _:
            return True


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None


def _path(text: str) -> Path:
    if not text or "://" in text:
        raise ValueError(text)
    return Path(text)


SCALARS: Mapping[str, Scalar] = {
    each.name: each
    for each in (
        Scalar(str, "any text", str),
        Scalar(int, "like 4", int),
        Scalar(float, "like 1.5", float),
        Scalar(bool, "true or false", _bool),
        Scalar(date, "like 2026-01-31", date.fromisoformat, date.isoformat, lambda wire, _: date.fromisoformat(wire)),
        Scalar(
            datetime,
            "like 2026-01-31T12:00:00",
            datetime.fromisoformat,
            datetime.isoformat,
            lambda wire, _: datetime.fromisoformat(wire),
        ),
        Scalar(Decimal, "like 12.50", _decimal, str, lambda wire, _: Decimal(wire)),
        Scalar(Path, "a local path; annotate URLs with str", _path, str, lambda wire, base: base / wire),
    )
}

ANNOTATIONS = (*SCALARS, "Literal[...]", "an Enum", "list[...] of these")
"""Annotations that a parameter may have, for messages."""
