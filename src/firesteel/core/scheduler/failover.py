"""Region failover: what has to run again when regions fail. Pure functions of the graph.

The rule is that of Flink's RestartPipelinedRegionFailoverStrategy: the failed regions; the producers
of results they need and that can't be read; and whatever has read from a region that runs again,
since a producer that runs twice need not produce the same rows in the same order.
"""

from dataclasses import dataclass

import numpy as np

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.topology import LogicalRegion, Regions
from firesteel.core.scheduler.backoff import RestartStrategy
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.states import ExecutionState


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """The decision after a failure. `restart` is None when the job is to fail, and `reason` says why."""

    restart: tuple[int, ...] | None
    delay_ms: int = 0
    reason: str = ""


def plan_failover(
    graph: ExecutionGraph,
    partitions: PartitionTracker,
    failed: Regions,
    policy: tuple[FailureInfo, RestartStrategy, int],
) -> FailoverPlan:
    """What to do about `failed`; `policy` is the cause, the strategy, and the job's restarts so far."""
    failure, strategy, restarts = policy
    if failure.kind is FailureKind.NON_RECOVERABLE:
        return FailoverPlan(None, reason="running it again can't help")
    for logical, part in graph.topology.split(failed):
        limit = min((v.max_attempts for v in logical.vertices if v.max_attempts is not None), default=None)
        if limit is not None and int(graph.attempt[part].max()) + 1 >= limit:
            return FailoverPlan(None, reason=f"all {limit} attempts of {logical.vertices[-1].name} are used up")
    delay_ms = strategy.delay_ms(restarts)
    if delay_ms is None:
        return FailoverPlan(None, reason=strategy.describe())
    regions = regions_to_restart(graph, partitions, failed)
    return FailoverPlan(tuple(regions.tolist()), delay_ms)


def regions_to_restart(graph: ExecutionGraph, partitions: PartitionTracker, failed: Regions) -> Regions:
    """Regions that must run again, ascending; those that have not run yet are left out.

    Costs a few passes over the columns of the logical regions that are touched.
    """
    marked = np.zeros(len(graph.state), dtype=np.bool_)
    marked[failed] = True
    pending = {logical.index: None for logical, _ in graph.topology.split(failed)}
    while pending:
        logical = graph.topology.logical[next(iter(pending))]
        del pending[logical.index]
        for index, rows in _reached(logical, graph, partitions, marked):
            if not marked[rows].all():
                marked[rows] = True
                pending[index] = None
    marked &= graph.state != ExecutionState.CREATED
    return np.flatnonzero(marked)


def _reached(
    logical: LogicalRegion, graph: ExecutionGraph, partitions: PartitionTracker, marked: np.ndarray
) -> list[tuple[int, Regions]]:
    """What the marked regions of a logical region pull in: (logical region, its rows)."""
    mine = marked[logical.offset : logical.offset + logical.parallelism]
    found: list[tuple[int, Regions]] = []
    for given in logical.inputs:
        producer = graph.topology.logical[given.producer]
        rows = producer.regions()
        missing = ~partitions.available[rows]
        found.append((producer.index, rows[missing if given.all_to_all else missing & mine]))
    for index, all_to_all in logical.consumers:
        rows = graph.topology.logical[index].regions()
        started = graph.state[rows] != ExecutionState.CREATED
        found.append((index, rows[started if all_to_all else started & mine]))
    return [(index, rows) for index, rows in found if len(rows)]
