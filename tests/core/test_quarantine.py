"""Who was in Spark backends that died: alone from the third time on, and out when that one dies too."""

import msgspec

from firesteel.core.journal.journal import JobState, fold
from firesteel.core.journal.records import RegionsDeployed, RegionsEnded, RestartPlanned
from firesteel.core.scheduler.quarantine import SETTLED_MS, had_settled, judged, runs_alone
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionIndex, ResourceID
from firesteel.model.views import ExceptionEntry

DEATH = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the Spark backend was killed", backend="spark-1")
ERROR = FailureInfo(kind=FailureKind.USER, message="the user's code raised")
ONE, OTHER = RegionIndex(1), RegionIndex(2)


def after(*failures: tuple[RegionIndex, FailureInfo]) -> JobState:
    """What the journal says after these failures, each of which restarts both regions."""
    state = JobState(job_id=JobID("job"))
    for number, (region, failure) in enumerate(failures):
        entry = ExceptionEntry(timestamp_ms=0, failure=failure, region=region, attempt=number)
        plan = RestartPlanned(at_ms=0, entry=entry, regions=(ONE, OTHER), due_ms=0, restarts=number + 1)
        fold(state, plan, history_size=1)
    return state


def test_two_deaths_of_a_backend_set_a_region_apart_and_no_other_failure_does() -> None:
    assert not runs_alone(after((ONE, DEATH), (ONE, ERROR), (ONE, ERROR)), ONE)
    state = after((ONE, DEATH), (OTHER, DEATH), (ONE, ERROR), (ONE, DEATH))
    assert runs_alone(state, ONE)
    assert not runs_alone(state, OTHER)


def test_what_a_cluster_has_ended_was_killed_by_nobody_in_it() -> None:
    spared = msgspec.structs.replace(DEATH, spared=True)
    assert not runs_alone(after((ONE, spared), (ONE, spared)), ONE)
    assert judged(after((ONE, DEATH), (ONE, DEATH)), ONE, spared, is_stream=False) == spared


def test_the_third_death_is_final_and_says_so() -> None:
    assert judged(after((ONE, DEATH)), ONE, DEATH, is_stream=False) == DEATH
    state = after((ONE, DEATH), (ONE, DEATH))
    assert judged(state, ONE, ERROR, is_stream=False) == ERROR
    assert judged(state, OTHER, DEATH, is_stream=False) == DEATH
    verdict = judged(state, ONE, DEATH, is_stream=False)
    assert verdict.kind is FailureKind.NON_RECOVERABLE
    assert verdict.message == (
        "3 Spark backends have died under it, the last with nothing else in it: the Spark backend was killed"
    )


def ran(state: JobState, region: RegionIndex, time_ms: int) -> JobState:
    """And has ended then."""
    fold(state, RegionsDeployed(at_ms=0, deployed=((region, 0, ResourceID("w1")),)), history_size=1)
    fold(state, RegionsEnded(at_ms=time_ms, ended=((region, 0),)), history_size=1)
    return state


def test_a_stream_is_tried_as_long_as_its_restart_strategy_says() -> None:
    state = after((ONE, DEATH), (ONE, DEATH), (ONE, DEATH))
    assert judged(state, ONE, DEATH, is_stream=True) == DEATH
    assert runs_alone(state, ONE)


def test_a_stream_that_has_run_for_long_is_not_blamed_for_what_was_before() -> None:
    state = ran(after((ONE, DEATH), (ONE, DEATH)), ONE, SETTLED_MS)
    assert had_settled(state, ONE, is_stream=True)
    assert not had_settled(state, ONE, is_stream=False), "a batch region comes to the same place again after hours"
    assert not had_settled(state, OTHER, is_stream=True), "nothing is known of it"
    assert not had_settled(ran(after((ONE, DEATH)), ONE, SETTLED_MS - 1), ONE, is_stream=True)


def test_the_count_begins_anew_with_the_death_after_a_long_run() -> None:
    state = after((ONE, DEATH), (ONE, DEATH))
    entry = ExceptionEntry(timestamp_ms=0, failure=DEATH, region=ONE, attempt=2)
    plan = RestartPlanned(at_ms=0, entry=entry, regions=(ONE,), due_ms=0, restarts=3, had_settled=True)
    fold(state, plan, history_size=1)
    assert state.backend_deaths == {ONE: 1}
    assert not runs_alone(state, ONE)
