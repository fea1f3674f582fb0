"""Whether a job graph that somebody has sent means anything: what everything behind it takes for granted."""

import re
from collections.abc import Iterable

import msgspec

from firesteel.core.scheduler.backoff import restart_strategy
from firesteel.model.branches import branch_of
from firesteel.model.interpreters import NoInterpreter, interpreter_of
from firesteel.model.jobgraph import (
    ARCHIVE_ENDINGS,
    ARTIFACT_KINDS,
    ExchangeMode,
    FunctionKind,
    InvalidJobGraph,
    JobGraph,
    JobType,
    Partitioner,
    is_plain_name,
)
from firesteel.model.labels import is_labels
from firesteel.model.options import BLOB_SIZE_MAX, BRANCH, CLAIM_MODE, RESTORE_PATH, Configuration, ConfigurationError
from firesteel.model.unsupported import (
    LEGACY_CLAIM,
    NO_STREAM_CACHE,
    STREAMING_EDGE,
    divided_result,
    partial_resources,
    streaming_function,
    undivided_source,
)

VERTICES_MAX = 2_000
"""More are not a pipeline that somebody has written."""
NAME_CHARACTERS_MAX = 1_000
"""Most characters of a job's name: every overview has it."""

EMPTY = Configuration()
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_job_graph(graph: JobGraph, cluster: Configuration = EMPTY) -> None:
    """Raises InvalidJobGraph naming what is wrong, on a cluster of this configuration. Whether its regions wait in a
    circle, Topology says."""
    _check_names(graph)
    _check_vertices(graph)
    if graph.job_type is JobType.STREAMING:
        _check_stream(graph)
    _check_functions(graph)
    _check_datasets(graph)
    _check_edges(graph)
    _check_artifacts(graph, cluster.get_option(BLOB_SIZE_MAX))
    _check_interpreter(graph)
    _require(graph.client_heartbeat_timeout_ms >= 0, "its client is to be heard of within a negative time")
    try:
        msgspec.msgpack.encode(graph)
    except OverflowError:
        raise InvalidJobGraph("the job graph can't be run: a number in it needs more than 64 bits") from None
    is_stream = graph.job_type is JobType.STREAMING
    try:
        configuration = Configuration(graph.configuration)
        is_restored = bool(configuration.get_option(RESTORE_PATH))
        claim_mode = configuration.get_option(CLAIM_MODE)
        restart_strategy(cluster, configuration, is_stream=is_stream)
        branch_of(graph.configuration)
    except ConfigurationError as error:
        raise InvalidJobGraph(f"the job's configuration: {error}") from None
    except msgspec.MsgspecError as error:
        raise InvalidJobGraph(f"the job's configuration: {BRANCH.key} is no note of a branch ({error})") from None
    _require(claim_mode != "LEGACY", f"{CLAIM_MODE.key}: {LEGACY_CLAIM}")
    _require(is_stream or not is_restored, f"a batch job starts from no savepoint: leave {RESTORE_PATH.key} out")


def _check_names(graph: JobGraph) -> None:
    """They are shown on terminals."""
    size = len(graph.name)
    _require(size <= NAME_CHARACTERS_MAX, f"its name has {size} characters, and {NAME_CHARACTERS_MAX} are possible")
    functions = (function.name for vertex in graph.vertices for function in vertex.functions)
    for name in (graph.name, *(vertex.name for vertex in graph.vertices), *functions):
        _require(name.isprintable(), f"the name {name!r} has characters that can't be printed")


def _check_vertices(graph: JobGraph) -> None:
    count = len(graph.vertices)
    _require(graph.vertices, "it has no vertices")
    _require(count <= VERTICES_MAX, f"it has {count} vertices, and {VERTICES_MAX} are possible")
    _check_unique("vertex", (vertex.id for vertex in graph.vertices))
    functions = [function for vertex in graph.vertices for function in vertex.functions]
    _check_unique("function", (function.name for function in functions))
    for vertex in graph.vertices:
        _require(vertex.functions, f"vertex {vertex.name} has no functions")
        _require(vertex.parallelism >= 1, f"vertex {vertex.name} has parallelism {vertex.parallelism}")
        is_alone = len(graph.vertices) == len(vertex.functions) == vertex.parallelism == 1
        is_script = any(function.is_script for function in vertex.functions)
        _require(is_alone or not is_script, f"vertex {vertex.name} has a script, which must be alone in its job")
        has_code = any(artifact.kind == "code" for artifact in graph.artifacts)
        _require(has_code or not is_script, f"no artifact has the code of script {vertex.name}")
        attempts, timeout_ms, size = vertex.max_attempts, vertex.timeout_ms, vertex.resources
        _require(attempts is None or attempts >= 1, f"vertex {vertex.name} may be tried {attempts} times")
        _require(timeout_ms is None or timeout_ms >= 1, f"vertex {vertex.name} may run for {timeout_ms} ms")
        _require(min(size.cpu_cores, size.memory_mib) >= 0, f"vertex {vertex.name} needs a slot of {size}")
        _require(not size.is_partial, f"vertex {vertex.name}: {partial_resources(size.cpu_cores)}")
        _require(is_labels(size.labels), f"vertex {vertex.name} asks for {size.named}: no such label can be")


def _check_functions(graph: JobGraph) -> None:
    """Functions that several subtasks run have a share each."""
    for vertex in graph.vertices:
        for function in vertex.functions if vertex.parallelism > 1 else ():
            is_whole = function.kind is FunctionKind.SOURCE and function.splits is None
            _require(not is_whole, f"{function.name}: {undivided_source(vertex.parallelism)}")
            is_result = function.kind is FunctionKind.RESULT
            _require(not is_result, f"{function.name}: {divided_result(vertex.parallelism)}")


def _check_stream(graph: JobGraph) -> None:
    """Each sink is a query, whose checkpoints are found by the sink's uid."""
    functions = [(function, vertex.parallelism) for vertex in graph.vertices for function in vertex.functions]
    for function, parallelism in functions:
        refusal = streaming_function(function.kind, function.uid, parallelism, function.splits)
        _require(not refusal, f"{function.name}: {refusal}")
        _require(not function.cached, f"{function.name}: {NO_STREAM_CACHE}")
    _require(all(edge.exchange is ExchangeMode.PIPELINED for edge in graph.edges), STREAMING_EDGE)
    sinks = [function for function, _ in functions if function.kind is FunctionKind.SINK]
    _check_unique("sink uid", (sink.uid for sink in sinks))
    _require(sinks, "a streaming pipeline without a sink would run nothing")


def _check_datasets(graph: JobGraph) -> None:
    vertices = {vertex.id for vertex in graph.vertices}
    _check_unique("data set", (dataset.id for dataset in graph.datasets))
    for dataset in graph.datasets:
        _require(dataset.producer in vertices, f"data set {dataset.name} is of an unknown vertex {dataset.producer}")


def _check_edges(graph: JobGraph) -> None:
    producer = {dataset.id: dataset.producer for dataset in graph.datasets}
    position = {vertex.id: index for index, vertex in enumerate(graph.vertices)}
    for edge in graph.edges:
        _require(edge.source in producer, f"an edge reads an unknown data set {edge.source}")
        _require(edge.target in position, f"an edge leads to an unknown vertex {edge.target}")
        in_order = position[producer[edge.source]] < position[edge.target]
        _require(in_order, f"vertex {edge.target} reads a vertex that comes after it")
        _require(edge.partitioner is not Partitioner.HASH or edge.keys, "an edge by hash has no keys")


def _check_artifacts(graph: JobGraph, limit_mib: int) -> None:
    """Names of those in a working directory become paths on workers, which take no larger ones."""
    placed = [artifact for artifact in graph.artifacts if artifact.is_placed]
    for artifact in graph.artifacts:
        _require(_SHA256.fullmatch(artifact.sha256), f"artifact {artifact.name}: {artifact.sha256!r} is no SHA-256")
        _require(artifact.kind in ARTIFACT_KINDS, f"artifact {artifact.name} is of an unknown kind {artifact.kind!r}")
        size = f"{artifact.size_bytes} bytes, and {BLOB_SIZE_MAX.key} of the cluster is {limit_mib} MiB"
        _require(artifact.size_bytes <= limit_mib << 20, f"artifact {artifact.name} has {size}")
    for artifact in placed:
        _require(all(map(is_plain_name, artifact.name.split("#", 1))), f"artifact {artifact.name!r} is no plain name")
        known = artifact.kind == "file" or artifact.ending
        _require(known, f"artifact {artifact.name} ends in none of {', '.join(ARCHIVE_ENDINGS)}")
    _check_unique("artifact", (artifact.target for artifact in placed))


def _check_interpreter(graph: JobGraph) -> None:
    try:
        interpreter_of(graph)
    except NoInterpreter as error:
        raise InvalidJobGraph(f"the job graph can't be run: {error}") from None


def _check_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        _require(name not in seen, f"two {what} entries are called {name}")
        seen.add(name)


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise InvalidJobGraph(f"the job graph can't be run: {problem}")
