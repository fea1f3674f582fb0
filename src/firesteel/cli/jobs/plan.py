"""`firesteel plan`: graph, regions and exchanges of a pipeline, without Spark."""

import os
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, CommandError
from firesteel.cli.jobs.attachments import attachment_options, taken_attachments, taken_interpreter
from firesteel.cli.settings import load_configuration, named_values, pairs
from firesteel.core.dispatcher.admission import with_labels
from firesteel.core.scheduler.backoff import ExponentialDelay, FailureRate, FixedDelay, restart_strategy
from firesteel.model import options
from firesteel.model.counts import counted
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import (
    DEFAULT_GROUP,
    ExchangeMode,
    InvalidJobGraph,
    JobEdge,
    JobGraph,
    JobType,
    JobVertex,
    Partitioner,
)
from firesteel.model.labels import labels_text
from firesteel.model.options import Configuration
from firesteel.model.splits import (
    DateInputFormat,
    FileInputFormat,
    InputFormat,
    KafkaInputFormat,
    ParameterReference,
    RangeInputFormat,
    SplitArgument,
)
from firesteel.pipeline.build import BuildRequest, BuiltJob, build_file
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.parameters import Parameter
from firesteel.pipeline.regions import pipelined_regions


@click.command()
@click.argument("file")
@click.option(
    "--param", "-p", "parameters", multiple=True, metavar="NAME=VALUE", help="A job parameter; NAME alone sets a bool."
)
@click.option("--parallelism", type=click.IntRange(min=1), help="The most subtasks of functions that state none.")
@click.option("--set", "overrides", multiple=True, metavar="FUNCTION.OPTION=VALUE", help="An option of a function.")
@attachment_options
@click.option("-D", "definitions", multiple=True, metavar="KEY=VALUE", help="A configuration option, or spark.*.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--verbose", "-v", is_flag=True, help="Print full traces.")
def plan(file: str, parallelism: int | None, as_json: bool, verbose: bool, **given: Any) -> int:
    """Show what would run for the pipeline of FILE. Needs neither Java nor values for its parameters."""
    values, flags = named_values(given["parameters"])
    request = BuildRequest(
        file=os.path.join(os.getcwd(), file),
        job_id=JobID("0" * 32),
        parameters=values,
        flags=flags,
        configuration=dict(load_configuration(given["definitions"]).merged(taken_interpreter(given))),
        parallelism=parallelism,
        overrides=pairs(given["overrides"], "--set"),
        attachments=taken_attachments(given),
        require_parameters=False,
    )
    try:
        built = build_file(request)
    except InvalidJobGraph as error:
        if verbose and isinstance(error, InvalidPipeline) and error.trace:
            click.echo(error.trace, err=True)
        raise CommandError(str(error), BAD_USAGE) from None
    anywhere = Configuration(request.configuration).get_option(options.EXECUTION_ON)
    built = msgspec.structs.replace(built, graph=with_labels(built.graph, anywhere))
    click.echo(plan_json(built) if as_json else "\n".join(plan_lines(built)))
    return 0


def plan_json(built: BuiltJob) -> bytes:
    """The job graph's structure with its regions."""
    graph = msgspec.to_builtins(built.graph)
    shown = {key: graph[key] for key in ("name", "job_type", "vertices", "datasets", "edges")}
    shown["regions"] = groups = pipelined_regions(built.graph)
    shown["attempts"] = [_attempts(built.graph, group) for group in groups]
    shown["restarts"] = _restarts(built.graph)
    shown["parameters"] = msgspec.to_builtins(built.parameters)
    shown["warnings"] = list(built.warnings)
    return msgspec.json.format(msgspec.json.encode(shown), indent=2)


def plan_lines(built: BuiltJob) -> list[str]:
    """The plan for a person."""
    graph = built.graph
    groups = pipelined_regions(graph)
    parallelism = {vertex.id: vertex.parallelism for vertex in graph.vertices}
    regions = sum(parallelism[group[0]] for group in groups)
    stored = sum(edge.exchange is ExchangeMode.BLOCKING for edge in graph.edges)
    counts = (
        counted(len(graph.vertices), "vertex", "vertices"),
        counted(regions, "region"),
        f"{counted(stored, 'edge')} through stored results",
    )
    lines = [f"{graph.name} ({graph.job_type.value}): {', '.join(counts)}"]
    lines += _parameter_lines(built.parameters, graph)
    for number, group in enumerate(groups, start=1):
        members = [vertex for vertex in graph.vertices if vertex.id in group]
        lines += ["", _region_title(number, members[0].parallelism)]
        for vertex in members:
            lines += _vertex_lines(graph, vertex, _attempts(graph, group))
    if max(parallelism.values()) == 1:
        lines += [
            "",
            "Parallelism is 1: each region runs in one slot of one worker; Spark spreads its query over its tasks.",
        ]
    if any(_attempts(graph, group) is None for group in groups):
        lines += ["", f"Where no number of attempts is stated: {_restarts(graph)}."]
    lines += [text for warning in built.warnings for text in ("", f"Warning: {warning}.")]
    return lines


def _region_title(number: int, parallelism: int) -> str:
    return f"region {number}" if parallelism == 1 else f"regions {number}.0 to {number}.{parallelism - 1}"


def _attempts(graph: JobGraph, group: Sequence[str]) -> int | None:
    """Attempts of a region that fails, whatever the restart strategy: its vertices run and fail together."""
    stated = (vertex.max_attempts for vertex in graph.vertices if vertex.id in group)
    return min((attempts for attempts in stated if attempts is not None), default=None)


def _restarts(graph: JobGraph) -> str:
    """Text on what happens when something fails that has no retries of its own."""
    unless = (
        "" if options.RESTART_STRATEGY.key in graph.configuration else ", unless the cluster has a restart strategy"
    )
    is_stream = graph.job_type is JobType.STREAMING
    match restart_strategy(Configuration(), graph.configuration, is_stream=is_stream):
        case FixedDelay(attempts=attempts, wait_ms=wait_ms):
            return f"{counted(attempts, 'restart')} of the job at the most, each {wait_ms / 1000:g} s after a failure"
        case FailureRate(failures=failures, interval_ms=interval_ms):
            return (
                f"restarts, as long as no more than {counted(failures, 'failure')} fall into {interval_ms / 1000:g} s"
            )
        case ExponentialDelay(initial_ms=initial_ms, max_ms=max_ms):
            return f"restarts, after {initial_ms / 1000:g} s and then ever longer times up to {max_ms / 1000:g} s"
        case _:
            return f"1 attempt{unless}"


def _vertex_lines(graph: JobGraph, vertex: JobVertex, attempts: int | None) -> list[str]:
    limits = [f"parallelism {'up to ' * (vertex.auto_parallelism and vertex.parallelism > 1)}{vertex.parallelism}"]
    if vertex.resources.labels:
        limits.append(f"on {labels_text(vertex.resources.labels)}")
    if vertex.resources.cpu_cores:
        limits.append(f"{vertex.resources.cpu_cores:g} cores and {vertex.resources.memory_mib} MiB")
    if attempts is not None:
        limits.append(counted(attempts, "attempt") + " at the most")
    if vertex.timeout_ms is not None:
        limits.append(f"at the most {vertex.timeout_ms / 1000:g} s an attempt")
    if vertex.slot_sharing_group != DEFAULT_GROUP:
        limits.append(f"slot sharing group {vertex.slot_sharing_group}")
    if vertex.co_location_group:
        limits.append(f"co-located as {vertex.co_location_group}")
    lines = [f"  {vertex.name}  ({', '.join(limits)})"]
    lines += [
        f"    {_splits(function.splits)}"
        for function in vertex.functions
        if function.splits is not None and not vertex.draws_splits
    ]
    lines += [f"    {_edge(graph, edge)}" for edge in graph.edges if edge.target == vertex.id]
    return lines


def _edge(graph: JobGraph, edge: JobEdge) -> str:
    dataset = next(dataset for dataset in graph.datasets if dataset.id == edge.source)
    if edge.partitioner is Partitioner.SPLITS:
        return f"<- {dataset.name}  drawn batch by batch, while the subtasks run"
    carried = "fused into one plan" if edge.exchange is ExchangeMode.PIPELINED else "stored result"
    if any(f.cached and f.name == dataset.name for vertex in graph.vertices for f in vertex.functions):
        carried += ", cached by Spark"
    keys = f" by {', '.join(edge.keys)}" if edge.keys else ""
    return f"<- {dataset.name}  {edge.partitioner.value}{keys}, {edge.exchange.value} ({carried})"


def _splits(declared: InputFormat) -> str:
    """Text on what is cut into splits, and how."""
    match declared:
        case FileInputFormat():
            return f"splits: {declared.format} files of {_shown(declared.path)}, {declared.split_mib} MiB each"
        case RangeInputFormat(column=column, count=count):
            limits = f"{_shown(declared.lower)} to {_shown(declared.upper)}"
            return f"splits: {_shown(count)} ranges of {column}, {limits}"
        case DateInputFormat(days=days):
            return f"splits: {counted(days, 'day')} each, {_shown(declared.start)} until before {_shown(declared.end)}"
        case KafkaInputFormat():
            limits = f"from {_shown(declared.starting)} to {_shown(declared.ending)}"
            size = f"{declared.split_records:,} records each at the most"
            return f"splits: Kafka topics {_shown(declared.topics)} at {_shown(declared.servers)}, {limits}, {size}"


def _shown(value: SplitArgument) -> str:
    return f"parameter {value.name}" if isinstance(value, ParameterReference) else str(value)


def _parameter_lines(parameters: Sequence[Parameter], graph: JobGraph) -> list[str]:
    return [f"  {parameter.name}: {parameter.type}{_value(parameter, graph)}" for parameter in parameters]


def _value(parameter: Parameter, graph: JobGraph) -> str:
    if parameter.name in graph.parameters:
        return f" = {graph.parameters[parameter.name]!r}"
    return " (required)" if parameter.required else " (none)"
