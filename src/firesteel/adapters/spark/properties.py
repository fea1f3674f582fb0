"""Properties of a connection as users give them: with values that stand for what is only known on the worker."""

import os
from collections.abc import Mapping
from pathlib import Path

from firesteel.adapters.spark.refusals import UserError


def resolved(call: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Properties with the values that `env:NAME` and `file:/path` stand for, on this worker. Raises UserError."""
    return {name: _value(call, name, value) for name, value in properties.items()}


def _value(call: str, name: str, value: str) -> str:
    kind, found, place = value.partition(":")
    try:
        if found and kind == "env":
            return os.environ[place]
        if found and kind == "file":
            return Path(place).read_text().strip()
    except (KeyError, OSError) as error:
        raise UserError(f"{call}: property {name} can't be read from {value} on this worker: {error!r}") from None
    return value
