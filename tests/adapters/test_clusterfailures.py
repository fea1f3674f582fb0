"""Texts of Spark's about failures of its cluster, and what is said of them."""

import pytest

from firesteel.adapters.spark.task.clusterfailures import told_of

LOST = (
    "[JOB_ABORTED] Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in"
    " stage 1.0 (TID 4) (h executor 3): ExecutorLostFailure (executor 3 exited caused by one of the running tasks)"
    " Reason: {why}\nDriver stacktrace:"
)


@pytest.mark.parametrize(
    ("why", "says"),
    [
        ("Command exited with code 52", "its heap was exhausted: raise spark.executor.memory"),
        ("Command exited with code 137", "it was killed (SIGKILL)"),
        ("worker lost: Not receiving heartbeat for 5 seconds", "with: worker lost: Not receiving heartbeat"),
    ],
)
def test_lost_executors_are_told_with_their_cause(why: str, says: str) -> None:
    said = told_of(LOST.format(why=why))
    assert said.startswith("Spark has given up: 4 executors were lost while they ran one task, the last, 3, with: ")
    assert says in said


def test_a_driver_that_has_stopped_and_a_session_that_is_gone() -> None:
    assert "driver has stopped" in told_of("Job 3 cancelled because SparkContext was shut down")
    assert "knows this attempt's session no more" in told_of(
        "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle x is invalid"
    )


def test_what_is_the_users_stays_the_users() -> None:
    assert not told_of("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012")
    assert not told_of(
        "Job aborted due to stage failure: Task 0 failed 4 times: java.lang.RuntimeException: SESSION_CLOSED"
    )
