"""Logs of ended jobs on this worker: kept for a while, a directory a job, the newest ones."""

import shutil
from collections import deque
from pathlib import Path

from firesteel.model.ids import JobID


class KeptLogs:
    """Below `directory`, of at most `limit` ended jobs. Blocks: call from a thread."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._directory, self._limit = directory, limit
        self._ended: deque[str] = deque()

    def open(self) -> None:
        """Jobs that an earlier process of this name has left here count as ended."""
        self._directory.mkdir(parents=True, exist_ok=True)
        found = [path for path in self._directory.iterdir() if path.is_dir()]
        self._ended.extend(path.name for path in sorted(found, key=lambda path: path.stat().st_mtime))
        self._trim()

    def end(self, job_id: JobID) -> None:
        """Keep what it has printed, at the cost of who ended first."""
        if job_id in self._ended:
            self._ended.remove(job_id)
        if (self._directory / job_id).is_dir():
            self._ended.append(job_id)
            self._trim()

    def _trim(self) -> None:
        while len(self._ended) > self._limit:
            shutil.rmtree(self._directory / self._ended.popleft(), ignore_errors=True)
