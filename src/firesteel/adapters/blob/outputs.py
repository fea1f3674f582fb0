"""What scripts print, at the master: files by job that grow while a worker sends what is new, kept with the job's result."""

import asyncio
import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Protocol

READ_BYTES = 1 << 18
"""Most bytes that one read gives."""

_JOB = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[0-9]{1,6}\.(stdout|stderr)")


class Outputs(Protocol):
    """The output of scripts, by job, and by attempt and stream (`0.stdout`)."""

    async def append(self, job_id: str, name: str, offset: int, data: bytes) -> None:
        """Put bytes at their place; may be repeated. Raises OSError, also for a name that can be none of ours."""

    async def read(self, job_id: str, name: str, offset: int) -> bytes:
        """Bytes from `offset` on; empty where there are none yet, or any more."""

    async def delete(self, job_id: str) -> None:
        """The job is forgotten."""

    async def jobs_before(self, moment_ms: int) -> list[str]:
        """Jobs of which nothing here was begun after that."""


def checked_output(job_id: str, name: str) -> str:
    """`JOB/ATTEMPT.STREAM`. Raises FileNotFoundError for a name that can be none of ours."""
    if not _JOB.fullmatch(job_id) or not _NAME.fullmatch(name):
        raise FileNotFoundError(f"{job_id}/{name} is no output of a script")
    return f"{job_id}/{name}"


class OutputStore:
    """`Outputs` as files in `directory`, which is made when it is needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def append(self, job_id: str, name: str, offset: int, data: bytes) -> None:
        await asyncio.to_thread(self._write, self._directory / checked_output(job_id, name), offset, data)

    async def read(self, job_id: str, name: str, offset: int) -> bytes:
        return await asyncio.to_thread(self._read, self._directory / checked_output(job_id, name), offset)

    async def delete(self, job_id: str) -> None:
        if _JOB.fullmatch(job_id):
            await asyncio.to_thread(shutil.rmtree, self._directory / job_id, ignore_errors=True)

    async def jobs_before(self, moment_ms: int) -> list[str]:
        return await asyncio.to_thread(self._jobs_before, moment_ms)

    def _jobs_before(self, moment_ms: int) -> list[str]:
        found = []
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._directory):
                with contextlib.suppress(FileNotFoundError):
                    if _JOB.fullmatch(entry.name) and entry.stat().st_mtime * 1000 < moment_ms:
                        found.append(entry.name)
        return sorted(found)

    def _write(self, path: Path, offset: int, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(descriptor, data[done:], offset + done)
        finally:
            os.close(descriptor)

    def _read(self, path: Path, offset: int) -> bytes:
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            file.seek(offset)
            return file.read(READ_BYTES)
        return b""
