"""Starts of Spark backends: how many at a time on one machine, and how long each is waited for.

A JVM takes two cores for some seconds to start. Ten of them at the same time on two cores take a minute each, are given up,
and are started again. So the workers of one user on one host take turns by locks, which the kernel releases when their
holder dies; and a start is given up when nothing moves any more, not when it is slow.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

from firesteel.adapters.spark.jvm.pythonworkers import children
from firesteel.adapters.storage.flocks import take_lock
from firesteel.runtime.directories import cache_directory

logger = logging.getLogger(__name__)

AT_ONCE_MIN = 2
"""Starts under way at a time on the smallest machine; beyond that one for each two cores."""
_POLL_SECONDS = 0.1
WORK_TICKS = 10
"""Hundredths of a second of CPU time that count as work. A JVM that hangs uses some, too: ten in two minutes or more."""
HURRY_MAX = 5
"""A start may take so many times as long as one in which nothing moves."""


class StartTurns:
    """The turns of all workers of this user on this host."""

    def __init__(self, directory: Path, at_once: int) -> None:
        self._directory, self._at_once = directory, at_once

    @contextlib.asynccontextmanager
    async def turn(self, patience_seconds: float) -> AsyncIterator[Callable[[], None]]:
        """Wait for a turn; gives what ends it early. After so long a wait it goes on without one: it may be that
        a holder hangs."""
        held = await self._wait(patience_seconds)

        def end() -> None:
            nonlocal held
            if held is not None:
                os.close(held)
                held = None

        try:
            yield end
        finally:
            end()

    async def _wait(self, patience_seconds: float) -> int | None:
        give_up = time.monotonic() + patience_seconds
        while True:
            try:
                held = self._try()
            except OSError as error:
                logger.info("backends start without taking turns: %s", error)
                return None
            if held is not None:
                return held
            if time.monotonic() >= give_up:
                logger.warning("others are starting Spark on this machine for %g s: going ahead", patience_seconds)
                return None
            await asyncio.sleep(_POLL_SECONDS)

    def _try(self) -> int | None:
        """A lock that nobody else has, as an open file. Raises OSError when locks can't be had here."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._directory.stat().st_uid != os.getuid():
            raise PermissionError(f"{self._directory} is another user's")
        for number in range(self._at_once):
            file = os.open(self._directory / f"turn-{number}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with contextlib.ExitStack() as unless_locked:
                unless_locked.callback(os.close, file)
                if take_lock(file):
                    unless_locked.pop_all()
                    return file
        return None


def machine_turns() -> StartTurns:
    """What all workers of this user on this host share. Not in the temporary directory, where nothing is to be left; hosts
    may share the user's, so it is named by the host."""
    cores = len(os.sched_getaffinity(0))
    return StartTurns(cache_directory() / f"starts-{socket.gethostname()}", max(AT_ONCE_MIN, cores // 2))


class Work(NamedTuple):
    """Work that a process has done until now."""

    log_bytes: int = 0
    cpu_ticks: int = 0


class Patience:
    """The time that a start is waited for: as long as it works, but not for ever. Pure: the caller has the clock."""

    def __init__(self, quiet_seconds: float, now: float) -> None:
        """It is over when nothing has moved for `quiet_seconds`, or after HURRY_MAX times that."""
        self.quiet_seconds = quiet_seconds
        self._begun = self._moved = now
        self._seen = Work()

    def note(self, work: Work, now: float) -> None:
        if work.log_bytes != self._seen.log_bytes or work.cpu_ticks >= self._seen.cpu_ticks + WORK_TICKS:
            self._seen, self._moved = work, now

    def idle_seconds(self, now: float) -> float:
        """Time since something moved."""
        return now - self._moved

    def is_over(self, now: float) -> bool:
        return self.idle_seconds(now) >= self.quiet_seconds or now - self._begun >= HURRY_MAX * self.quiet_seconds

    def why(self, now: float) -> str:
        """The reason that is given when it is over."""
        if self.idle_seconds(now) >= self.quiet_seconds:
            return f"did not answer, and nothing of it moved for {self.quiet_seconds:g} s"
        return f"did not answer within {HURRY_MAX * self.quiet_seconds:g} s, although it worked"


def work_of(supervisor_pid: int | None, log: Path) -> Work:
    """Work of a JVM under its supervisor, and size of what it has logged."""
    pids = () if supervisor_pid is None else (supervisor_pid, *children(supervisor_pid))
    with contextlib.suppress(OSError):
        return Work(log.stat().st_size, sum(map(_ticks, pids)))
    return Work(0, sum(map(_ticks, pids)))


def _ticks(pid: int) -> int:
    """CPU time that a process has used, in hundredths of a second."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0
    return int(fields[11]) + int(fields[12])
