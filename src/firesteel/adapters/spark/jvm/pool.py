"""The worker's Spark backends: which JVM an attempt runs on, and how long each lives."""

import asyncio
import contextlib
import itertools
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children.guard import SessionGuard
from firesteel.adapters.spark.children.keeper import KeeperFailed, SessionEnding, SessionKeeper
from firesteel.adapters.spark.clusters.foreign import ForeignServer
from firesteel.adapters.spark.jvm import runaways
from firesteel.adapters.spark.jvm.server import SparkServer
from firesteel.adapters.spark.jvm.warmup import WarmUp
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.resources import SparkApplication
from firesteel.model.tasks import TaskDeployment
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

QUIET_SAMPLES = 30
"""A backend in which something may run on must be found idle so often in a row, each time for a second."""

RUNAWAY_SAMPLES = 5
"""Tasks that were cancelled and work for so many seconds more are not about to end."""

OUTSIDER = RegionAttemptID(JobID("outsider"), RegionIndex(0), 0)
"""Stands for all who run queries of their own there: without a user, a JVM would be replaced for what seems to run on."""


class SparkBackend:
    """One JVM, its successors after deaths, the keeper of its sessions, and the attempts that use it."""

    def __init__(
        self,
        server: SparkServer | ForeignServer,
        keeper: SessionKeeper,
        directory: Path | None = None,
        *,
        warm_up: WarmUp | None = None,
        guard: SessionGuard | None = None,
    ) -> None:
        """`directory` is its own, and goes with it. `guard`: of sessions on a server that does not end with this worker."""
        self.server, self._warm_up, self._guard = server, warm_up, guard
        self._keeper, self._directory = keeper, directory
        self._users: dict[RegionAttemptID, None] = {}
        self._suspicion = 0
        """Samples to be taken before the JVM counts as clean again."""
        self._watched = False
        self._cache_is_dirty = False
        """Attempts that have ended may have left something in Spark's cache."""
        self._background = BackgroundTasks()

    def start(self) -> None:
        self.server.start()
        self._background.start(self._meet(), "session-keeper-start")

    @property
    def users(self) -> tuple[RegionAttemptID, ...]:
        """Attempts that use it, and sessions beside them, which are of no job; oldest first."""
        return tuple(self._users)

    def admit(self, attempt: RegionAttemptID) -> None:
        """Note a user of the JVM: from here on it is not ended in favour of another."""
        self._users[attempt] = None
        if self._warm_up is not None:
            self._warm_up.give_way()

    def leave(self, attempt: RegionAttemptID) -> None:
        """The attempt is over, and its session closed. Repeatable."""
        self._users.pop(attempt, None)
        if self._cache_is_dirty and not self._users and self._guard is None:  # others may have cached something there
            self._background.start(self._clear_cache(), "clear-cache")
        self._watch_if_suspect()

    def hold(self, session: wire.SessionName) -> None:
        """A session is about to be opened."""
        self._order(wire.GuardAction.HOLD, session)

    def _order(self, action: wire.GuardAction, session: wire.SessionName) -> None:
        if self._guard is not None:
            self._guard.order(action, session)

    async def interrupt(self, endpoint: wire.SparkAddress, session: wire.SessionName) -> None:
        """Interrupt what runs in a session, if its JVM still lives."""
        if self.server.current == endpoint:
            with contextlib.suppress(KeeperFailed, TaskFailedError):
                self._suspect((await self._keeper.interrupt(endpoint, session)).interrupted)

    async def close_session(
        self, endpoint: wire.SparkAddress, session: wire.SessionName, ending: SessionEnding
    ) -> None:
        """End what runs in a session, and close it, if its JVM still lives."""
        if self.server.current != endpoint:
            self._order(wire.GuardAction.CLOSE, session)
            return
        try:
            closed = await self._keeper.close_session(endpoint, session, ending)
        except (KeeperFailed, TaskFailedError) as error:
            logger.warning("session %s was not closed: %s", session.session_id, error)
            self._suspect(True)
            self._order(wire.GuardAction.CLOSE, session)
            self._cache_is_dirty = self._cache_is_dirty or bool(ending.cached)
            return
        self._cache_is_dirty = self._cache_is_dirty or not closed.released
        self._suspect(closed.interrupted)
        self._order(wire.GuardAction.CLOSE if closed.error else wire.GuardAction.FORGET, session)
        if closed.error:
            logger.warning("session %s was not closed well: %s", session.session_id, closed.error)
        if closed.server_session:
            await self.server.end_python_workers(closed.server_session)

    async def close(self) -> None:
        """End it, and with it all that runs there. Idempotent."""
        await self._background.close()
        await self._keeper.close()
        await self.server.close()
        if self._directory is not None:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def _clear_cache(self) -> None:
        """Release what could not be released one by one, while nobody uses the JVM."""
        endpoint = self.server.current
        self._cache_is_dirty = False
        if endpoint is not None:
            try:
                error = (await self._keeper.clear_cache(endpoint)).error
            except (KeeperFailed, TaskFailedError) as failed:
                error = str(failed)
            if error:
                logger.warning("what ended attempts have cached in Spark was not released: %s", error)
                self._cache_is_dirty = True

    async def _meet(self) -> None:
        """Start the session keeper as soon as there is something to keep, and the warm-up after that."""
        with contextlib.suppress(TaskFailedError):
            endpoint = await self.server.endpoint()
            await self._keeper.connect(endpoint)
            if self._warm_up is not None:
                work = self._warm_up.warm(endpoint, self._is_idle, self.close_unused)
                warming = self._background.start(work, "warm-up")
                self.server.death().add_done_callback(lambda _: warming.cancel())

    def _is_idle(self) -> bool:
        """Nobody uses the JVM, and nothing may run on in it: `_watch_idle` would take the warm-up for that."""
        return not self._users and not self._suspicion

    async def close_unused(self, endpoint: wire.SparkAddress, session: wire.SessionName, ending: SessionEnding) -> None:
        """Close a session that is no attempt's, after which none may leave."""
        await self.close_session(endpoint, session, ending)
        self._watch_if_suspect()

    def _watch_if_suspect(self) -> None:
        if self._suspicion and not self._users and not self._watched:
            self._watched = True
            self._background.start(self._watch_idle(), "runaways")

    def _suspect(self, interrupted: bool) -> None:
        if interrupted:
            self._suspicion = QUIET_SAMPLES

    async def _watch_idle(self) -> None:
        """Spark can lose an interrupt: what then still runs has no owner, and ends with its JVM."""
        busy = 0
        while self._suspicion and not self._users:
            pid = self.server.pid
            works = pid is not None and await runaways.works(pid)
            busy = busy + 1 if works else 0
            if self._users:
                break  # whose work it is can't be told: again when they have left
            if busy >= RUNAWAY_SAMPLES:
                logger.warning("a Spark query that was cancelled runs on: replacing its backend, which nobody uses")
                self._suspicion = busy = 0
                await self.server.renew()
                await self._meet()
            elif not works:
                self._suspicion = max(0, self._suspicion - 1)
        self._watched = False


class Place(NamedTuple):
    """The owner of a backend: everybody, a job, a slot as a job has it, or one attempt."""

    job_id: str = ""
    slot: str = ""
    attempt: int = -1


class SmallNumbers:
    """Numbers for what exists at the same time: the lowest that is free."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def take(self) -> int:
        number = next(number for number in itertools.count(1) if number not in self._taken)
        self._taken.add(number)
        return number

    def give_back(self, number: int) -> None:
        """Give a number back, once for each time it was taken."""
        self._taken.discard(number)


class BackendPool:
    """Makes backends when they are needed, some ahead of need, and ends those whose time is over.

    `isolation` is `shared`, `job` or `slot`. There are at most `limit` at a time, beside spares and those of single
    attempts: one that nobody uses gives way.
    """

    def __init__(self, isolation: str, make: Callable[[bool], SparkBackend], *, limit: int, spares: int) -> None:
        """`make` makes a backend that is not started, for a single attempt when it is told so."""
        self._isolation, self._make = isolation, make
        self._limit, self._spare_target = limit, 0 if isolation == "shared" else spares
        self._places: dict[Place, SparkBackend] = {}
        """The one that was asked for last is last."""
        self._spares: list[SparkBackend] = []
        self._endings = BackgroundTasks()
        self.numbers = SmallNumbers()
        """Numbers of the seats: their scheduler pools in Spark are named by them."""

    def shared(self) -> SparkBackend:
        """Everybody's backend."""
        return self.find(Place())

    def start(self) -> None:
        """Begin to warm up."""
        if self._isolation == "shared":
            self.find(Place())
        self._refill()

    def ready(self) -> SparkBackend | None:
        """One that is there before any attempt: everybody's, or a spare."""
        if self._isolation == "shared":
            return self.find(Place())
        return self._spares[0] if self._spares else None

    def applications(self) -> list[SparkApplication]:
        """What its backends are on clusters, or show of themselves, each with whose it is."""
        found: list[SparkApplication] = []
        for place, backend in (*self._places.items(), *((None, spare) for spare in self._spares)):
            if (application := backend.server.application()) is not None:
                own = (place.job_id,) if place is not None and place.job_id else ()
                used = (attempt.job_id for attempt in backend.users if attempt.job_id)
                jobs = tuple(map(JobID, dict.fromkeys((*own, *used))))
                is_shared = place == Place()
                found.append(msgspec.structs.replace(application, jobs=jobs, is_shared=is_shared))
        return found

    def supervisors(self) -> list[int]:
        """Process ids of the supervisors of all JVMs that are up: Spark serves there."""
        servers = (backend.server for backend in (*self._places.values(), *self._spares))
        return [server.pid for server in servers if server.current is not None and server.pid is not None]

    def place_of(self, deployment: TaskDeployment) -> Place:
        """Place that an attempt belongs to."""
        job_id = deployment.attempt.job_id
        if deployment.alone:
            return Place(job_id, f"region-{deployment.attempt.region}", deployment.attempt.attempt)
        match self._isolation:
            case "slot":
                return Place(job_id, deployment.allocation_id)
            case "job":
                return Place(job_id)
            case _:
                return Place()

    def find(self, place: Place) -> SparkBackend:
        """The backend there; a spare, or a new one, when there is none yet."""
        backend = self._places.pop(place, None)
        if backend is None:
            self._make_room()
            backend = self._spares.pop(0) if self._spares else self._started(place.attempt >= 0)
        self._places[place] = backend
        self._refill()
        return backend

    def release_attempt(self, place: Place) -> None:
        """An attempt has ended, and its session is closed: a backend of its own goes with it."""
        if place.attempt >= 0:
            self._end(place)

    async def release_job(self, job_id: JobID) -> None:
        """End what only this job has used."""
        for place in [place for place in self._places if place.job_id == job_id]:
            self._end(place)
        await self._endings.join()

    async def close(self) -> None:
        """End all. Idempotent."""
        self._spare_target = 0
        for place in tuple(self._places):
            self._end(place)
        for spare in self._spares:
            self._endings.start(spare.close(), "spark-backend-end")
        self._spares.clear()
        await self._endings.join()

    def _started(self, alone: bool) -> SparkBackend:
        backend = self._make(alone)
        backend.start()
        return backend

    def _refill(self) -> None:
        while len(self._spares) < self._spare_target:
            self._spares.append(self._started(False))

    def _make_room(self) -> None:
        """A slot that was given to another job still has its former job's backend: that goes first."""
        idle = [place for place, backend in self._places.items() if not backend.users]
        for place in idle[: max(0, len(self._places) - self._limit + 1)]:
            self._end(place)

    def _end(self, place: Place) -> None:
        backend = self._places.pop(place, None)
        if backend is not None:
            self._endings.start(backend.close(), "spark-backend-end")


class Seat:
    """An attempt's claim on a backend: made good when it first needs Spark, given back once."""

    def __init__(self, pool: BackendPool, deployment: TaskDeployment) -> None:
        self._pool, self._attempt = pool, deployment.attempt
        self._place = pool.place_of(deployment)
        self.is_shared = self._place == Place()
        """Whether everybody uses its backend."""
        self._backend: SparkBackend | None = None
        self._number: int | None = pool.numbers.take()
        self.scheduler_pool = f"attempt-{self._number}"
        """Name of a pool in Spark: tasks of attempts that share a JVM take turns by these. Spark never forgets a pool, so that names are
        given again: there are as many as attempts have run at a time."""

    def take(self) -> SparkBackend:
        """The attempt's backend; always the same."""
        if self._backend is None:
            self._backend = self._pool.find(self._place)
            self._backend.admit(self._attempt)
        return self._backend

    def leave(self) -> None:
        """The attempt is over, and its session closed. Repeatable."""
        if self._number is not None:
            self._pool.numbers.give_back(self._number)
            self._number = None
        if self._backend is not None:
            self._backend.leave(self._attempt)
            self._pool.release_attempt(self._place)
