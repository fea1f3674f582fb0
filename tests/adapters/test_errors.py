"""What Spark says, told to a person: without a Spark."""

from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException

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
    assert failure.message.startswith("No space left on device: [TASK_WRITE_FAILED] Task failed while writing rows")


def test_another_failure_of_a_write_stays_sparks() -> None:
    failure = told("something else")
    assert failure.kind is FailureKind.USER
    assert failure.message.startswith("[TASK_WRITE_FAILED] Task failed while writing rows")
