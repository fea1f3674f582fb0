"""Figures of checkpoints that are told are figures of some that were measured."""

import asyncio

from firesteel.core.checkpoint.history import completed, failed, triggered
from firesteel.model.checkpoints import CheckpointHistory, CheckpointSettings, CheckpointsView, QueryPoint
from firesteel.model.ids import JobID, derived_id
from firesteel.model.states import JobStatus
from firesteel.model.views import JobView
from firesteel.rest.call import Call
from firesteel.rest.handlers.checkpoints import statistics

JOB = JobID(derived_id("stream"))


def test_percentiles_are_of_what_was_measured() -> None:
    """The newest have all failed, so only the last one that was completed is remembered."""
    history = CheckpointHistory()
    for number, size in enumerate((900, 300), start=1):
        points = (QueryPoint(uid="v", batch=number, size_bytes=size),)
        history = completed(triggered(history, number, 0), number, points, 1, size // 10)
    for number in range(3, 15):
        history = failed(triggered(history, number, 0), number, "late", 1, 1)

    class Gateway:
        async def request_job(self, job_id: JobID) -> JobView:
            shown = CheckpointsView(settings=CheckpointSettings(), history=history)
            return JobView(job_id=job_id, name="it", status=JobStatus.RUNNING, checkpoints=shown)

    class Asked(Call):
        gateway = Gateway()  # type: ignore[assignment]
        job_id = JOB

    async def story() -> None:
        summary = (await statistics(Asked(None, None, None, {}))).summary  # type: ignore[arg-type]
        sizes, durations = summary.checkpointed_size, summary.end_to_end_duration
        assert (sizes.min, sizes.max, sizes.avg, sizes.p50, sizes.p999) == (300, 900, 600, 300.0, 300.0)
        assert (durations.max, durations.p99) == (90, 30.0)

    asyncio.run(story())
