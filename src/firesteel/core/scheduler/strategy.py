"""PipelinedRegionSchedulingStrategy: which regions may run, from what is finished. Pure functions."""

import numpy as np

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.topology import LogicalRegion, Regions
from firesteel.model.states import ExecutionState


def schedulable(graph: ExecutionGraph, partitions: PartitionTracker) -> Regions:
    """All regions that are CREATED and whose blocking inputs can be read, ascending."""
    return _join([_consumable(logical, graph, partitions) for logical in graph.topology.logical])


def schedulable_after(graph: ExecutionGraph, partitions: PartitionTracker, finished: Regions) -> Regions:
    """Those of them that may wait for one of `finished` (ascending); no others are looked at."""
    touched = {target: None for logical, _ in graph.topology.split(finished) for target, _ in logical.consumers}
    return _join([_consumable(graph.topology.logical[index], graph, partitions) for index in sorted(touched)])


def _consumable(logical: LogicalRegion, graph: ExecutionGraph, partitions: PartitionTracker) -> Regions:
    ready = graph.state[logical.rows] == ExecutionState.CREATED
    for given in logical.inputs:
        producer = graph.topology.logical[given.producer]
        available = partitions.available[producer.rows]
        if not given.all_to_all:
            ready &= available
        elif not available.all():
            return np.empty(0, dtype=np.int64)
    return np.flatnonzero(ready) + logical.offset


def _join(parts: list[Regions]) -> Regions:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
