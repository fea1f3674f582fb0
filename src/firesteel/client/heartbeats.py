"""Signs of life for jobs that end with their client."""

import asyncio
import contextlib
import time
from dataclasses import dataclass

import msgspec

from firesteel.client.transport import ClusterUnreachable, Refused, RequestFailed, Transport
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.client import UnknownJob

BEATS_PER_TIMEOUT = 3
"""Least signs of life within a job's timeout, where the interval is too long for that."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Settings that a client's jobs are told about it."""

    timeout_ms: int = 0
    """A job is cancelled when its client was not heard of for so long; 0: jobs go on without it."""
    interval_ms: int = 30_000


class _Status(msgspec.Struct):
    status: JobStatus


class ClientHeartbeats:
    """Heartbeats of one client: one task a job, to the job's end or the client's."""

    def __init__(self, transport: Transport, interval_ms: int) -> None:
        self._transport, self._interval_ms = transport, interval_ms
        self._tasks = BackgroundTasks()
        self._jobs: dict[JobID, None] = {}

    def keep_alive(self, job_id: JobID, timeout_ms: int) -> None:
        """Show that somebody is there for this job from now on, if it ends with its client (`timeout_ms` is not 0)."""
        if timeout_ms and job_id not in self._jobs:
            self._jobs[job_id] = None
            self._tasks.start(self._beat(job_id, timeout_ms), f"heartbeats for {job_id}")

    async def close(self) -> None:
        await self._tasks.close()

    async def _beat(self, job_id: JobID, timeout_ms: int) -> None:
        interval_s = min(self._interval_ms, timeout_ms / BEATS_PER_TIMEOUT) / 1_000
        path = f"/v1/jobs/{job_id}"
        try:
            while True:
                with contextlib.suppress(ClusterUnreachable, RequestFailed):  # it may be back before the time is over
                    body = {"expiredTimestamp": round(time.time() * 1_000) + timeout_ms}
                    await self._transport.request("PATCH", f"{path}/clientHeartbeat", json=msgspec.json.encode(body))
                    answer = await self._transport.request("GET", f"{path}/status")
                    if msgspec.json.decode(answer, type=_Status).status.is_globally_terminal:
                        return
                await asyncio.sleep(interval_s)
        except (UnknownJob, Refused):
            return  # the job is forgotten, or it is not ours to keep alive
        finally:
            del self._jobs[job_id]
