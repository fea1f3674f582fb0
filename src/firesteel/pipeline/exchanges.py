"""Exchanges: how every edge is carried, fused into one plan (pipelined) or through a stored result (blocking)."""

from collections.abc import Mapping, Sequence

import msgspec

from firesteel.model.jobgraph import DistributionPattern, ExchangeMode, Partitioner
from firesteel.model.labels import labels_text
from firesteel.model.splits import is_moving
from firesteel.pipeline.distributions import FORWARD, Distribution
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.logical import LogicalEdge, LogicalGraph


class Exchange(msgspec.Struct, frozen=True):
    """An edge with everything decided."""

    source: str
    target: str
    distribution: Distribution
    mode: ExchangeMode


def stream_exchanges(graph: LogicalGraph) -> tuple[Exchange, ...]:
    """The exchanges of a streaming pipeline: every edge is fused into the query of each sink behind it."""
    return tuple(Exchange(edge.source, edge.target, FORWARD, ExchangeMode.PIPELINED) for edge in graph.edges)


def plan_exchanges(graph: LogicalGraph, parallelism: Mapping[str, int]) -> tuple[Exchange, ...]:
    """One exchange per edge of the graph, in its order. Raises InvalidPipeline.

    ALL_TO_ALL is blocking. POINTWISE is pipelined, unless the result is stored for several
    consumers, made of input splits draw by draw, its ends are in different slot sharing groups, or
    fusing them would make pipelined regions wait for each other.
    """
    distributions = [_distribution(edge, graph, parallelism) for edge in graph.edges]
    stored = _stored_results(graph)
    wishes = [
        edge.source not in stored
        and not _draws_splits(graph, edge.source, parallelism)
        and distribution.pattern is DistributionPattern.POINTWISE
        and graph.functions[edge.source].slot_sharing_group == graph.functions[edge.target].slot_sharing_group
        and graph.functions[edge.source].resources.labels == graph.functions[edge.target].resources.labels
        for edge, distribution in zip(graph.edges, distributions, strict=True)
    ]
    fused = _fused(graph, wishes)
    for index, edge in enumerate(graph.edges):
        if graph.functions[edge.source].share == "cache" and not fused[index]:
            raise _not_cached(graph, edge, distributions[index], parallelism)
    return tuple(
        Exchange(edge.source, edge.target, distribution, ExchangeMode.PIPELINED if fuse else ExchangeMode.BLOCKING)
        for edge, distribution, fuse in zip(graph.edges, distributions, fused, strict=True)
    )


def _distribution(edge: LogicalEdge, graph: LogicalGraph, parallelism: Mapping[str, int]) -> Distribution:
    source, target = parallelism[edge.source], parallelism[edge.target]
    declared = edge.distribution
    definition = graph.functions[edge.target]
    if source == target == 1:
        return FORWARD  # One share at each end: every distribution is the same.
    if declared is None and target == 1:
        return Distribution(Partitioner.REBALANCE)  # All shares are gathered in one.
    if declared is None:
        raise definition.error(
            f"parallelism is {target}: say how the rows of {edge.source!r} reach the subtasks, with"
            f' inputs={{"{edge.source}": hash_by(...), rebalance(), broadcast() or forward()}}'
        )
    if declared == FORWARD and source != target:
        raise definition.error(
            f"input {edge.source!r} is forward() from parallelism {source} to {target}:"
            " make them equal, or use rebalance()"
        )
    return declared


def _stored_results(graph: LogicalGraph) -> set[str]:
    """Functions whose result is kept, because several read it or because their author says so."""
    consumers = [edge.source for edge in graph.edges]
    return {
        name
        for name, definition in graph.functions.items()
        if definition.share == "store" or (definition.share is None and consumers.count(name) > 1)
    }


def _not_cached(
    graph: LogicalGraph, edge: LogicalEdge, distribution: Distribution, parallelism: Mapping[str, int]
) -> InvalidPipeline:
    """A cached result is in the session of one attempt, so what reads it must be in the same region."""
    source, target = graph.functions[edge.source], graph.functions[edge.target]
    if _draws_splits(graph, edge.source, parallelism):
        reason = "its input splits are drawn one batch after another, and a result is stored for each"
    elif distribution.pattern is not DistributionPattern.POINTWISE:
        reason = f"{target.name!r} has the rows distributed by {distribution.partitioner.value} over its subtasks"
    elif source.slot_sharing_group != target.slot_sharing_group:
        reason = f"{target.name!r} is in another slot sharing group"
    elif source.resources.labels != target.resources.labels:
        reason = f"{target.name!r} runs on={labels_text(target.resources.labels)!r}"
    else:
        reason = f"fused with {target.name!r} it would wait for a result that is made from its own"
    return source.error(
        f"share='cache' keeps the result in the attempt that makes it, but {target.name!r} runs in another region:"
        f" {reason}; say share='store', which every region can read, or share='recompute', or give both functions the same"
        " parallelism and the input fs.forward()"
    )


def _draws_splits(graph: LogicalGraph, name: str, parallelism: Mapping[str, int]) -> bool:
    """Whether the function runs once a draw, and what reads it must not."""
    splits = graph.functions[name].splits
    return splits is not None and (parallelism[name] > 1 or is_moving(splits))


def _fused(graph: LogicalGraph, wishes: Sequence[bool]) -> list[bool]:
    """Flags of the edges that are pipelined, of those that wish to be, so that regions never wait for each other.

    Goes through the edges by consumer, in topological order, and joins both ends' regions when
    no other way leads from the one to the other: such a way would leave the joined region and
    come back to it, or be a blocking edge within it.
    """
    regions = {name: {name} for name in graph.functions}
    consumers: dict[str, list[int]] = {name: [] for name in graph.functions}
    inputs: dict[str, int] = dict.fromkeys(graph.functions, 0)
    for index, edge in enumerate(graph.edges):
        consumers[edge.source].append(index)
        inputs[edge.target] += 1
    fused = list(wishes)
    for index, edge in enumerate(graph.edges):
        source, target = regions[edge.source], regions[edge.target]
        if not wishes[index] or source is target:
            continue
        only_way = len(target) == 1 and inputs[edge.target] == 1
        if not only_way and _leads_elsewhere(graph, consumers, (edge.source, edge.target), regions, fused):
            fused[index] = False
            continue
        source |= target
        for name in target:
            regions[name] = source
    return fused


def _leads_elsewhere(
    graph: LogicalGraph,
    consumers: Mapping[str, Sequence[int]],
    ends: tuple[str, str],
    regions: Mapping[str, set[str]],
    fused: Sequence[bool],
) -> bool:
    """Whether a way from the region of one end to that of the other has a blocking edge or a function of neither.

    A region waits for the inputs of all its functions: a way that reaches one of them goes on from each.
    """
    source, target = (regions[name] for name in ends)
    stack = list(source)
    seen = set(stack)
    while stack:
        name = stack.pop()
        for index in consumers[name]:
            consumer = graph.edges[index].target
            if consumer in target and (name not in source or not fused[index]):
                return True
            if consumer not in target and consumer not in seen:
                seen |= regions[consumer]
                stack += regions[consumer]
    return False
