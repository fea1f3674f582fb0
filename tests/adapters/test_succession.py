"""Which deaths of a stream's task process another process makes good."""

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.wire import QueriesRun, RunningQuery
from firesteel.adapters.spark.worker.attempt import describe_exit
from firesteel.adapters.spark.worker.succession import WINDOW_SECONDS, Succession
from firesteel.model.failures import FailureInfo

QUERY = RunningQuery(uid="result", query_id="q", run_id="r", ends=False, rows=7)
KILLED, EXITED = describe_exit(-9), describe_exit(3)


def message_of(answer: wire.FollowQueries | FailureInfo) -> str:
    assert isinstance(answer, FailureInfo), answer
    return answer.message


def followed(succession: Succession, now_seconds: float = 0.0) -> int:
    answer = succession.answer(KILLED, 1, now_seconds)
    assert isinstance(answer, wire.FollowQueries), answer
    return answer.number


def running(limit: int = 2, bound_by: str = "") -> Succession:
    succession = Succession(limit)
    succession.note(QueriesRun((QUERY,), bound_by))
    return succession


def test_what_is_taken_over_is_what_was_told_last() -> None:
    succession = running()
    later = RunningQuery(uid="result", query_id="q", run_id="r", ends=False, rows=9)
    succession.note(QueriesRun((later,)))
    answer = succession.answer(KILLED, 4, 0.0)
    assert answer == wire.FollowQueries(
        queries=(later,),
        sessions=4,
        number=1,
        notice=f"{KILLED.message}. Its queries run on, and another process follows them",
    )


def test_before_all_queries_have_been_started_the_attempt_has_failed() -> None:
    assert Succession(3).answer(KILLED, 1, 0.0) == KILLED


def test_who_has_ended_by_itself_is_not_followed() -> None:
    assert running().answer(EXITED, 1, 0.0) == EXITED


def test_what_binds_the_queries_to_their_process_is_told() -> None:
    answer = running(bound_by="a listener was in it").answer(KILLED, 1, 0.0)
    assert message_of(answer).endswith("(no other process has followed its queries: a listener was in it)")


def test_there_are_so_many_within_a_while_and_more_later() -> None:
    succession = running(limit=2)
    assert followed(succession, 0.0) == 1
    assert followed(succession, WINDOW_SECONDS - 1) == 2
    assert "2 were within 10 minutes" in message_of(succession.answer(KILLED, 1, WINDOW_SECONDS - 0.5))
    assert followed(succession, WINDOW_SECONDS) == 3


def test_with_none_allowed_a_death_is_what_it_was() -> None:
    assert running(limit=0).answer(KILLED, 1, 0.0) == KILLED
