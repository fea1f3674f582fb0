"""Job graphs from a line of text, with ids people can read.

`lines*2 => counts*2 -> result*2`: `->` is pipelined, `|>` blocking and pointwise, `=>` blocking and
all-to-all; `find ?> lines*2`: the subtasks of `lines` draw the input splits that `find` finds; `counts*4?` may have fewer subtasks. Chains are
parted by `;`, a parallelism is said once. What nobody reads is a sink.
"""

import re

from hypothesis import strategies as st

from firesteel.model.ids import DataSetID, JobID, JobVertexID
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    Function,
    FunctionKind,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    Partitioner,
    RuntimeEnvironment,
)
from firesteel.model.resources import ResourceProfile
from firesteel.model.splits import RangeInputFormat
from firesteel.model.tasks import ResultPartition, SinkCommit, TaskOutcome
from firesteel.testing.enumeration import range_enumeration

ARROWS = {
    "->": (DistributionPattern.POINTWISE, ExchangeMode.PIPELINED, Partitioner.FORWARD),
    "|>": (DistributionPattern.POINTWISE, ExchangeMode.BLOCKING, Partitioner.FORWARD),
    "=>": (DistributionPattern.ALL_TO_ALL, ExchangeMode.BLOCKING, Partitioner.REBALANCE),
    "?>": (DistributionPattern.ALL_TO_ALL, ExchangeMode.BLOCKING, Partitioner.SPLITS),
    "~>": (DistributionPattern.ALL_TO_ALL, ExchangeMode.PIPELINED, Partitioner.REBALANCE),
}
"""The last one is refused by every topology."""

JOB = JobID("job")
SPLITS = RangeInputFormat(column="n", lower=0, upper=1, count=1)
SPLIT_COUNT = 12
"""Input splits of every source that has any."""


def job(text: str, job_id: str = "job", attempts: int | None = None, cores: float = 0.0) -> JobGraph:
    """The job graph that `text` means; its data sets have their producers' names."""
    widths: dict[str, int] = {}
    at_most = {word.partition("*")[0] for word in text.replace(";", " ").split() if word.endswith("?")}
    edges: list[JobEdge] = []
    for chain in text.split(";"):
        words = chain.split()
        names = [_declare(word, widths) for word in words[::2]]
        for source, arrow, target in zip(names, words[1::2], names[1:], strict=False):
            pattern, exchange, partitioner = ARROWS[arrow]
            edges.append(
                JobEdge(
                    source=DataSetID(source),
                    target=JobVertexID(target),
                    pattern=pattern,
                    exchange=exchange,
                    partitioner=partitioner,
                )
            )
    read = {edge.source for edge in edges}
    finders = {edge.source for edge in edges if edge.partitioner is Partitioner.SPLITS}
    drawers = {edge.target for edge in edges if edge.partitioner is Partitioner.SPLITS}
    kinds = {name: FunctionKind.TRANSFORM if name in read else FunctionKind.SINK for name in widths}
    kinds.update((name, FunctionKind.SPLITS) for name in widths if name in finders)
    kinds.update((name, FunctionKind.SOURCE) for name in widths if name in drawers)
    return JobGraph(
        job_id=JobID(job_id),
        name=f"the {job_id}",
        vertices=tuple(
            JobVertex(
                id=JobVertexID(name),
                name=name,
                functions=(
                    Function(name=name, uid=name, kind=kinds[name], splits=SPLITS if name in drawers else None),
                ),
                parallelism=width,
                auto_parallelism=name in at_most,
                resources=ResourceProfile(cores, int(cores * 1_024)),
                max_attempts=attempts,
            )
            for name, width in widths.items()
        ),
        datasets=tuple(
            IntermediateDataSet(id=DataSetID(name), name=name, producer=JobVertexID(name))
            for name in widths
            if name in read
        ),
        edges=tuple(edges),
        environment=RuntimeEnvironment(python="3.11", pyspark="4.3.0"),
    )


def _declare(word: str, widths: dict[str, int]) -> str:
    name, _, width = word.partition("*")
    if width or name not in widths:
        widths[name] = int(width.rstrip("?") or 1)
    return name


def outcome(
    graph: JobGraph, vertices: tuple[str, ...], subtask: int, attempt: int, size_bytes: int = -1
) -> TaskOutcome:
    """What an attempt of these vertices' subtask leaves: stored results, and staged outputs of sinks."""
    stored = {edge.source for edge in graph.edges if edge.exchange is ExchangeMode.BLOCKING}
    finders = [v for v in graph.vertices if v.id in vertices and v.functions[0].kind is FunctionKind.SPLITS]
    if finders:
        return TaskOutcome(splits=range_enumeration(SPLIT_COUNT, mark=str(attempt)))
    sinks = {vertex.id for vertex in graph.vertices if vertex.functions[-1].kind is FunctionKind.SINK}
    return TaskOutcome(
        partitions=tuple(
            ResultPartition(
                dataset_id=DataSetID(name),
                subtask=subtask,
                location=f"{name}/{subtask}#{attempt}",
                size_bytes=size_bytes,
            )
            for name in vertices
            if name in stored
        ),
        sinks=tuple(commit_of(name, subtask, attempt) for name in vertices if name in sinks),
    )


def commit_of(name: str, subtask: int = 0, attempt: int = 0) -> SinkCommit:
    """The staged output of a sink."""
    return SinkCommit(
        commit_id=f"{name}/{subtask}",
        vertex_id=JobVertexID(name),
        function=name,
        format="parquet",
        mode="overwrite",
        target=f"out/{name}/{subtask}",
        staging=f"staged/{name}/{subtask}#{attempt}",
        files=("part-0",),
        rows=10,
        size_bytes=100,
    )


@st.composite
def graph_texts(draw: st.DrawFn, vertices_max: int = 6, width_max: int = 4, arrows: str = "-> |> =>") -> str:
    """Text of a graph in which each vertex reads up to two earlier ones, by arrows that their widths allow."""
    count = draw(st.integers(1, vertices_max))
    shared = draw(st.integers(1, width_max))
    widths = [draw(st.sampled_from((shared, draw(st.integers(1, width_max))))) for _ in range(count)]
    chains = [f"v{index}*{width}" for index, width in enumerate(widths)]
    for target in range(1, count):
        for source in draw(st.lists(st.integers(0, target - 1), max_size=2, unique=True)):
            pointwise = widths[source] == widths[target]
            fitting = [arrow for arrow in arrows.split() if pointwise or arrow == "=>"]
            chains.append(f"v{source} {draw(st.sampled_from(fitting))} v{target}")
    return "; ".join(chains)


def explicit_edges(graph: JobGraph) -> list[tuple[str, str, bool]]:
    """Every subtask edge, one by one: (producer `v/i`, consumer `v/j`, whether it is blocking)."""
    width = {vertex.id: vertex.parallelism for vertex in graph.vertices}
    return [
        (f"{edge.source}/{i}", f"{edge.target}/{j}", edge.exchange is ExchangeMode.BLOCKING)
        for edge in graph.edges
        for i in range(width[JobVertexID(str(edge.source))])
        for j in range(width[edge.target])
        if edge.pattern is DistributionPattern.ALL_TO_ALL or i == j
    ]


def explicit_subtasks(graph: JobGraph) -> list[str]:
    """Every subtask as `v/i`."""
    return [f"{vertex.id}/{index}" for vertex in graph.vertices for index in range(vertex.parallelism)]


SUBTASK = re.compile(r"(\w+)/(\d+)")
