"""A job that changes, as tests of notifications tell of it."""

from typing import Any

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.statuschange import JobStatusChange

JOB = JobID("0123456789abcdef0123456789abcdef")
FAILURE = FailureInfo(
    kind=FailureKind.USER, message="no column, password=hunter2", vertex="words", exception="ValueError", trace="line 1"
)


def change(status: JobStatus = JobStatus.RUNNING, time_ms: int = 1_700_000_000_123, **fields: Any) -> JobStatusChange:
    return JobStatusChange(job_id=JOB, name="wordcount", owner="ada", status=status, time_ms=time_ms, **fields)
