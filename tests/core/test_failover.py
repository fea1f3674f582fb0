"""What may run, and what must run again, against references that look at one subtask edge after the other."""

from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.topology import Topology
from firesteel.core.journal.journal import JobState, fold
from firesteel.core.journal.records import RegionsDeployed, RegionsEnded
from firesteel.core.scheduler.backoff import BackoffState, FixedDelay, NoRestart, RestartStrategy
from firesteel.core.scheduler.exceptionhistory import exception_entry
from firesteel.core.scheduler.failover import (
    Failed,
    FailoverPlan,
    FailoverPolicy,
    plan_failover,
    regions_to_restart,
    restart_record,
)
from firesteel.core.scheduler.outages import OUTAGES_MAX, RETRY_MAX_MS, Outage, OutagePatience
from firesteel.core.scheduler.strategy import schedulable, schedulable_after
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskOutcome
from tests.core.graphs import JOB, explicit_edges, graph_texts, job

USER = FailureInfo(kind=FailureKind.USER, message="the user's code raised")


@dataclass
class Situation:
    """A graph in some state: `started` regions have an attempt, `available` results can be read."""

    graph: ExecutionGraph
    partitions: PartitionTracker
    reads: list[tuple[int, int]]
    """(producer region, consumer region), one for each pair."""

    def state(self, region: int) -> ExecutionState:
        return self.graph.state_of(region)


def situation(text: str, states: list[ExecutionState], available: list[bool]) -> Situation:
    """The graph with its regions in these states."""
    topology = Topology(job(text))
    graph, partitions = ExecutionGraph(topology), PartitionTracker(topology)
    for region in range(topology.region_count):
        graph.restore(np.array([region]), states[region])
        if available[region]:
            partitions.register(RegionIndex(region), TaskOutcome())
    offset = {vertex.id: topology.by_vertex[vertex.id].offset for vertex in topology.graph.vertices}
    index = {f"{name}/{i}": offset[name] + i for name in offset for i in range(topology.by_vertex[name].parallelism)}
    pairs = [(index[source], index[target]) for source, target, blocking in explicit_edges(topology.graph) if blocking]
    return Situation(graph, partitions, pairs)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Any graph, any states, any results that can be read."""
    text = draw(graph_texts())
    try:
        count = Topology(job(text)).region_count
    except InvalidJobGraph:
        assume(False)
        raise
    some = st.sampled_from((ExecutionState.CREATED, ExecutionState.RUNNING, ExecutionState.FINISHED))
    states = draw(st.lists(some, min_size=count, max_size=count))
    readable = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return situation(text, states, readable)


def naive_schedulable(here: Situation) -> list[int]:
    """CREATED regions each of whose producers can be read."""
    return [
        region
        for region in range(len(here.graph.state))
        if here.state(region) is ExecutionState.CREATED
        and all(here.partitions.available[source] for source, target in here.reads if target == region)
    ]


def naive_restart(here: Situation, failed: list[int]) -> list[int]:
    """Grow the failed set until it has unreadable producers and started consumers of all in it."""
    again = set(failed)
    while True:
        producers = {s for s, t in here.reads if t in again and not here.partitions.available[s]}
        consumers = {t for s, t in here.reads if s in again and here.state(t) is not ExecutionState.CREATED}
        if producers | consumers <= again:
            return sorted(region for region in again if here.state(region) is not ExecutionState.CREATED)
        again |= producers | consumers


@given(situations())
def test_a_region_may_run_when_all_it_reads_can_be_read(here: Situation) -> None:
    assert schedulable(here.graph, here.partitions).tolist() == naive_schedulable(here)


@given(situations(), st.data())
def test_what_finished_lets_its_consumers_run_and_nothing_else(here: Situation, data: st.DataObject) -> None:
    done = sorted(data.draw(st.sets(st.integers(0, len(here.graph.state) - 1))))
    found = schedulable_after(here.graph, here.partitions, np.array(done, dtype=np.int64)).tolist()
    behind = {target for source, target in here.reads if source in done}
    assert set(naive_schedulable(here)) & behind <= set(found) <= set(naive_schedulable(here))


@given(situations(), st.data())
def test_what_must_run_again_is_the_closure_over_every_edge(here: Situation, data: st.DataObject) -> None:
    failed = sorted(data.draw(st.sets(st.integers(0, len(here.graph.state) - 1), min_size=1)))
    found = regions_to_restart(here.graph, here.partitions, np.array(failed)).tolist()
    assert found == naive_restart(here, failed)


@given(situations(), st.data())
def test_what_ran_well_and_is_not_reached_runs_on(here: Situation, data: st.DataObject) -> None:
    """Invariant 7: with all results readable, only the failed regions and their readers run again."""
    here.partitions.available[:] = True
    failed = data.draw(st.integers(0, len(here.graph.state) - 1))
    readers = {failed}
    while more := {target for source, target in here.reads if source in readers} - readers:
        readers |= more
    assert set(regions_to_restart(here.graph, here.partitions, np.array([failed])).tolist()) <= readers


HOPELESS = FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="wrong version")
THRICE = FixedDelay(3, 500)
PATIENCE = OutagePatience(60_000)


def plan(
    text: str,
    failure: FailureInfo = USER,
    attempts: int | None = None,
    strategy: RestartStrategy = THRICE,
    state: JobState | None = None,
    patience: OutagePatience = PATIENCE,
    at_ms: int = 10,
) -> FailoverPlan:
    """The plan after region 0, which runs, has failed; it was run again before for the sake of others."""
    topology = Topology(job(text, attempts=attempts))
    graph = ExecutionGraph(topology)
    graph.restore(np.array([0]), ExecutionState.FAILED)
    graph.attempt[0] = 7
    policy = FailoverPolicy(strategy, patience, retry_delay_ms=800, restarts_all=False)
    failed = Failed(np.array([0]), np.array([], dtype=np.int64), failure, at_ms=at_ms)
    return plan_failover(graph, PartitionTracker(topology), policy, state or JobState(job_id=JOB), failed)


def test_a_failure_is_answered_by_a_restart_after_the_delay() -> None:
    assert plan("a*2") == FailoverPlan((0,), 500, backoff=BackoffState(attempts=1))


def test_what_can_not_be_helped_fails_the_job() -> None:
    reason = "running it again can't help"
    assert plan("a", HOPELESS) == FailoverPlan(None, reason=reason)
    assert plan("a", HOPELESS, attempts=2, strategy=NoRestart()) == FailoverPlan(None, reason=reason)
    assert plan("a", HOPELESS, strategy=NoRestart()) == FailoverPlan(None), "nothing would be run again anyway"
    assert plan("a", HOPELESS, attempts=1) == FailoverPlan(None)


def test_the_strategy_has_the_last_word() -> None:
    used_up = "all 3 restarts of restart-strategy.fixed-delay.attempts are used up"
    before = JobState(job_id=JOB, restarts=9, backoff=BackoffState(attempts=3))
    assert plan("a", state=before) == FailoverPlan(None, reason=used_up)
    assert plan("a", strategy=NoRestart()) == FailoverPlan(None)


def test_restarts_that_an_earlier_version_has_counted_count() -> None:
    assert plan("a", state=JobState(job_id=JOB, restarts=3)).restart is None


@pytest.mark.parametrize("strategy", [NoRestart(), FixedDelay(0, 0), THRICE])
def test_a_vertex_has_retries_of_its_own_whatever_the_strategy(strategy: RestartStrategy) -> None:
    """Attempts that were begun for the sake of others don't count."""
    before = JobState(job_id=JOB, retried={RegionIndex(0): 1}, restarts=5, backoff=BackoffState(attempts=5))
    expected = FailoverPlan((0,), 800, backoff=BackoffState(attempts=5), retried=(RegionIndex(0),))
    assert plan("a", attempts=3, strategy=strategy, state=before) == expected
    used_up = FailoverPlan(None, reason="all 2 attempts of a are used up")
    assert plan("a", attempts=2, strategy=strategy, state=before) == used_up
    assert plan("a", attempts=1, strategy=strategy) == FailoverPlan(None)


SILENT = FailureInfo(kind=FailureKind.ENVIRONMENT, message="hdfs://nn does not answer", may_pass=True)


def test_a_storage_that_does_not_answer_is_waited_for_whatever_the_limits() -> None:
    """With longer and longer pauses, for as long as is said; then the failure is one like others."""
    state, now_ms, delays = JobState(job_id=JOB, restarts=3), 10, list[int]()
    while (found := plan("a", SILENT, attempts=1, strategy=NoRestart(), state=state, at_ms=now_ms)).restart is not None:
        assert found.retried == ()
        assert found.backoff == BackoffState(attempts=3), "the strategy counts none of it"
        state.outage = found.outage
        delays.append(found.delay_ms)
        now_ms += found.delay_ms + 1_000
    over = "it was waited for, for 60 s (job.commit-timeout)"
    assert found == FailoverPlan(None, reason=over, outage=state.outage)
    assert 900 <= delays[0] <= 1_100
    assert delays == sorted(delays) or max(delays) <= RETRY_MAX_MS
    assert 60_000 <= now_ms - 10 <= 60_000 + RETRY_MAX_MS + 1_000
    assert plan("a", SILENT, attempts=2, state=state, at_ms=now_ms).retried == (RegionIndex(0),), "retries are left"
    state.retried[RegionIndex(0)] = 1
    reason = plan("a", SILENT, attempts=2, state=state, at_ms=now_ms).reason
    assert reason == f"{over}; all 2 attempts of a are used up"


def test_failures_of_one_outage_are_answered_by_one_restart() -> None:
    first = plan("a", SILENT)
    second = plan("a", SILENT, state=JobState(job_id=JOB, outage=first.outage), at_ms=110)
    assert (first.is_root, second.is_root) == (True, False)
    assert second.delay_ms == first.delay_ms - 100


def test_an_outage_long_after_the_last_restart_is_another_one() -> None:
    first = plan("a", SILENT).outage
    assert first is not None
    later = plan("a", SILENT, state=JobState(job_id=JOB, outage=first), at_ms=100_000)
    assert later.outage == Outage(
        since_ms=100_000,
        told=SILENT.message,
        region=RegionIndex(0),
        backoff=BackoffState(attempts=1, due_ms=100_000 + later.delay_ms),
        number=2,
    )
    assert plan("a", SILENT, patience=OutagePatience(0), strategy=NoRestart()) == FailoverPlan(None), "nobody waits"


def test_a_batch_region_that_comes_to_no_end_between_outages_is_not_run_again_for_ever() -> None:
    """As where it brings the storage down itself, late in each attempt. A stream goes on where it was."""
    state = JobState(job_id=JOB)
    for number in range(1, OUTAGES_MAX + 1):
        found = plan("a", SILENT, strategy=NoRestart(), state=state, at_ms=number * 100_000)
        assert found.restart == (0,)
        assert found.outage is not None
        assert found.outage.number == number
        state.outage = found.outage
    at_ms = (OUTAGES_MAX + 1) * 100_000
    reason = f"it was waited for in {OUTAGES_MAX} outages, and did not come to its end after any"
    assert plan("a", SILENT, strategy=NoRestart(), state=state, at_ms=at_ms) == FailoverPlan(
        None, reason=reason, outage=state.outage
    )
    of_stream = OutagePatience(60_000, is_stream=True)
    assert plan("a", SILENT, strategy=NoRestart(), state=state, patience=of_stream, at_ms=at_ms).restart == (0,)


def several(attempts: dict[str, int], strategy: RestartStrategy, restarts_all: bool = False) -> FailoverPlan:
    """The plan after the sole regions of `a` and `b` have failed together, and `c` has finished."""
    graph = job("a; b; c")
    vertices = tuple(msgspec.structs.replace(v, max_attempts=attempts.get(v.name)) for v in graph.vertices)
    topology = Topology(msgspec.structs.replace(graph, vertices=vertices))
    execution = ExecutionGraph(topology)
    execution.restore(np.array([0, 1]), ExecutionState.FAILED)
    execution.restore(np.array([2]), ExecutionState.FINISHED)
    policy = FailoverPolicy(strategy, PATIENCE, retry_delay_ms=800, restarts_all=restarts_all)
    failed = Failed(np.array([0, 1]), np.array([], dtype=np.int64), USER, at_ms=10)
    return plan_failover(execution, PartitionTracker(topology), policy, JobState(job_id=JOB), failed)


def test_retries_and_the_strategy_must_both_allow_what_they_are_both_asked_for() -> None:
    once = BackoffState(attempts=1)
    assert several({"a": 2}, THRICE) == FailoverPlan((0, 1), 800, backoff=once, retried=(RegionIndex(0),))
    assert several({}, FixedDelay(1, 900)) == FailoverPlan((0, 1), 900, backoff=once)
    assert several({"a": 2}, NoRestart()).restart is None
    assert several({"a": 1}, THRICE).restart is None
    assert several({"a": 2, "b": 2}, NoRestart()).retried == (0, 1)


def test_full_failover_runs_all_again_that_has_run() -> None:
    assert several({}, THRICE).restart == (0, 1)
    assert several({}, THRICE, restarts_all=True).restart == (0, 1, 2)


@pytest.mark.parametrize("failed", [0, 3])
def test_consumers_run_again_with_their_producer(failed: int) -> None:
    """Two producers, two consumers of all: a producer takes its readers with it, a consumer only itself."""
    done = [ExecutionState.FINISHED] * 2 + [ExecutionState.RUNNING] * 2
    here = situation("a*2 => b*2", done, [True, True, False, False])
    found = regions_to_restart(here.graph, here.partitions, np.array([failed])).tolist()
    assert found == ([0, 2, 3] if failed == 0 else [3])


DEATH = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the JVM was killed", backend="spark-1")
W1, W2 = ResourceID("w1"), ResourceID("w2")


def next_death(
    attempts: dict[str, int], death: FailureInfo = DEATH, worker: ResourceID = W1, at_ms: int = 110
) -> FailoverPlan:
    """The plan after `b` has failed of a backend's death, when `a` has failed of `DEATH` on worker w1 at 10 ms."""
    graph = job("a; b")
    vertices = tuple(msgspec.structs.replace(v, max_attempts=attempts.get(v.name)) for v in graph.vertices)
    topology = Topology(msgspec.structs.replace(graph, vertices=vertices))
    execution, policy = ExecutionGraph(topology), FailoverPolicy(FixedDelay(1, 500), PATIENCE, 800, restarts_all=False)
    execution.restore(np.array([0, 1]), ExecutionState.FAILED)
    state = JobState(job_id=JOB)
    deployed = tuple((RegionIndex(region), 0, W1) for region in (0, 1))
    fold(state, RegionsDeployed(at_ms=5, deployed=deployed), history_size=4)
    plans = list[FailoverPlan]()
    for region, failure, where, time_ms in ((0, DEATH, W1, 10), (1, death, worker, at_ms)):
        fold(state, RegionsEnded(at_ms=time_ms, ended=((RegionIndex(region), 0),)), history_size=4)
        failed = Failed(np.array([region]), np.array([], dtype=np.int64), failure, time_ms, where)
        plans.append(plan_failover(execution, PartitionTracker(topology), policy, state, failed))
        if plans[-1].restart is not None:
            entry = exception_entry(execution, state, failed, plans[-1])
            fold(state, restart_record(plans[-1], entry, state, time_ms, is_stream=False), history_size=4)
    return plans[-1]


def test_the_death_of_a_backend_is_one_failure_however_many_regions_were_in_it() -> None:
    """The second begins when the first does, or at once when that has begun."""
    once = BackoffState(attempts=1)
    assert next_death({}) == FailoverPlan((1,), 400, backoff=once, is_root=False)
    assert next_death({}, at_ms=2_000) == FailoverPlan((1,), 0, backoff=once, is_root=False)


def test_other_deaths_are_other_failures() -> None:
    used_up = "all 1 restarts of restart-strategy.fixed-delay.attempts are used up"
    assert next_death({}, msgspec.structs.replace(DEATH, backend="spark-2")).reason == used_up
    assert next_death({}, worker=W2).reason == used_up, "each worker has a backend of that name"
    assert next_death({}, USER).reason == used_up


def test_a_death_uses_up_a_retry_of_each_region_and_one_restart_of_the_job() -> None:
    one = (RegionIndex(1),)
    assert next_death({"a": 2, "b": 2}) == FailoverPlan((1,), 800, retried=one, backoff=BackoffState(), is_root=False)
    asked = FailoverPlan((1,), 500, backoff=BackoffState(attempts=1), is_root=False)
    assert next_death({"a": 2}) == asked, "the strategy was not asked before"
    assert next_death({"b": 1}).reason == "", "the first attempt was the last"
