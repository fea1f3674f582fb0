"""Texts of Spark's about failures of its cluster, and what is said of them."""

import pytest

from firesteel.adapters.spark.task.clusterfailures import told_by_proxy, told_of

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
    assert said.startswith(
        "Spark has given up a task after 4 failures, of which the last was the loss of executor 3, with: "
    )
    assert says in said


def test_a_driver_that_has_stopped() -> None:
    assert "driver has stopped" in told_of("Job 3 cancelled because SparkContext was shut down")


@pytest.mark.parametrize("mark", ["SESSION_NOT_FOUND", "SESSION_CHANGED", "SESSION_CLOSED"])
def test_a_session_that_a_server_has_closed_is_no_fault_of_the_user(mark: str) -> None:
    assert "knows this attempt's session no more" in told_of(f"[INVALID_HANDLE.{mark}] The handle x is invalid")


@pytest.mark.parametrize("mark", ["INVALID_HANDLE.OPERATION_ABANDONED", "RESPONSE_ALREADY_RECEIVED"])
def test_a_query_that_a_server_has_given_up_is_no_fault_of_the_user(mark: str) -> None:
    assert "has given up this attempt's query" in told_of(f"[{mark}] Something. SQLSTATE: HY000")


@pytest.mark.parametrize(
    "fetch",
    [
        "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 0 partition 1.",
        "FetchFailed(BlockManagerId(1, h, 4711, None), shuffleId=0, mapIndex=0, mapId=3, reduceId=1, message=",
    ],
)
def test_shuffled_rows_that_were_lost_with_their_executors(fetch: str) -> None:
    said = told_of(
        "[JOB_ABORTED] Job aborted due to stage failure: ShuffleMapStage 2 (parquet at X.java:0) has failed the maximum"
        f" allowable number of times: 4. Most recent failure reason:\n{fetch}\n\tat org.apache.spark"
    )
    assert "has given up a stage that it has run 4 times: shuffled rows were gone each time" in said
    assert "\n" not in said


def test_what_is_the_users_stays_the_users() -> None:
    assert not told_of("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012")
    assert not told_of(
        "Job aborted due to stage failure: Task 0 failed 4 times: java.lang.RuntimeException: SESSION_CLOSED"
    )


@pytest.mark.parametrize(
    ("status", "says", "is_hopeless"),
    [
        (413, "takes no more of a call (HTTP status 413): have it pass any size on", True),
        (401, "does not take this worker's token (HTTP status 401)", False),
        (403, "does not take this worker's token (HTTP status 403)", False),
        (302, "has answered in its place, with HTTP status 302", False),
    ],
)
def test_what_a_proxy_answers_in_place_of_the_server(status: int, says: str, is_hopeless: bool) -> None:
    text = f'<_Rendezvous of RPC that terminated with:\n\tdetails = "Received http2 header with status: {status}"\n>'
    said, always = told_by_proxy(text)
    assert said.startswith(f"what is in front of the Connect server {says}")
    assert always is is_hopeless
    assert told_by_proxy("ValueError: Received http2 header with status: 413") == ("", False)
