"""What the attempts of a job have printed, and go on printing: `firesteel logs [-f] JOB`.

Workers are read side by side: one that is slow, or does not answer, holds up its own lines only.
"""

import asyncio
from collections.abc import Sequence

import click

from firesteel.client.http import HttpClusterClient
from firesteel.client.logs import JobLog
from firesteel.client.transport import ClusterUnreachable
from firesteel.model.ids import JobID
from firesteel.runtime.client import UnknownJob

LOOK_S = 1.0
"""Time between two looks for new lines at the attempts of a job that is followed."""


class JobLogs:
    """The logs of one job's attempts, as far as they have been shown."""

    def __init__(self, client: HttpClusterClient, job_id: JobID) -> None:
        self._client, self._job_id = client, job_id
        self._shown: dict[tuple[str, str], int] = {}
        """Up to where, by worker and file."""
        self._last: tuple[str, str] | None = None
        self._readers: dict[str, asyncio.Task[None]] = {}
        """By worker: what reads there now."""

    async def show(self) -> None:
        """Show what there is, attempt by attempt, under lines on standard error that say whose it is."""
        await self._read(await self._client.list_job_logs(self._job_id))

    async def follow(self) -> None:
        """Show what there is and what comes, from all workers as it comes, to the end of the job."""
        try:
            async with asyncio.TaskGroup() as readers:
                while not (await self._client.request_job(self._job_id)).status.is_globally_terminal:
                    await self._look(readers)
                    await asyncio.sleep(LOOK_S)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        await self.show()

    async def _look(self, readers: asyncio.TaskGroup) -> None:
        """Have every worker read that is not being read."""
        by_worker: dict[str, list[JobLog]] = {}
        for log in await self._client.list_job_logs(self._job_id):
            by_worker.setdefault(log.taskmanager_id, []).append(log)
        for worker, logs in by_worker.items():
            before = self._readers.get(worker)
            if before is None or before.done():
                self._readers[worker] = readers.create_task(self._read(logs))

    async def _read(self, logs: Sequence[JobLog]) -> None:
        for log in logs:
            key = (log.taskmanager_id, log.name)
            if log.size < self._shown.get(key, 0):  # it was too long, and was begun anew
                self._shown[key] = 0
            while self._shown.get(key, 0) < log.size:
                try:
                    lines = await self._client.read_log(*key, self._shown.get(key, 0))
                except (UnknownJob, ClusterUnreachable):  # the file has gone with its worker, or that does not answer
                    break
                self._say(log, lines.text)
                self._shown[key] = lines.next_offset if lines.text else log.size

    def _say(self, log: JobLog, text: str) -> None:
        key = (log.taskmanager_id, log.name)
        if key != self._last:
            click.echo(f"==> {title_of(log)} <==", err=True)
            self._last = key
        click.echo(text, nl=False)


def title_of(log: JobLog) -> str:
    """Whose log it is, on one line."""
    names = ", ".join(log.vertices)
    return f"{names} (region {log.region}, attempt {log.attempt + 1}, {log.size} bytes) on {log.taskmanager_id}"
