"""Watching a job: show it until it has ended, cancel it when asked."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from firesteel.cli.exits import INTERRUPTED, JOB_FAILED, UNREACHABLE, CommandError
from firesteel.cli.following.interrupts import Interrupts
from firesteel.cli.following.live import JobDisplay
from firesteel.cli.following.output import ScriptOutput
from firesteel.cli.following.prints import JobPrints
from firesteel.cli.following.rows import fetch_rows
from firesteel.client.transport import RequestFailed
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.runtime.client import CancelRefused, ClusterOperations, StorageFull, UnknownJob


class End(msgspec.Struct, frozen=True):
    """The end of a job, and whether it was cancelled since this command was interrupted."""

    result: JobResult
    interrupted: bool = False
    rows: Mapping[str, Any] = {}
    """Rows that the job returned, as ResultRows by function."""


class Watch:
    """One job, from its submission to its end.

    `interrupts` cancel it: without, nobody asks for that here. With `goes_on` the job has a life of its own: whoever
    can't follow it to its end is told its id.
    """

    def __init__(
        self,
        client: ClusterOperations,
        job_id: JobID,
        display: JobDisplay,
        interrupts: Interrupts | None = None,
        *,
        goes_on: bool = True,
    ) -> None:
        self._client, self._job_id, self._display, self._goes_on = client, job_id, display, goes_on
        self._interrupts = interrupts
        self._cancelled = asyncio.Event()
        """Its master has that safe, or has said no."""
        self._end = "is being cancelled"
        self.output: ScriptOutput | None = None
        """What follows a script's output."""
        self.prints: JobPrints | None = None
        """What shows what functions print."""

    async def until_end(self) -> End:
        """Follow the job, a cancelled one to its clean end, and fetch what it has returned. Raises CommandError."""
        try:
            result = await self._result()
            return End(result, self._was_interrupted(result), await fetch_rows(self._client, result))
        except UnknownJob as error:
            text = f"{error}: its master kept it in memory and was ended, or it has been forgotten since its end"
            raise CommandError(text, JOB_FAILED) from None
        except (ConnectionError, RequestFailed, StorageFull) as error:
            if not self._goes_on:
                raise
            raise CommandError(f"{error}: {self._whereabouts()}", UNREACHABLE) from None

    def _was_interrupted(self, result: JobResult) -> bool:
        """It may have been too late: what commits its outputs goes on to its end."""
        asked = self._interrupts is not None and self._interrupts.requested.is_set()
        if asked and result.status is JobStatus.FINISHED:
            self._display.note("it was too late to cancel the job: it has finished")
        return asked and result.status is JobStatus.CANCELED

    async def _result(self) -> JobResult:
        try:
            async with asyncio.TaskGroup() as group:
                result = group.create_task(self._client.request_job_result(self._job_id))
                company = [group.create_task(self._show())]
                if self.prints is not None:
                    company.append(group.create_task(self.prints.follow()))
                if self._interrupts is not None:
                    company.append(group.create_task(self._cancel_when_interrupted(self._interrupts)))
                    company.append(group.create_task(self._leave_when_hurried(self._interrupts)))
                result.add_done_callback(lambda _: [task.cancel() for task in company])
                if self.output is not None:
                    group.create_task(self.output.follow())
                    result.add_done_callback(self.output.end)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if self.prints is not None:
            await self.prints.rest()
        with contextlib.suppress(ConnectionError, UnknownJob):  # what counts is known
            self._display.show(await self._client.request_job(self._job_id))
        return result.result()

    async def _show(self) -> None:
        async for view in self._client.follow_job(self._job_id):
            self._display.show(view)
            if self.output is not None:
                self.output.attempts = max(vertex.attempts for vertex in view.vertices) if view.vertices else 1

    async def _cancel_when_interrupted(self, interrupts: Interrupts) -> None:
        await interrupts.requested.wait()
        again = "not to wait for its end" if self._goes_on else "to end at once"
        self._display.note(f"interrupted: cancelling the job; press Ctrl-C again {again}")
        try:
            await self._client.cancel_job(self._job_id)
        except CancelRefused as error:
            self._display.note(str(error))
            self._end = "goes on to its end"
        self._cancelled.set()

    async def _leave_when_hurried(self, interrupts: Interrupts) -> None:
        await interrupts.hurried.wait()
        if not self._cancelled.is_set():
            self._display.note("no master has answered to that yet; press Ctrl-C again to end without an answer")
            await self._cancelled.wait()
        raise CommandError(f"interrupted: job {self._job_id} {self._end}", INTERRUPTED)

    def _whereabouts(self) -> str:
        if self._cancelled.is_set():
            return f"job {self._job_id} {self._end}"
        return f"job {self._job_id} may go on; `firesteel attach {self._job_id}` follows it"
