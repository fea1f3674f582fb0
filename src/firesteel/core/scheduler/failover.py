"""Region failover: what has to run again when regions fail. Pure functions of the graph.

The rule is that of Flink's RestartPipelinedRegionFailoverStrategy: the failed regions; the producers
of results they need and that can't be read; and whatever has read from a region that runs again,
since a producer that runs twice need not produce the same rows in the same order. With the failover
strategy `full` it is all that has run.
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.topology import LogicalRegion, Regions
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import NOT_GATHERED, RestartPlanned
from firesteel.core.scheduler.autoparallelism import gatherable
from firesteel.core.scheduler.backoff import BackoffState, RestartStrategy
from firesteel.core.scheduler.deaths import told_of_death
from firesteel.core.scheduler.outages import Outage, OutagePatience
from firesteel.core.scheduler.quarantine import had_settled
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.states import ExecutionState
from firesteel.model.views import ExceptionEntry

if TYPE_CHECKING:
    from firesteel.core.scheduler.settings import SchedulerSettings


@dataclass(frozen=True, slots=True)
class FailoverPolicy:
    """How a job meets failures, as its settings say."""

    strategy: RestartStrategy
    patience: OutagePatience
    retry_delay_ms: int
    """Time before a region runs again that has retries of its own."""
    restarts_all: bool
    """Failover strategy `full`: all that has run runs again."""
    gathers: bool = False
    """One subtask may take over where nobody has said how many there are."""


def policy_of(settings: "SchedulerSettings", patience: OutagePatience) -> FailoverPolicy:
    delay_ms, gathers = settings.retry_delay_ms, settings.subtask_bytes > 0
    return FailoverPolicy(settings.strategy, patience, delay_ms, settings.restarts_all, gathers)


@dataclass(frozen=True, slots=True)
class Failed:
    """What is to be planned for: regions whose attempts have failed of one cause."""

    regions: Regions
    lost: Regions
    """Regions that had finished, and whose stored results turn out not to be readable."""
    failure: FailureInfo
    at_ms: int
    worker: ResourceID | None = None
    """Where the attempts were, if they were somewhere."""


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """The decision after a failure. `restart` is None when the job is to fail, and `reason` says why; it is empty where
    nothing would ever have been run again."""

    restart: tuple[int, ...] | None
    delay_ms: int = 0
    reason: str = ""
    backoff: BackoffState | None = None
    """What the restart strategy remembers from now on; None when nothing is restarted."""
    retried: tuple[RegionIndex, ...] = ()
    """Regions that use up one of their own retries."""
    is_root: bool = True
    """False: the restart that is under way answers this failure too."""
    outage: Outage | None = None
    """What is remembered of the storage that does not answer, where the failure is of that."""
    gathered: RegionIndex = NOT_GATHERED
    """First region of a logical region whose work one subtask does from now on."""


def plan_failover(
    graph: ExecutionGraph, partitions: PartitionTracker, policy: FailoverPolicy, state: JobState, failed: Failed
) -> FailoverPlan:
    """What to do about `failed`.

    Regions with a limit on their attempts are answered by that alone, all others by the job's restart strategy: once
    for all that have failed together, and once for all that were in a Spark backend which has died, though workers tell of
    one after the other. Both must allow it where both are concerned, and the longer time counts. What has failed of a
    storage that does not answer uses up neither, as long as that is waited for. What can be done with all rows only is done by
    one subtask from now on, where nobody has said that there are more.
    """
    if failed.failure.needs_all and policy.gathers:
        alike = gatherable(graph, state, int(failed.regions[0]))
        if alike:
            rows = np.concatenate([logical.regions() for logical in alike])
            again = regions_to_restart(graph, partitions, rows)
            first = RegionIndex(alike[0].offset)
            return FailoverPlan(tuple(again.tolist()), backoff=state.remembered, gathered=first)
    if not failed.failure.may_pass:
        return _by_limits(graph, partitions, policy, state, failed)
    first, told = RegionIndex(int(failed.regions[0])), failed.failure.shown_message()
    waiting = policy.patience.notify_failure(state.outage, told, first, failed.at_ms)
    if isinstance(waiting, str):
        plan = _by_limits(graph, partitions, policy, state, failed)
        reason = "; ".join(filter(None, (waiting, plan.reason))) if plan.restart is None else ""
        return dataclasses.replace(plan, reason=reason, outage=state.outage)
    return FailoverPlan(
        _again(graph, partitions, policy, failed),
        waiting.delay_ms,
        backoff=state.remembered,
        is_root=waiting.is_new_attempt,
        outage=waiting.outage,
    )


def _by_limits(
    graph: ExecutionGraph, partitions: PartitionTracker, policy: FailoverPolicy, state: JobState, failed: Failed
) -> FailoverPlan:
    """By retries and by the restart strategy."""
    limits = attempt_limits(graph, failed.regions)
    is_unlimited = len(limits) < len(failed.regions)
    if failed.failure.kind is FailureKind.NON_RECOVERABLE:
        may_restart = any(limit > 1 for limit, _ in limits.values()) or (
            is_unlimited and bool(policy.strategy.describe())
        )
        return FailoverPlan(None, reason="running it again can't help" if may_restart else "")
    for region, (limit, name) in limits.items():
        if state.retried.get(region, 0) + 1 >= limit:
            return FailoverPlan(None, reason=f"all {limit} attempts of {name} are used up" if limit > 1 else "")
    told = told_of_death(state, failed.failure, failed.worker, failed.regions.tolist())
    delay_ms, backoff, is_root = policy.retry_delay_ms if limits else 0, state.remembered, not told
    counted = _without_retries(graph, told) if is_unlimited else []
    if counted:
        delay_ms = max(delay_ms, *(state.restarting.get(region, failed.at_ms) - failed.at_ms for region in counted))
    elif is_unlimited:
        answer = policy.strategy.notify_failure(backoff, failed.at_ms)
        if answer.delay_ms is None:
            return FailoverPlan(None, reason=policy.strategy.describe())
        delay_ms, backoff = max(delay_ms, answer.delay_ms), answer.state
        is_root = is_root and (answer.is_new_attempt or bool(limits))
    return FailoverPlan(_again(graph, partitions, policy, failed), delay_ms, "", backoff, tuple(limits), is_root)


def _without_retries(graph: ExecutionGraph, regions: tuple[RegionIndex, ...]) -> list[RegionIndex]:
    """Those whose failures are answered by the restart strategy."""
    limits = attempt_limits(graph, np.array(regions, dtype=np.int64))
    return [region for region in regions if region not in limits]


def _again(
    graph: ExecutionGraph, partitions: PartitionTracker, policy: FailoverPolicy, failed: Failed
) -> tuple[int, ...]:
    everywhere = np.arange(len(graph.state)) if policy.restarts_all else np.union1d(failed.regions, failed.lost)
    return tuple(regions_to_restart(graph, partitions, everywhere).tolist())


def restart_record(
    plan: FailoverPlan, entry: ExceptionEntry, state: JobState, at_ms: int, *, is_stream: bool
) -> RestartPlanned:
    """What the journal holds of a plan to restart after the failure of the entry."""
    assert plan.restart is not None, "a job that is to fail restarts nothing"
    return RestartPlanned(
        at_ms=at_ms,
        entry=entry,
        regions=tuple(map(RegionIndex, plan.restart)),
        due_ms=at_ms + plan.delay_ms,
        restarts=state.restarts + plan.is_root,
        backoff=plan.backoff,
        retried=plan.retried,
        is_root=plan.is_root,
        outage=plan.outage,
        had_settled=had_settled(state, RegionIndex(entry.region), is_stream=is_stream),
        gathered=plan.gathered,
    )


def attempt_limits(graph: ExecutionGraph, regions: Regions) -> dict[RegionIndex, tuple[int, str]]:
    """Those that have a limit on their attempts, with it and with the name of the vertex that states it."""
    limits: dict[RegionIndex, tuple[int, str]] = {}
    for logical, part in graph.topology.split(regions):
        stated = [(vertex.max_attempts, vertex.name) for vertex in logical.vertices if vertex.max_attempts is not None]
        if stated:
            limits.update((RegionIndex(region), min(stated)) for region in part.tolist())
    return limits


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
    mine = marked[logical.rows]
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
