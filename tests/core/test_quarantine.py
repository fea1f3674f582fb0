"""Who was in Spark backends that died: alone from the third time on, and out when that one dies too."""

from firesteel.core.journal.journal import JobState, RestartPlanned, fold
from firesteel.core.scheduler.quarantine import judged, runs_alone
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionIndex
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


def test_the_third_death_is_final_and_says_so() -> None:
    assert judged(after((ONE, DEATH)), ONE, DEATH) == DEATH
    state = after((ONE, DEATH), (ONE, DEATH))
    assert judged(state, ONE, ERROR) == ERROR
    assert judged(state, OTHER, DEATH) == DEATH
    verdict = judged(state, ONE, DEATH)
    assert verdict.kind is FailureKind.NON_RECOVERABLE
    assert verdict.message == (
        "3 Spark backends have died under it, the last with nothing else in it: the Spark backend was killed"
    )
