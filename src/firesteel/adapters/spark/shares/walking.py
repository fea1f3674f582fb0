"""Walks over Connect's plans: what is directly inside a message. Pure."""

from collections.abc import Iterator
from typing import Any


def relations_in(message: Any) -> list[Any]:
    """The relations directly inside a proto message, in the order of its fields."""
    return list(_inside(message, "spark.connect.Relation", "spark.connect.Expression"))


def python_calls(node: Any) -> list[Any]:
    """Expressions of a relation's own that call a function in Python; what is inside of one comes after it."""
    kinds = ((each, each.WhichOneof("expr_type")) for each in expressions_in(node))
    return [each for each, kind in kinds if kind == "common_inline_user_defined_function"]


def expressions_in(node: Any) -> Iterator[Any]:
    """Every expression of a relation's own."""
    for expression in _inside(node, "spark.connect.Expression", "spark.connect.Relation"):
        yield expression
        yield from expressions_in(expression)


def _inside(message: Any, wanted: str, closed: str) -> Iterator[Any]:
    """The messages of type `wanted` nearest inside `message`, not looking into those of type `closed`."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for item in value if field.is_repeated else (value,):
            if not hasattr(item, "DESCRIPTOR"):  # an entry of a map
                continue
            name = item.DESCRIPTOR.full_name
            if name == wanted:
                yield item
            elif name != closed:
                yield from _inside(item, wanted, closed)
