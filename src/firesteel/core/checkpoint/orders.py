"""Queries of a job's attempts, as workers are told of them, and what there is of a savepoint that they are told to write."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from firesteel.core.execution.topology import LogicalRegion
from firesteel.core.scheduler.executions import Executions
from firesteel.model.ids import ResourceID
from firesteel.model.jobgraph import FunctionKind
from firesteel.model.streams import SavepointQueries


def queries_of(executions: Executions, logical: LogicalRegion) -> SavepointQueries:
    """The queries of a region's current attempt: one for each of its sinks."""
    functions = [function for vertex in logical.vertices for function in vertex.functions]
    uids = tuple(function.uid for function in functions if function.kind is FunctionKind.SINK)
    attempt = executions.graph.attempt_id(logical.offset)
    return SavepointQueries(region=attempt.region, attempt=attempt.attempt, uids=uids)


@dataclass(frozen=True, slots=True)
class Looking:
    """All queries of a job, by the worker of those that are there that is to look at them."""

    queries: dict[ResourceID, tuple[SavepointQueries, ...]]
    """By the worker that each is, or was, on; those that have ended on one that is gone by another."""
    deputy: ResourceID | None = None
    """Who looks at these: it finds their checkpoints where all workers share them."""


def looking_of(executions: Executions, workers: Collection[ResourceID]) -> Looking:
    """One query at least is on one of `workers`."""
    found: dict[ResourceID, tuple[SavepointQueries, ...]] = {}
    left: tuple[SavepointQueries, ...] = ()
    for logical in executions.topology.logical:
        worker = executions.graph.worker_of(logical.offset)
        assert worker is not None, "all attempts were deployed"
        if worker in workers:
            found[worker] = (*found.get(worker, ()), queries_of(executions, logical))
        else:
            left = (*left, queries_of(executions, logical))
    if not left:
        return Looking(found)
    deputy = next(iter(found))
    found[deputy] = (*found[deputy], *left)
    return Looking(found, deputy)


def is_of_order(held: Mapping[str, int], wanted: Iterable[SavepointQueries]) -> bool:
    """Whether a savepoint that a worker finds where it is to write one is that one, written before: `held` are its queries'
    attempts, by uid. One that was given up is of attempts before: the queries have gone on since."""
    return held == {uid: each.attempt for each in wanted for uid in each.uids}
