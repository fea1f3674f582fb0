"""What changes in the cluster, told to all who watch it: looked at once, encoded once, while anybody is there."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Iterator

import msgspec

from firesteel.model.ids import JobID, ResourceID
from firesteel.model.secrets import redacted_text
from firesteel.model.views import JobSummary, QueuePlace
from firesteel.rest.eventbuffer import EventBuffer
from firesteel.rest.joblines import job_details
from firesteel.rest.schema import events as e
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.changes import ChangeWatch
from firesteel.runtime.client import ClusterGateway, NoLeader, UnknownJob
from firesteel.runtime.jobfacts import JobFact
from firesteel.runtime.services import Clock

TICK_S = 0.2
"""Time between two looks at the jobs that have changed: what changes faster is told together."""

WRITES_PER_S_MAX = 200
"""Parts that all streams are sent a second, together: of many readers each hears of more at a time."""

LOOK_S = 1.0
"""Time between two looks at workers and the line for slots, and between two events of a job's progress."""

LINGER_S = 60.0
"""Time that events are kept when nobody reads them any more: who was cut off comes back soon."""

SHARE_MAX = 0.05
"""Share of the master's time that looking may take: what takes longer is done less often."""

JOBS_PER_TURN = 100
"""Jobs that are looked at before others get their turn on the loop."""

WORKERS_NAMED_MAX = 100
"""Workers that an event names; of more that have other free slots, the next event tells."""

LINES_MAX = 20_000
"""Jobs of which it is known what was told last."""

QUEUE_NAMED_MAX = 50
"""Waiting jobs that an event names, the first in the line."""

_encode = msgspec.json.Encoder().encode
_Line = tuple[object, ...]
logger = logging.getLogger(__name__)


class Broadcast:
    """One for the endpoint of a master. Watching begins with the first reader; it ends a while after the last one."""

    def __init__(self, gateway: ClusterGateway, clock: Clock) -> None:
        self._gateway, self._clock = gateway, clock
        self._tasks = BackgroundTasks(lambda error: logger.error("watching the cluster failed", exc_info=error))
        self._watching: asyncio.Task[None] | None = None
        self._readers = 0
        self._idle_since_s = 0.0
        self._session: _Session | None = None
        self._news: asyncio.Future[None] | None = None

    @property
    def readers(self) -> int:
        return self._readers

    async def close(self) -> None:
        await self._tasks.close()
        self._end_session()

    async def current(self) -> EventBuffer:
        """The events there are, and those to come. Raises NoLeader."""
        self._idle_since_s = asyncio.get_running_loop().time()
        if self._session is None:
            if self._watching is None:
                self._watching = self._tasks.start(self._watch(), "watching the cluster")
            await asyncio.wait((self._watching, self._next()), return_when=asyncio.FIRST_COMPLETED)
        if self._session is None:
            raise NoLeader("nobody leads at the moment")
        return self._session.buffer

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """The cluster is watched as long as somebody is in the block."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            self._idle_since_s = asyncio.get_running_loop().time()

    def is_current(self, buffer: EventBuffer) -> bool:
        """Whether there will be more in it."""
        return self._session is not None and self._session.buffer is buffer

    async def more(self) -> None:
        """Wait until there may be more events, or no more for good."""
        await asyncio.wait((self._next(),))

    def _next(self) -> asyncio.Future[None]:
        if self._news is None or self._news.done():
            self._news = asyncio.get_running_loop().create_future()
        return self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _end_session(self) -> None:
        self._session, self._watching = None, None
        self._wake()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with self._gateway.watch_cluster() as watch:
                self._session = _Session(self._gateway, self._clock, watch)
                await self._session.begin()
                self._wake()
                while not watch.is_over and not self._is_idle(loop.time()):
                    began_s = loop.time()
                    if await self._session.look():
                        self._wake()
                    took_s = loop.time() - began_s
                    await asyncio.sleep(max(TICK_S, took_s / SHARE_MAX, self._readers / WRITES_PER_S_MAX))
        except ConnectionError:
            logger.info("nobody leads: who watched the cluster comes again")
        finally:
            self._end_session()

    def _is_idle(self, now_s: float) -> bool:
        return self._readers == 0 and now_s - self._idle_since_s > LINGER_S


class _Session:
    """What was told under one leader, and what differs from it."""

    def __init__(self, gateway: ClusterGateway, clock: Clock, watch: ChangeWatch) -> None:
        self._gateway, self._clock, self._watch = gateway, clock, watch
        self.buffer = EventBuffer()
        self._lines: dict[JobID, _Line] = {}
        """What was told last of jobs; the last one is that which changed last."""
        self._moved: dict[JobID, None] = {}
        """Jobs that have changed in something that their lines do not have."""
        self._workers: dict[ResourceID, tuple[int, int]] = {}
        """(slots, free slots)."""
        self._told_free: dict[ResourceID, int] = {}
        """Free slots of each worker as they were told last."""
        self._queue: dict[JobID, QueuePlace] = {}
        self._looked_s = float("-inf")

    async def begin(self) -> None:
        """Know how things are, which those who begin to read ask by themselves."""
        self._workers, self._queue = await self._current_workers(), await self._gateway.request_queue()
        self._told_free = {worker: free for worker, (_, free) in self._workers.items()}

    async def look(self) -> bool:
        """Put into the buffer what has changed; whether anything has."""
        newest = self.buffer.newest
        jobs, facts, has_lost_facts = self._watch.take()
        if has_lost_facts:
            self.buffer.add("resync", b"{}")
        for fact in facts:
            self.buffer.add("attempts", _encode(_told(fact)), fact.job_id)
        for index, job_id in enumerate(jobs):
            await self._look_at(job_id)
            if index % JOBS_PER_TURN == JOBS_PER_TURN - 1:
                await asyncio.sleep(0)
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            await self._look_at_workers()
            await self._look_at_queue()
            for job_id in self._moved:
                self.buffer.add("progress", _encode(e.JobNamed(job_id)), job_id)
            self._moved.clear()
        return self.buffer.newest != newest

    async def _look_at(self, job_id: JobID) -> None:
        try:
            line = await self._gateway.request_job_summary(job_id)
        except UnknownJob:
            self._lines.pop(job_id, None)
            self.buffer.add("job-gone", _encode(e.JobNamed(job_id)), job_id)
            return
        news = _news_of(line)
        if self._lines.pop(job_id, None) == news:
            self._lines[job_id] = news
            self._moved[job_id] = None
            return
        self._lines[job_id] = news
        if len(self._lines) > LINES_MAX:
            self._lines.pop(next(iter(self._lines)))
        self.buffer.add("job", _encode(job_details(line, self._clock.now_ms())), job_id)

    async def _look_at_workers(self) -> None:
        before, self._workers = self._workers, await self._current_workers()
        told = self._told_free
        free = {worker: free for worker, (_, free) in self._workers.items() if told.get(worker) != free}
        if self._workers == before and not free:
            return
        named = dict(itertools.islice(free.items(), WORKERS_NAMED_MAX))
        self._told_free = {each: free for each, free in (told | named).items() if each in self._workers}
        workers = e.WorkersChanged(
            taskmanagers=len(self._workers),
            slots_total=sum(slots for slots, _ in self._workers.values()),
            slots_available=sum(free for _, free in self._workers.values()),
            joined=[str(each) for each in self._workers if each not in before][:WORKERS_NAMED_MAX],
            left=[str(each) for each in before if each not in self._workers][:WORKERS_NAMED_MAX],
            free={str(worker): free for worker, free in named.items()},
        )
        self.buffer.add("workers", _encode(workers))

    async def _look_at_queue(self) -> None:
        before, self._queue = self._queue, await self._gateway.request_queue()
        if self._queue != before:
            self.buffer.add("queue", _encode(queue_info(self._queue, QUEUE_NAMED_MAX)))

    async def _current_workers(self) -> dict[ResourceID, tuple[int, int]]:
        return {each.resource_id: (each.slots, each.free_slots) for each in await self._gateway.list_task_managers()}


def queue_info(queue: dict[JobID, QueuePlace], named_max: int) -> e.QueueInfo:
    """The line for slots, the first ones by name."""
    first = [
        e.WaitingJob(
            jid=job_id,
            place=place.place,
            queue=place.queue,
            priority=place.priority,
            slots_missing=place.slots_missing,
            reason=place.reason,
        )
        for job_id, place in list(queue.items())[:named_max]
    ]
    return e.QueueInfo(waiting=len(queue), first=first)


def _news_of(line: JobSummary) -> _Line:
    return line.status, line.reason, line.name, line.tasks


def _told(fact: JobFact) -> e.AttemptsChanged:
    return e.AttemptsChanged(
        jid=fact.job_id,
        at=fact.at_ms,
        kind=fact.kind,
        text=redacted_text(fact.text),
        attempts=[e.AttemptNamed(region, attempt, worker) for region, attempt, worker in fact.attempts],
        count=fact.count,
    )
