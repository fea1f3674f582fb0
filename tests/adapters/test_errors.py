"""What Spark says, told to a person: without a Spark."""

from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException

from firesteel.adapters.spark.refusals import QueryStopped
from firesteel.adapters.spark.task.errors import describe
from firesteel.model.failures import FailureKind

WRITE_FAILED = """[TASK_WRITE_FAILED] Task failed while writing rows to file:/out. SQLSTATE: 58030

JVM stacktrace:
org.apache.spark.SparkException
Caused by: java.io.IOException: {cause}
"""


def told(cause: str) -> Any:
    plan: Any = SimpleNamespace(active=None, callables={}, input_locations=(), frames={})
    return describe(PySparkException(WRITE_FAILED.format(cause=cause)), plan, ())


def test_a_full_disk_is_named_and_the_environments() -> None:
    failure = told("No space left on device")
    assert failure.kind is FailureKind.ENVIRONMENT
    assert failure.message == (
        "[TASK_WRITE_FAILED] Task failed while writing rows to file:/out. (IOException: No space left on device)"
    )


def test_another_failure_of_a_write_stays_sparks() -> None:
    failure = told("something else\nCaused by: org.apache.hadoop.fs.FileAlreadyExistsException: p=1/part-0 is there")
    assert failure.kind is FailureKind.USER
    assert failure.message == (
        "[TASK_WRITE_FAILED] Task failed while writing rows to file:/out. (FileAlreadyExistsException: p=1/part-0 is there)"
    )


def test_a_query_that_somebody_else_has_stopped_may_go_on() -> None:
    plan: Any = SimpleNamespace(active=None, callables={}, input_locations=(), frames={})
    failure = describe(QueryStopped("it was stopped"), plan, ())
    assert (failure.kind, failure.message) == (FailureKind.ENVIRONMENT, "it was stopped")


def test_a_target_that_a_batch_may_not_be_written_to_is_final() -> None:
    """`fs.stream_files` says so in a Python worker of Spark; each attempt would be told the same."""
    lines = [
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):",
        '  File "/x/batchfiles.py", line 155, in _check_history',
        "    raise TargetRefused(",
        "firesteel.adapters.storage.errors.TargetRefused: fs.stream_files: /out holds the batches of another query",
    ]
    failure = told("\n".join(lines))
    assert failure.kind is FailureKind.NON_RECOVERABLE
    assert "holds the batches of another query" in failure.message
    assert failure.exception == "TargetRefused"
    assert told("\n".join([*lines[:3], "ValueError: TargetRefused"])).kind is FailureKind.USER
