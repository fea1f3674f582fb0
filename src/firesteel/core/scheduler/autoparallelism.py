"""How many subtasks do the work of a vertex of which nobody has said it: from the size of what they read, when that is there.

As Flink's AdaptiveBatchScheduler does it; but no more than there are Spark backends, since a backend gives one query all of
its cores. The producers have laid out their results for the most subtasks there may be; each of fewer reads several shares of
neighbouring numbers. What is decided holds for as long as the job lasts, and for all logical regions between which results are
forwarded; but where it turns out that only all rows will do, there is one from then on. Pure functions.
"""

from dataclasses import dataclass

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.topology import LogicalRegion
from firesteel.core.journal.journal import JobState
from firesteel.model.ids import RegionIndex
from firesteel.model.jobgraph import Partitioner
from firesteel.model.states import ExecutionState


@dataclass(slots=True)
class SubtaskLimits:
    """What bounds the number of subtasks that nobody has said."""

    subtask_bytes: int
    """What one is to read; 0: there are as many as may be."""
    backends: int = 0
    """Spark backends that attempts of the job can have, as the ResourceManager has told last; 0: not known."""


def gatherable(graph: ExecutionGraph, state: JobState, region: int) -> list[LogicalRegion]:
    """The logical regions that have as many subtasks as that of a region, when one subtask may do their work that several do;
    else none."""
    alike = [graph.topology.logical[index] for index in graph.topology.logical_of(region).alike]
    counts = [state.subtasks[RegionIndex(each.offset)] for each in alike if each.offset in state.subtasks]
    return alike if all(each.auto_parallelism for each in alike) and 1 not in counts else []


def subtasks_of(
    logical: LogicalRegion, graph: ExecutionGraph, partitions: PartitionTracker, state: JobState, limits: SubtaskLimits
) -> int:
    """How many subtasks do the work of a logical region of which some are about to be scheduled."""
    group = [graph.topology.logical[index] for index in logical.alike]
    for each in group:
        if each.offset in state.subtasks:  # decided, maybe by a master with other options
            return state.subtasks[RegionIndex(each.offset)]
    if not limits.subtask_bytes or not logical.auto_parallelism:
        return logical.parallelism
    is_open = all(each.auto_parallelism and _is_untouched(each, graph) for each in group)
    if not is_open or (size := _bytes_read(group, graph, partitions)) < 0:  # asked once a group, not once a subtask
        return logical.parallelism
    worthwhile = min(-(-size // limits.subtask_bytes), limits.backends or logical.parallelism)
    return min(logical.parallelism, max(1, worthwhile))


def _is_untouched(logical: LogicalRegion, graph: ExecutionGraph) -> bool:
    """Whether none of it has begun: else it is decided, for as many subtasks as there may be."""
    is_created = graph.state[logical.rows] == ExecutionState.CREATED
    return bool(is_created.all()) and not graph.attempt[logical.rows].any()


def _bytes_read(group: list[LogicalRegion], graph: ExecutionGraph, partitions: PartitionTracker) -> int:
    """Bytes that there are already of what is shared out among their subtasks; -1 when that is not known, or nothing is.
    What each of them reads whole costs no less for being read by fewer."""
    members = {each.index for each in group}
    shared = {
        (given.edge.source, given.producer): None
        for logical in group
        for given in logical.inputs
        if given.producer not in members and given.edge.partitioner is not Partitioner.BROADCAST
    }
    sizes = [partitions.bytes_of(dataset, graph.topology.logical[producer]) for dataset, producer in shared]
    return -1 if min(sizes, default=-1) < 0 else sum(sizes)
