"""Watching a job: show it until it has ended, cancel it when asked or when its time is over."""

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
    timed_out: bool = False


class Watch:
    """One job, from its submission to its end."""

    def __init__(self, client: ClusterClient, job_id: JobID, display: JobDisplay, interrupted: asyncio.Event) -> None:
        self._client, self._job_id, self._display, self._interrupted = client, job_id, display, interrupted
        self._version = -1

    async def until_end(self, timeout_ms: int | None) -> End:
        """Follow the job; a cancelled one is followed to its clean end."""
        try:
            async with asyncio.TaskGroup() as group:
                result = group.create_task(self._client.request_job_result(self._job_id))
                reason = await self._follow(result, timeout_ms)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        self._display.show(await self._client.request_job(self._job_id))
        return End(result.result(), interrupted=reason == "interrupted", timed_out=reason == "timed out")

    async def _follow(self, result: asyncio.Task[JobResult], timeout_ms: int | None) -> str:
        """Show the job until its result is there; returns why it was cancelled, or an empty text."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1_000 if timeout_ms is not None else float("inf")
        reason = ""
        while not result.done():
            await self._show()
            if not reason and self._interrupted.is_set():
                reason = "interrupted"
                await self._cancel("interrupted: cancelling the job; press Ctrl-C again to end at once")
            elif not reason and loop.time() >= deadline:
                reason = "timed out"
                await self._cancel("timed out: cancelling the job")
            await self._pause(result, deadline if not reason else float("inf"))
        return reason

    async def _pause(self, result: asyncio.Task[JobResult], deadline: float) -> None:
        """Until something may have changed."""
        pause_s = min(POLL_INTERVAL_S, max(0.0, deadline - asyncio.get_running_loop().time()))
        await asyncio.wait({result}, timeout=pause_s)

    async def _cancel(self, why: str) -> None:
        self._display.note(why)
        await self._client.cancel_job(self._job_id)

    async def _show(self) -> None:
        view = await self._client.request_job(self._job_id)
        if view.version != self._version:
            self._version = view.version
            self._display.show(view)
