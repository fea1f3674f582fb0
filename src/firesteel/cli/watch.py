"""Watching a job: show it until it has ended, cancel it when asked."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from firesteel.cli.live import JobDisplay
from firesteel.cli.output import ScriptOutput
from firesteel.model.ids import JobID
from firesteel.model.views import JobResult
from firesteel.runtime.client import ClusterClient


class End(msgspec.Struct, frozen=True):
    """How a job ended, and whether this command had asked for it."""

    result: JobResult
    interrupted: bool = False
    rows: Mapping[str, Any] = {}
    """What the job returned, as ResultRows by function."""


class Watch:
    """One job, from its submission to its end."""

    def __init__(self, client: ClusterClient, job_id: JobID, display: JobDisplay, interrupted: asyncio.Event) -> None:
        self._client, self._job_id, self._display, self._interrupted = client, job_id, display, interrupted
        self.output: ScriptOutput | None = None
        """What follows a script's output."""

    async def until_end(self) -> End:
        """Follow the job; a cancelled one is followed to its clean end."""
        try:
            async with asyncio.TaskGroup() as group:
                result = group.create_task(self._client.request_job_result(self._job_id))
                company = [group.create_task(work) for work in (self._show(), self._cancel_when_interrupted())]
                result.add_done_callback(lambda _: [task.cancel() for task in company])
                if self.output is not None:
                    group.create_task(self.output.follow())
                    result.add_done_callback(self.output.end)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        self._display.show(await self._client.request_job(self._job_id))
        return End(result.result(), interrupted=self._interrupted.is_set())

    async def _show(self) -> None:
        async for view in self._client.follow_job(self._job_id):
            self._display.show(view)
            if self.output is not None:
                self.output.attempts = max(vertex.attempts for vertex in view.vertices) if view.vertices else 1

    async def _cancel_when_interrupted(self) -> None:
        await self._interrupted.wait()
        self._display.note("interrupted: cancelling the job; press Ctrl-C again to end at once")
        await self._client.cancel_job(self._job_id)
