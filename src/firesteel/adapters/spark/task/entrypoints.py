"""Functions that a message names as text: `module:name`."""

import importlib
from collections.abc import Callable
from typing import Any, cast


def resolve(entry_point: str) -> Callable[..., Any]:
    """The function that `module:name` stands for. Raises ImportError or AttributeError."""
    module_name, _, name = entry_point.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in name.split("."):
        found = getattr(found, part)
    return cast(Callable[..., Any], found)
