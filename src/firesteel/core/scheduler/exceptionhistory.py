"""What a job's exception history says of a failure: the root, and what has failed with it. Pure functions."""

from collections.abc import Iterator

import msgspec

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.keptfailures import CONCURRENT_FAILURES_MAX
from firesteel.core.journal.records import NOT_GATHERED
from firesteel.core.scheduler.failover import Failed, FailoverPlan
from firesteel.model.states import ExecutionState
from firesteel.model.views import ExceptionEntry

GATHERED = "The function says no parallelism of its own, so one subtask does it from now on"


def exception_entry(graph: ExecutionGraph, state: JobState, failed: Failed, plan: FailoverPlan) -> ExceptionEntry:
    """The first of the regions that have failed together, with the others of them; a root also with what has failed
    before and is restarted only now, with it."""
    failure = msgspec.structs.replace(failed.failure, verdict=plan.reason)
    if plan.gathered != NOT_GATHERED:
        failure = msgspec.structs.replace(failure, message=f"{failure.message}. {GATHERED}")
    first, *others = (
        ExceptionEntry(
            timestamp_ms=failed.at_ms,
            failure=failure,
            region=region,
            attempt=int(graph.attempt[region]),
            task_manager=failed.worker,
        )
        for region in failed.regions[: CONCURRENT_FAILURES_MAX + 1].tolist()
    )
    concurrent = (*others, *_waiting(graph, state, plan)) if plan.is_root else tuple(others)
    return msgspec.structs.replace(first, concurrent=concurrent[:CONCURRENT_FAILURES_MAX])


def _waiting(graph: ExecutionGraph, state: JobState, plan: FailoverPlan) -> Iterator[ExceptionEntry]:
    """Failures whose regions still wait for a restart, and are part of this one."""
    again = dict.fromkeys(plan.restart or ())
    known = (each for root in state.exceptions for each in root.together())
    told: dict[int, None] = {}
    for entry in known:
        region = entry.region
        is_current = region in again and region in state.restarting and entry.attempt == graph.attempt[region]
        if is_current and region not in told and graph.state_of(region) is ExecutionState.FAILED:
            told[region] = None
            yield msgspec.structs.replace(entry, concurrent=())
