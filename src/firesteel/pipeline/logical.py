"""LogicalGraph: the functions of a pipeline with their edges, checked and in topological order."""

import heapq
import inspect
import itertools
from collections.abc import Mapping, Sequence
from datetime import date

import msgspec

from firesteel.model.jobgraph import FunctionKind, JobType
from firesteel.model.splits import ParameterReference
from firesteel.model.unsupported import divided_result, undivided_source
from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.definition import (
    CONTEXT_ARGUMENT,
    SESSION_ARGUMENT,
    Argument,
    FunctionDefinition,
    did_you_mean,
    nearest,
)
from firesteel.pipeline.distributions import Distribution
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.parameters import DeclaredParameters, annotated_type, declared_parameters
from firesteel.pipeline.parametertypes import ANNOTATIONS
from firesteel.pipeline.splits import SPLITS_ARGUMENT, references
from firesteel.pipeline.streaming import check_streaming


class LogicalEdge(msgspec.Struct, frozen=True):
    """An argument of `target` that takes the result of `source`."""

    source: str
    target: str
    distribution: Distribution | None = None


class LogicalGraph(msgspec.Struct, frozen=True, kw_only=True):
    """Functions by name, in topological order, stable by definition order."""

    functions: Mapping[str, FunctionDefinition]
    edges: tuple[LogicalEdge, ...]
    """Ordered by target, then by argument."""
    declared: DeclaredParameters

    def inputs(self, name: str) -> list[LogicalEdge]:
        return [edge for edge in self.edges if edge.target == name]


def resolve(pipeline: Pipeline) -> LogicalGraph:
    """The pipeline's graph of functions. Raises InvalidPipeline naming function and line."""
    functions = _by_name(pipeline)
    edges: list[LogicalEdge] = []
    takers: dict[str, list[tuple[FunctionDefinition, Argument]]] = {}
    for definition in functions.values():
        for argument in definition.arguments:
            if argument.name == SPLITS_ARGUMENT and definition.splits is not None:
                continue
            if definition.kind is FunctionKind.NOOP or argument.name in functions:
                edges.append(_edge(definition, argument, functions))
            elif argument.name not in (SESSION_ARGUMENT, CONTEXT_ARGUMENT):
                _check_parameter(definition, argument, functions)
                takers.setdefault(argument.name, []).append((definition, argument))
        for reference, wanted in references(definition.splits) if definition.splits is not None else ():
            default = inspect.Parameter.empty if reference.default is None else _default(reference, wanted)
            takers.setdefault(reference.name, []).append((definition, Argument(reference.name, wanted, default)))
    order = _topological(functions, edges)
    _check_kinds(functions, edges)
    ranks = {name: rank for rank, name in enumerate(order)}
    return LogicalGraph(
        functions={name: functions[name] for name in order},
        edges=tuple(sorted(edges, key=lambda edge: ranks[edge.target])),
        declared=declared_parameters(takers),
    )


def check_supported(pipeline: Pipeline, parallelism: Mapping[str, int]) -> None:
    """What the data plane can't do yet is refused here, by function and line; a master refuses it too."""
    if pipeline.job_type is JobType.STREAMING:
        check_streaming(pipeline.definitions, parallelism)
        return
    for definition in pipeline.definitions:
        count = parallelism[definition.name]
        if count > 1 and definition.kind is FunctionKind.SOURCE and definition.splits is None:
            raise definition.error(undivided_source(count))
        if count > 1 and definition.kind is FunctionKind.RESULT:
            raise definition.error(divided_result(count))


def _default(reference: ParameterReference, wanted: type) -> object:
    return date.fromisoformat(str(reference.default)) if wanted is date else reference.default


def _by_name(pipeline: Pipeline) -> dict[str, FunctionDefinition]:
    if not pipeline.definitions:
        raise InvalidPipeline(f"pipeline {pipeline.name!r} is empty: declare a source and a sink")
    names: dict[str, FunctionDefinition] = {}
    uids: dict[str, FunctionDefinition] = {}
    for definition in pipeline.definitions:
        if definition.name in (SESSION_ARGUMENT, CONTEXT_ARGUMENT):
            raise definition.error(f"a function can't be named {definition.name!r}, which is a special argument")
        if (other := names.get(definition.name)) is not None:
            raise definition.error(f"another function has this name, at line {other.line}: rename one")
        if (other := uids.get(definition.uid)) is not None:
            raise definition.error(
                f"uid {definition.uid!r} is that of {other.name!r} (line {other.line}) too: give each its own"
            )
        names[definition.name] = uids[definition.uid] = definition
    return names


def _edge(
    definition: FunctionDefinition, argument: Argument, functions: Mapping[str, FunctionDefinition]
) -> LogicalEdge:
    source = functions.get(argument.name)
    if source is None:
        raise definition.error(f"input {argument.name!r} is no vertex{did_you_mean(argument.name, functions)}")
    if source.kind in (FunctionKind.SINK, FunctionKind.RESULT):
        raise definition.error(
            f"argument {source.name!r} is a {source.kind.value}, where a pipeline ends: read what it reads"
        )
    if (source.kind is FunctionKind.NOOP) != (definition.kind is FunctionKind.NOOP):
        raise definition.error(f"input {source.name!r}: noop vertices can be joined with noop vertices only")
    return LogicalEdge(source.name, definition.name, definition.distributions.get(argument.name))


def _check_parameter(
    definition: FunctionDefinition, argument: Argument, functions: Mapping[str, FunctionDefinition]
) -> None:
    if argument.name in definition.distributions:
        near = did_you_mean(argument.name, functions)
        raise definition.error(f"inputs names {argument.name!r}, which is no function of this pipeline{near}")
    if annotated_type(definition, argument) is None:
        near = did_you_mean(argument.name, functions)
        raise definition.error(
            f"argument {argument.name!r} names no function of this pipeline{near}"
            f" (as a job parameter it must be annotated with {', '.join(ANNOTATIONS)})"
        )


def missing_parameters(names: Sequence[str], graph: LogicalGraph) -> InvalidPipeline:
    """The error for parameters that were not given and have no default: all of them, for they are given at once."""
    texts = []
    for name in names:
        near = nearest(name, graph.functions)
        hint = f"; or did you mean the function {near!r}?" if near else ""
        texts.append(
            f"parameter {name!r} ({graph.declared.types[name].name}) is missing: give --param {name}=...{hint}"
        )
    first = graph.functions[graph.declared.parameters[names[0]].functions[0]]
    return first.error("; ".join(texts))


def _check_kinds(functions: Mapping[str, FunctionDefinition], edges: Sequence[LogicalEdge]) -> None:
    consumed = {edge.source for edge in edges}
    consumers = {edge.target for edge in edges}
    for definition in functions.values():
        if definition.kind is FunctionKind.SOURCE and definition.name in consumers:
            names = ", ".join(edge.source for edge in edges if edge.target == definition.name)
            raise definition.error(f"a source takes no input, but takes {names}: make it a transform")
        if (
            definition.kind in (FunctionKind.TRANSFORM, FunctionKind.SINK, FunctionKind.RESULT)
            and definition.name not in consumers
        ):
            raise _without_input(definition, functions)
    used = (FunctionKind.SINK, FunctionKind.RESULT, FunctionKind.NOOP)
    if not any(definition.kind in used for definition in functions.values()):
        raise InvalidPipeline(
            "the pipeline has no sink, so nothing would run: declare one with @pipeline.sink or @pipeline.result"
        )
    for definition in functions.values():
        if definition.kind not in used and definition.name not in consumed:
            raise definition.error("no function takes its result: name it as an argument of another one, or remove it")


def _without_input(definition: FunctionDefinition, functions: Mapping[str, FunctionDefinition]) -> InvalidPipeline:
    slips = (did_you_mean(argument.name, functions) for argument in definition.arguments)
    hint = next(filter(None, slips), "")
    if not hint and definition.kind is FunctionKind.TRANSFORM:
        hint = ": make it a source, or name a function as argument"
    problem = f"a {definition.kind.value} needs an input, and no argument names a function of this pipeline"
    return definition.error(problem + (hint or ": name one"))


def _topological(functions: Mapping[str, FunctionDefinition], edges: Sequence[LogicalEdge]) -> list[str]:
    """Kahn's algorithm; among the functions that are ready, the one defined first."""
    ranks = {name: rank for rank, name in enumerate(functions)}
    waiting = dict.fromkeys(functions, 0)
    consumers: dict[str, list[str]] = {name: [] for name in functions}
    for edge in edges:
        waiting[edge.target] += 1
        consumers[edge.source].append(edge.target)
    ready = [(ranks[name], name) for name, count in waiting.items() if count == 0]
    order: list[str] = []
    while ready:
        _, name = heapq.heappop(ready)
        order.append(name)
        for consumer in consumers[name]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                heapq.heappush(ready, (ranks[consumer], consumer))
    if len(order) < len(functions):
        raise _cycle(functions, edges, set(order))
    return order


def _cycle(
    functions: Mapping[str, FunctionDefinition], edges: Sequence[LogicalEdge], done: set[str]
) -> InvalidPipeline:
    # Every function that is left has an input that is left: walking inputs must come round.
    producer = {edge.target: edge.source for edge in edges if edge.source not in done}
    start = next(name for name in functions if name not in done)
    path: list[str] = []
    while start not in path:
        path.append(start)
        start = producer[start]
    cycle = [start, *itertools.takewhile(lambda name: name != start, reversed(path)), start]
    return functions[start].error(
        f"the functions form a cycle: {' -> '.join(cycle)}; break it by removing one argument"
    )
