"""build_job_graph: Pipeline -> JobGraph."""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from firesteel.model.ids import DataSetID, JobID, JobVertexID, derived_id
from firesteel.model.jobgraph import (
    CLIENT_DIRECTORY_VARIABLE,
    Artifact,
    Function,
    FunctionKind,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobType,
    JobVertex,
    Partitioner,
    RuntimeEnvironment,
)
from firesteel.model.options import OPERATOR_CHAINING, Configuration
from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.chaining import chain_functions
from firesteel.pipeline.definition import CONTEXT_ARGUMENT, SESSION_ARGUMENT, FunctionDefinition
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.exchanges import Exchange, plan_exchanges, stream_exchanges
from firesteel.pipeline.logical import LogicalGraph, check_supported, missing_parameters, resolve
from firesteel.pipeline.overrides import overridden
from firesteel.pipeline.parameters import parameter_values
from firesteel.pipeline.parametertypes import WireValue
from firesteel.pipeline.splits import with_finders


def build_job_graph(
    pipeline: Pipeline,
    *,
    job_id: JobID,
    parameters: Mapping[str, object] | None = None,
    flags: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    parallelism: int | None = None,
    overrides: Mapping[str, str] | None = None,
    name: str = "",
    code: "CodeReference | None" = None,
    require_parameters: bool = True,
    environment: RuntimeEnvironment | None = None,
) -> JobGraph:
    """The job graph. A pure function of its arguments, when `environment` is given.

    `parameters` are texts or values, `flags` names of those that are true; `parallelism` is for functions that state none;
    `overrides` are options by `FUNCTION.OPTION`, on top of what functions state;
    `name` replaces the pipeline's; `require_parameters=False` accepts that some are missing,
    for looking at a plan. Raises InvalidPipeline.
    """
    _check_override(parallelism)
    pipeline = overridden(pipeline, overrides) if overrides else pipeline
    code = code or CodeReference()
    settings = Configuration(configuration)
    graph = resolve(pipeline)
    counts = {each.name: each.parallelism or _default_parallelism(each, parallelism) for each in pipeline.definitions}
    check_supported(pipeline, counts)
    values = _values(graph, parameters or {}, flags, require_parameters)
    is_stream = pipeline.job_type is JobType.STREAMING
    exchanges = stream_exchanges(graph) if is_stream else plan_exchanges(graph, counts)
    chains = chain_functions(graph, exchanges, counts, enabled=settings.get_option(OPERATOR_CHAINING))
    vertices = tuple(_vertex(graph, chain, counts, code) for chain in chains)
    datasets, edges = _connections(graph, chains, exchanges, counts)
    vertices, datasets, edges = with_finders(vertices, datasets, edges)
    return JobGraph(
        job_id=job_id,
        name=name or pipeline.name,
        job_type=pipeline.job_type,
        vertices=vertices,
        datasets=datasets,
        edges=edges,
        parameters=values,
        parameter_types={each: parameter.type for each, parameter in graph.declared.parameters.items()},
        configuration=settings.of_job(),
        artifacts=code.artifacts,
        environment=environment or current_environment(),
    )


class CodeReference:
    """The place where a worker finds the functions. This one: in modules that it has already."""

    def __init__(self) -> None:
        self.artifacts: tuple[Artifact, ...] = ()

    def entry_point(self, definition: FunctionDefinition) -> str:
        """`module:function`."""
        function = definition.callable
        return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"

    def location(self, definition: FunctionDefinition) -> str:
        """`file:line`, the same on every machine."""
        return f"{os.path.basename(definition.file)}:{definition.line}" if definition.file else ""


def current_environment() -> RuntimeEnvironment:
    """Versions in this process, found without importing pyspark, and where its user is."""
    return RuntimeEnvironment(
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        pyspark=_pyspark_version(),
        directory=os.environ.get(CLIENT_DIRECTORY_VARIABLE) or os.getcwd(),
    )


def _pyspark_version() -> str:
    """Version that `pyspark.__version__` would say; empty when it is not installed.

    importlib.metadata says it too, and takes longer to load than a master to take a job.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return ""
    found = re.search(r"__version__\b.*=\s*['\"](.+)['\"]", Path(spec.origin).with_name("version.py").read_text())
    return found[1] if found is not None else ""


def _check_override(parallelism: int | None) -> None:
    if parallelism is not None and (type(parallelism) is not int or parallelism < 1):
        raise InvalidPipeline(f"parallelism {parallelism!r}: must be a whole number of at least 1")


def _default_parallelism(definition: FunctionDefinition, parallelism: int | None) -> int:
    """A source without splits has no share of its input to take, and a result is one: they stay whole."""
    is_whole = definition.kind is FunctionKind.SOURCE and definition.splits is None
    return 1 if is_whole or definition.kind is FunctionKind.RESULT else parallelism or 1


def _is_auto(definition: FunctionDefinition) -> bool:
    """Whether fewer subtasks than the job's parallelism may do its work: what it does on each share is not what it does on several."""
    kinds = (FunctionKind.TRANSFORM, FunctionKind.SINK)
    return definition.parallelism is None and not definition.per_share and definition.kind in kinds


def _values(
    graph: LogicalGraph, given: Mapping[str, object], flags: Sequence[str], require_all: bool
) -> dict[str, WireValue]:
    values = parameter_values(graph.declared, given, flags)
    needed = [name for name, parameter in graph.declared.parameters.items() if parameter.required]
    if require_all and (missing := [name for name in needed if name not in values]):
        raise missing_parameters(missing, graph)
    return values


def _vertex(
    graph: LogicalGraph, chain: Sequence[str], parallelism: Mapping[str, int], code: CodeReference
) -> JobVertex:
    head = graph.functions[chain[0]]
    return JobVertex(
        id=JobVertexID(derived_id("vertex", head.uid)),
        name=" -> ".join(chain),
        functions=tuple(_function(graph, graph.functions[name], code) for name in chain),
        parallelism=parallelism[head.name],
        resources=head.resources,
        max_attempts=head.max_attempts,
        timeout_ms=head.timeout_ms,
        slot_sharing_group=head.slot_sharing_group,
        co_location_group=head.co_location,
        auto_parallelism=all(_is_auto(graph.functions[name]) for name in chain),
    )


def _function(graph: LogicalGraph, definition: FunctionDefinition, code: CodeReference) -> Function:
    arguments = [argument.name for argument in definition.arguments]
    is_noop = definition.kind is FunctionKind.NOOP
    return Function(
        name=definition.name,
        uid=definition.uid,
        kind=definition.kind,
        entry_point="" if is_noop else code.entry_point(definition),
        inputs=tuple(edge.source for edge in graph.inputs(definition.name)),
        parameters=() if is_noop else tuple(name for name in arguments if name in graph.declared.parameters),
        wants_session=SESSION_ARGUMENT in arguments,
        wants_context=CONTEXT_ARGUMENT in arguments,
        location=code.location(definition),
        per_share=definition.per_share,
        splits=definition.splits,
        cached=definition.share == "cache",
    )


def _connections(
    graph: LogicalGraph, chains: Sequence[Sequence[str]], exchanges: Sequence[Exchange], parallelism: Mapping[str, int]
) -> tuple[tuple[IntermediateDataSet, ...], tuple[JobEdge, ...]]:
    """Data sets and edges between vertices. Consumers that read one layout share one data set."""
    vertex_of = {
        name: JobVertexID(derived_id("vertex", graph.functions[chain[0]].uid)) for chain in chains for name in chain
    }
    datasets: dict[DataSetID, IntermediateDataSet] = {}
    edges: list[JobEdge] = []
    for exchange in exchanges:
        if vertex_of[exchange.source] == vertex_of[exchange.target]:
            continue
        dataset = IntermediateDataSet(
            id=_dataset_id(graph, exchange, parallelism[exchange.target]),
            name=exchange.source,
            producer=vertex_of[exchange.source],
        )
        datasets[dataset.id] = dataset
        edges.append(_job_edge(exchange, dataset.id, vertex_of[exchange.target]))
    ranks = {name: rank for rank, name in enumerate(graph.functions)}
    return tuple(sorted(datasets.values(), key=lambda dataset: ranks[dataset.name])), tuple(edges)


def _job_edge(exchange: Exchange, source: DataSetID, target: JobVertexID) -> JobEdge:
    return JobEdge(
        source=source,
        target=target,
        pattern=exchange.distribution.pattern,
        exchange=exchange.mode,
        partitioner=exchange.distribution.partitioner,
        keys=exchange.distribution.keys,
    )


def _dataset_id(graph: LogicalGraph, exchange: Exchange, consumers: int) -> DataSetID:
    layout = exchange.distribution
    readers = 1 if layout.partitioner is Partitioner.BROADCAST else consumers  # all read the same rows, however many
    shares = (readers, layout.partitioner.value, *layout.keys)
    return DataSetID(derived_id("dataset", graph.functions[exchange.source].uid, exchange.mode.value, *shares))
