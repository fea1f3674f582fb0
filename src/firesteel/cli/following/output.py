"""The output of a plain script, written to where this command's own output goes, as it comes."""

import asyncio
import contextlib
import sys
from typing import BinaryIO

from firesteel.model.ids import JobID
from firesteel.runtime.client import ClusterOperations

WAIT_S = 10.0
"""Time that one question waits for something to be printed."""
PAUSE_S = 0.02
"""Time between the end of a script and that of its job, when nothing more will be printed."""


class ScriptOutput:
    """Both streams of a job. `merged` sends standard output to standard error, too, where the other has a result."""

    def __init__(self, client: ClusterOperations, job_id: JobID, *, merged: bool = False) -> None:
        self._client, self._job_id = client, job_id
        self._files = {"stdout": (sys.stderr if merged else sys.stdout).buffer, "stderr": sys.stderr.buffer}
        self.attempts = 1
        """How many attempts the script has had so far."""
        self._ended = asyncio.Event()

    def end(self, result: object = None) -> None:
        """The job has ended: what is there now is all. `result` is not looked at."""
        self._ended.set()

    async def follow(self) -> None:
        """Write until the job has ended and all is written."""
        async with asyncio.TaskGroup() as group:
            for stream, file in self._files.items():
                group.create_task(self._follow(stream, file))

    async def _follow(self, stream: str, file: BinaryIO) -> None:
        attempt = offset = 0
        while True:
            is_last, attempts = self._ended.is_set(), self.attempts
            wait_s = 0.0 if is_last or attempt + 1 < attempts else WAIT_S
            data = await self._client.read_output(self._job_id, stream, attempt=attempt, offset=offset, wait_s=wait_s)
            if data:
                offset += len(data)
                await asyncio.to_thread(_write, file, data)
            elif attempt + 1 < attempts:
                attempt, offset = attempt + 1, 0
            elif is_last:
                return
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PAUSE_S):
                        await self._ended.wait()


def _write(file: BinaryIO, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ValueError):  # nobody reads any more; the script goes on
        file.write(data)
        file.flush()
