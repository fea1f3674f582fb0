"""One at a time writes a target: a lock as an object, changed on condition and renewed by whoever holds it.

A holder that was killed renews no more. Who waits and sees the same content for LEASE_S, by its own clock, takes the lock
over. A holder that could not renew for as long gives up before that: `check` says so, and is called before each request.
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Protocol

from firesteel.adapters.storage.errors import TargetBusy
from firesteel.adapters.storage.objects import Conflict, Versions, put_once

LEASE_S = 15.0
RENEWALS = 5
"""Renewals within the time of a lease."""
LOOKS = 60
"""Times that who waits looks within the time of a lease."""


WAITS_MAX = 3
"""Most that is waited for a holder who renews, as times of a lease, before that is told."""


class Locks(Versions, Protocol):
    """Where locks are kept. Their data is short, and could be a name."""

    def uri(self, key: str) -> str:
        """How the lock is named to a person."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete locks; those that are not there are fine."""


class LeaseLost(OSError):
    """Another worker may write the target now: this one was too slow, or cut off."""


class Lease:
    """The lock `name`, as a context. `for_whom` says to a person who has it."""

    def __init__(
        self,
        locks: Locks,
        name: str,
        for_whom: str,
        *,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._locks, self._name, self._for_whom = locks, name, for_whom
        self._lease_s, self._clock, self._wait = lease_s, clock, wait
        self._holder, self._count = uuid.uuid4().hex, 0
        self._tag, self._until, self._is_lost = "", 0.0, False
        self._stop = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="renew-lease", daemon=True)

    def __enter__(self) -> "Lease":
        self._acquire()
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Release it; one that was lost is somebody else's."""
        self._stop.set()
        self._renewing.join()
        with contextlib.suppress(OSError):
            self.check()
            self._locks.delete([self._name])

    def check(self) -> None:
        """Raises LeaseLost unless nobody else can have it."""
        if self._is_lost or self._clock() >= self._until:
            raise LeaseLost(
                f"the lock {self._locks.uri(self._name)} is no longer this worker's: the commit goes on elsewhere"
            )

    def _acquire(self) -> None:
        """Raises TargetBusy or OSError."""
        begun = self._clock()
        seen, since = "", begun
        while not self._taken(None):
            try:
                found = self._locks.get(self._name)
            except FileNotFoundError:
                continue
            if found.tag != seen:
                seen, since = found.tag, self._clock()
            elif self._clock() - since >= self._lease_s and self._taken(seen):
                return
            if self._clock() - begun >= self._lease_s * WAITS_MAX:
                raise TargetBusy(f"another commit holds {self._locks.uri(self._name)}")
            self._wait(self._lease_s / LOOKS)

    def _taken(self, after: str | None) -> bool:
        begun = self._clock()
        try:
            self._tag = put_once(self._locks, self._name, self._content(), after)
        except Conflict:
            return False
        self._until = begun + self._lease_s
        return True

    def _renew(self) -> None:
        begun, is_open = 0.0, False
        while not self._stop.wait(self._lease_s / RENEWALS):
            if not is_open:  # else the last try may have been done: this one looks the same, and is no younger
                begun, self._count = self._clock(), self._count + 1
            try:
                self._tag = put_once(self._locks, self._name, self._content(), self._tag)
                self._until, is_open = begun + self._lease_s, False
            except Conflict:
                self._is_lost = True
                return
            except OSError:
                is_open = True

    def _content(self) -> bytes:
        """Differs each time: a tag may be a hash of it."""
        return f"{self._for_whom}.{self._holder}.{self._count}".encode()
