"""Pipeline: where a user's functions are declared. They stay plain functions."""

import inspect
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar, get_overloads, overload

from firesteel.model.jobgraph import FunctionKind, JobType
from firesteel.model.splits import InputFormat
from firesteel.pipeline.definition import FunctionDefinition, Inputs, Share, define
from firesteel.pipeline.errors import InvalidPipeline

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """Functions over DataFrames that name one another by their arguments.

    An argument named as another function of the pipeline is an edge; `spark` and `context` are
    the session and the runtime context; any other argument is a job parameter, typed by its
    annotation. Options of the decorators: see FunctionOptions, and docs/functions.md.
    """

    def __init__(self, name: str, *, mode: str = "batch") -> None:
        if not isinstance(name, str) or not name.strip():
            raise InvalidPipeline(f'Pipeline({name!r}): give the pipeline a name, like Pipeline("wordcount")')
        if mode not in ("batch", "streaming"):
            raise InvalidPipeline(f"Pipeline({name!r}, mode={mode!r}): mode is batch or streaming")
        self.name, self.job_type = name, JobType(mode)
        self._definitions: list[FunctionDefinition] = []

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {len(self._definitions)} functions)"

    @property
    def definitions(self) -> tuple[FunctionDefinition, ...]:
        """The functions in the order they were declared."""
        return tuple(self._definitions)

    @overload
    def source(self, function: F, /) -> F: ...
    @overload
    def source(
        self,
        /,
        *,
        uid: str = ...,
        parallelism: int = ...,
        splits: InputFormat = ...,
        per_share: bool = ...,
        share: Share = ...,
        retries: int = ...,
        max_attempts: int = ...,
        timeout: float | str | timedelta = ...,
        cpu: float = ...,
        memory: int | str = ...,
        on: str = ...,
        slot_sharing_group: str = ...,
        co_location: str = ...,
    ) -> Callable[[F], F]: ...
    def source(self, function: Any = None, /, **options: Any) -> Any:
        """Declare a function that reads from outside: takes no input of this pipeline, returns a DataFrame."""
        return self._declare(FunctionKind.SOURCE, function, options)

    @overload
    def transform(self, function: F, /) -> F: ...
    @overload
    def transform(
        self,
        /,
        *,
        uid: str = ...,
        parallelism: int = ...,
        inputs: Inputs = ...,
        per_share: bool = ...,
        share: Share = ...,
        retries: int = ...,
        max_attempts: int = ...,
        timeout: float | str | timedelta = ...,
        cpu: float = ...,
        memory: int | str = ...,
        on: str = ...,
        slot_sharing_group: str = ...,
        co_location: str = ...,
    ) -> Callable[[F], F]: ...
    def transform(self, function: Any = None, /, **options: Any) -> Any:
        """Declare a function that takes DataFrames of this pipeline and returns one."""
        return self._declare(FunctionKind.TRANSFORM, function, options)

    @overload
    def sink(self, function: F, /) -> F: ...
    @overload
    def sink(
        self,
        /,
        *,
        uid: str = ...,
        parallelism: int = ...,
        inputs: Inputs = ...,
        per_share: bool = ...,
        idempotent: bool = ...,
        retries: int = ...,
        max_attempts: int = ...,
        timeout: float | str | timedelta = ...,
        cpu: float = ...,
        memory: int | str = ...,
        on: str = ...,
        slot_sharing_group: str = ...,
        co_location: str = ...,
    ) -> Callable[[F], F]: ...
    def sink(self, function: Any = None, /, **options: Any) -> Any:
        """Declare a function that writes DataFrames of this pipeline to the outside."""
        return self._declare(FunctionKind.SINK, function, options)

    @overload
    def result(self, function: F, /) -> F: ...
    @overload
    def result(
        self,
        /,
        *,
        uid: str = ...,
        inputs: Inputs = ...,
        retries: int = ...,
        max_attempts: int = ...,
        timeout: float | str | timedelta = ...,
        cpu: float = ...,
        memory: int | str = ...,
        on: str = ...,
        slot_sharing_group: str = ...,
        co_location: str = ...,
    ) -> Callable[[F], F]: ...
    def result(self, function: Any = None, /, **options: Any) -> Any:
        """Declare a function whose rows go to whoever runs the pipeline: few, and kept with the job's result."""
        return self._declare(FunctionKind.RESULT, function, options)

    def add(self, definition: FunctionDefinition) -> None:
        """Add a vertex that is no decorated function, such as `noop(...)`."""
        if not isinstance(definition, FunctionDefinition):
            raise InvalidPipeline(f"Pipeline.add takes what noop(...) returns, not {type(definition).__name__}")
        self._put(definition)

    def _declare(self, kind: FunctionKind, function: Any, options: dict[str, Any]) -> Any:
        def declare(decorated: F) -> F:
            self._put(define(decorated, kind, options))
            return decorated

        return declare if function is None else declare(function)

    def _put(self, definition: FunctionDefinition) -> None:
        for index, known in enumerate(self._definitions):
            if known.name == definition.name and _is_interactive(known) and _is_interactive(definition):
                # A notebook cell that ran again: the new function takes the old one's place.
                self._definitions[index] = definition
                return
        self._definitions.append(definition)


def option_names(kind: FunctionKind) -> list[str]:
    """The options that the decorator of this kind takes, in the order of its signature."""
    declared = get_overloads(getattr(Pipeline, kind.value))[1]
    return [name for name in inspect.signature(declared).parameters if name != "self"]


def _show_options() -> None:
    """Have `help` and notebooks show the options that type checkers see in overloads."""
    for kind in (FunctionKind.SOURCE, FunctionKind.TRANSFORM, FunctionKind.SINK, FunctionKind.RESULT):
        method = getattr(Pipeline, kind.value)
        function, options = (inspect.signature(each) for each in get_overloads(method))
        taken = list(options.parameters.values())
        positional = function.parameters["function"].replace(default=None)
        method.__signature__ = options.replace(parameters=[taken[0], positional, *taken[1:]])


_show_options()


def _is_interactive(definition: FunctionDefinition) -> bool:
    return definition.callable is not None and not os.path.exists(definition.file)
