"""Options of functions as they are set at submission: `FUNCTION.OPTION=VALUE`, on top of what the author has said."""

from collections.abc import Mapping
from typing import Any

from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.definition import did_you_mean, redefine
from firesteel.pipeline.errors import InvalidPipeline

_NUMBERS: dict[str, type[int] | type[float]] = {"parallelism": int, "max_attempts": int, "retries": int, "cpu": float}
OPTIONS = (
    *("parallelism", "retries", "max_attempts", "timeout", "cpu", "memory", "share"),
    *("on", "slot_sharing_group", "co_location"),
)
"""Options that can be set. All else would change what the pipeline means."""


def overridden(pipeline: Pipeline, settings: Mapping[str, str]) -> Pipeline:
    """The pipeline with options by `FUNCTION.OPTION`; the given one stays as it is. Raises InvalidPipeline."""
    options = _by_function(pipeline, settings)
    changed = Pipeline(pipeline.name, mode=pipeline.job_type.value)
    for definition in pipeline.definitions:
        changed.add(redefine(definition, options.get(definition.name, {})))
    return changed


def _by_function(pipeline: Pipeline, settings: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    names = [definition.name for definition in pipeline.definitions]
    found: dict[str, dict[str, Any]] = {}
    for key, text in settings.items():
        function, dot, option = key.rpartition(".")
        if not dot:
            raise InvalidPipeline(f"{key}={text}: write FUNCTION.OPTION=VALUE, like {names[0]}.retries=3")
        if function not in names:
            raise InvalidPipeline(f"{key}={text}: there is no function {function!r}{did_you_mean(function, names)}")
        if option not in OPTIONS:
            near = did_you_mean(option, OPTIONS) or f"; there are {', '.join(OPTIONS)}"
            raise InvalidPipeline(f"{key}={text}: {option!r} can't be set{near}")
        found.setdefault(function, {})[option] = _value(key, option, text)
    return found


def _value(key: str, option: str, text: str) -> object:
    kind = _NUMBERS.get(option, str)
    if option == "timeout" and text.strip().replace(".", "", 1).isdecimal():
        kind = float  # seconds, as in a pipeline
    try:
        return kind(text.strip())
    except ValueError:
        raise InvalidPipeline(f"{key}={text}: must be a {'whole ' if kind is int else ''}number") from None
