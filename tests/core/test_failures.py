"""What failures are of, as their labels say."""

import pytest

from firesteel.model.failures import WORKER_LOST, FailureInfo, FailureKind, failure_labels

USER, ENVIRONMENT = FailureKind.USER, FailureKind.ENVIRONMENT
JVM = "the Spark backend ended with status 3"
HEAP = "Exception in thread main java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (FailureInfo(kind=USER, message="KeyError: 1", exception="KeyError"), "USER"),
        (FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="refused"), "USER"),
        (FailureInfo(kind=USER, message="MemoryError: too much", exception="MemoryError"), "OUT_OF_MEMORY"),
        (FailureInfo(kind=USER, message="over the limit", exception="MemoryLimitExceeded"), "OUT_OF_MEMORY"),
        (FailureInfo(kind=ENVIRONMENT, message=JVM, trace=HEAP, backend="spark-1"), "OUT_OF_MEMORY"),
        (FailureInfo(kind=USER, message="SparkOutOfMemoryError: no page", spark_error="X"), "OUT_OF_MEMORY"),
        (FailureInfo(kind=ENVIRONMENT, message=JVM, backend="spark-1"), "ENVIRONMENT"),
        (FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=JVM, backend="spark-1"), "ENVIRONMENT"),
        (FailureInfo(kind=ENVIRONMENT, message="worker w1 is lost", exception=WORKER_LOST), "LOST_WORKER"),
        (FailureInfo(kind=FailureKind.PARTITION, message="gone", partitions=("a",)), "LOST_RESULT"),
        (FailureInfo(kind=ENVIRONMENT, message="the disk is full"), "ENVIRONMENT"),
    ],
)
def test_types(failure: FailureInfo, expected: str) -> None:
    assert failure_labels(failure) == {"type": expected}


def test_an_error_of_spark_has_its_condition() -> None:
    failure = FailureInfo(kind=USER, message="[DIVIDE_BY_ZERO]", spark_error="DIVIDE_BY_ZERO")
    assert failure_labels(failure) == {"type": "SPARK", "condition": "DIVIDE_BY_ZERO"}


def test_a_headline_says_why_it_was_for_good() -> None:
    failure = FailureInfo(
        kind=USER, message="KeyError: 1", vertex="words", location="etl.py:3", verdict="it was enough"
    )
    assert failure.headline() == "words (etl.py:3): KeyError: 1 (failed for good: it was enough)"
