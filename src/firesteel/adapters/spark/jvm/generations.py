"""The JVMs that a worker has one after another: their numbers, and their logs, of which the newest are kept."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Collection
from pathlib import Path

LOGS_KEPT = 20
"""JVMs that have ended and whose logs are kept."""

_LOG = re.compile(r"spark-(\d+)(\.\d+)?\.log")
"""Also a former part of one that was full."""


class Generations:
    """Of one worker, so that the logs of all its JVMs, below `logs`, have names of their own."""

    def __init__(self, logs: Path) -> None:
        self._logs, self._last, self._living = logs, 0, set[int]()
        self._deleting = asyncio.Lock()
        """Held by who deletes: a JVM that starts might get the number of a log which a former process has left."""

    @contextlib.asynccontextmanager
    async def another(self) -> AsyncIterator[int]:
        """Number of a JVM that is to start, and has ended at the end of the block."""
        self._last += 1
        number = self._last
        self._living.add(number)
        try:
            async with self._deleting:
                await asyncio.to_thread(self._delete_old, frozenset(self._living))
            yield number
        finally:
            self._living.discard(number)

    def log(self, number: int) -> Path:
        """Where a JVM writes what it has to say."""
        return self._logs / f"spark-{number}.log"

    def _delete_old(self, living: Collection[int]) -> None:
        """What can't be deleted now is found again when another one starts."""
        written: dict[int, float] = {}
        files: dict[int, list[Path]] = {}
        for file in self._logs.glob("spark-*.log"):
            found = _LOG.fullmatch(file.name)
            if found is not None and int(found[1]) not in living:
                with contextlib.suppress(OSError):
                    number = int(found[1])
                    written[number] = max(written.get(number, 0.0), file.stat().st_mtime)
                    files.setdefault(number, []).append(file)
        for number in sorted(written, key=lambda each: (written[each], each))[:-LOGS_KEPT]:
            for file in files[number]:
                with contextlib.suppress(OSError):
                    file.unlink()
