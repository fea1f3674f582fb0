"""Watching a job: show it until it has ended, cancel it when asked."""

import asyncio

import msgspec

from firesteel.cli.live import JobDisplay
from firesteel.model.ids import JobID
from firesteel.model.views import JobResult
from firesteel.runtime.client import ClusterClient

POLL_INTERVAL_S = 0.1


class End(msgspec.Struct, frozen=True):
    """How a job ended, and whether this command had asked for it."""

    result: JobResult
    interrupted: bool = False


class Watch:
    """One job, from its submission to its end."""

    def __init__(self, client: ClusterClient, job_id: JobID, display: JobDisplay, interrupted: asyncio.Event) -> None:
        self._client, self._job_id, self._display, self._interrupted = client, job_id, display, interrupted
        self._shown = (-1, "")

    async def until_end(self) -> End:
        """Follow the job; a cancelled one is followed to its clean end."""
        try:
            async with asyncio.TaskGroup() as group:
                result = group.create_task(self._client.request_job_result(self._job_id))
                interrupted = await self._follow(result)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        self._display.show(await self._client.request_job(self._job_id))
        return End(result.result(), interrupted=interrupted)

    async def _follow(self, result: asyncio.Task[JobResult]) -> bool:
        """Show the job until its result is there; returns whether it was cancelled from here."""
        interrupted = False
        while not result.done():
            await self._show()
            if not interrupted and self._interrupted.is_set():
                interrupted = True
                await self._cancel("interrupted: cancelling the job; press Ctrl-C again to end at once")
            await asyncio.wait({result}, timeout=POLL_INTERVAL_S)
        return interrupted

    async def _cancel(self, why: str) -> None:
        self._display.note(why)
        await self._client.cancel_job(self._job_id)

    async def _show(self) -> None:
        view = await self._client.request_job(self._job_id)
        if (view.version, view.reason) != self._shown:
            self._shown = (view.version, view.reason)
            self._display.show(view)
