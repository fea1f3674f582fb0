"""Level B: one seed, one run of the real endpoints, as processes that crash, stall, stop, and lose one another."""

import asyncio
import contextlib
import gc
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import msgspec

from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact, JobGraph
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.runtime.client import CancelRefused, ClusterLost, DuplicateJob, NoLeader, StorageUnavailable
from firesteel.runtime.endpoint import EndpointStopped
from firesteel.testing.simulation.endpoints.hosts import DEEDS, FAULTY_S, MASTERS_DEEDS, STOP_S, STOPPED_S, Hosts
from firesteel.testing.simulation.endpoints.processes import MasterProcess
from firesteel.testing.simulation.faults import MASTERS_ONLY
from firesteel.testing.simulation.mishaps import Mishaps
from firesteel.testing.simulation.summary import SimulationFailure, Summary
from firesteel.testing.simulation.workload import random_job

BOUND_S = 1_200.0
"""Simulated time after it in which all jobs must end, and nothing be left of them. Four jobs whose sources draw splits one
after the other on the one worker that is left take 980 s (seed 464)."""

PATIENCE_S = 10.0
"""Time after which a client asks again."""

MASTERS, WORKERS_MAX, JOBS_MAX = 2, 3, 4

_GROWING = "restart-strategy.exponential-delay"
RESTARTS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"jobmanager.execution.failover-strategy": "full"},
    {
        "restart-strategy.type": "exponential-delay",
        f"{_GROWING}.initial-backoff": "50 ms",
        f"{_GROWING}.max-backoff": "1 s",
    },
    {"restart-strategy.type": "failure-rate", "restart-strategy.failure-rate.max-failures-per-interval": "1000"},
)
"""What jobs may say of their restarts themselves."""

RETRIED = (NoLeader, EndpointStopped, TimeoutError, StorageUnavailable, ClusterLost)
"""What a client meets that asks again."""


class Errors(logging.Handler):
    """An ERROR line means that a person must look."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._failed = failed

    def emit(self, record: logging.LogRecord) -> None:
        self._failed(f"logged as an error: {record.getMessage()} {record.exc_info and record.exc_info[1]!r}")


class EndpointRun:
    """Two masters on one disk, some workers, and a client for each job."""

    def __init__(self, seed: int, only: Iterable[str] | None = None, *, tell_all: bool = False) -> None:
        self.seed, self.mishaps = seed, Mishaps(seed, only)
        self.problems: list[str] = []
        self.story: list[str] = []
        self.hosts = Hosts(self.mishaps, self._note, self.problems.append)
        self.loop, self.ground = self.hosts.loop, self.hosts.ground
        if tell_all:
            self.ground.network.note = self._note
        self.cancelled: set[JobID] = set()
        self.masters_only = self.mishaps.stream("masters only").random() < MASTERS_ONLY
        """Nothing fails but masters and their disk."""

    # ── the run ──────────────────────────────────────────────────────────────────────────────
    def execute(self) -> Summary:
        """Run to the end. Raises SimulationFailure."""
        errors = Errors(self.problems.append)
        logger = logging.getLogger("firesteel")
        logger.addHandler(errors)
        try:
            self.loop.run_until_complete(self._task(self._story()))
            assert not self.problems, self.problems[0]
            return self._summary()
        except Exception as error:
            what = f"{type(error).__name__}: {error}" if not self.problems else self.problems[0]
            raise SimulationFailure(self.seed, what, "", self.mishaps.struck, self.story) from error
        finally:
            logger.removeHandler(errors)
            self.loop.end()  # In an order of its own: that of `asyncio.all_tasks`, which is none.

    def _summary(self) -> Summary:
        text = "\n".join((*self.story, str(self.loop.turns)))
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        names, changes = tuple(self.mishaps.struck), self.hosts.epoch - 1
        return Summary(self.seed, self.loop.turns, names, changes, digest, tuple(self.story))

    async def _story(self) -> None:
        chance = self.mishaps.stream("workload")
        for _ in range(MASTERS):
            self.hosts.start_master()
        self.hosts.lead(self.hosts.masters[0])
        for _ in range(chance.randint(1, WORKERS_MAX)):
            self.hosts.start_worker()
        clients = [self._task(self._client(number, chance.uniform(0.0, FAULTY_S / 2))) for number in range(JOBS_MAX)]
        for deed in DEEDS:
            if chance.random() < (0.6 if self.masters_only else 0.3) and (
                deed in MASTERS_DEEDS or not self.masters_only
            ):
                self._task(self.hosts.repeat(deed, chance.uniform(3.0, 30.0)))
        await asyncio.sleep(FAULTY_S)
        self.hosts.heal()
        async with asyncio.timeout(BOUND_S):
            await self._all_done(clients)
        await self._until_nothing_is_left()
        await self._stop_all()
        if self.masters_only:
            self._all_ran_once()

    async def _all_done(self, tasks: list[asyncio.Task[None]]) -> None:
        """What `gather` does, in the same number of turns of the loop with every version of Python."""
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()

    def _all_ran_once(self) -> None:
        """A change of leader alone restarts nothing."""
        begun = Counter((it.attempt.job_id, it.attempt.region) for it in self.ground.script.attempts)
        again = [region for region, times in begun.items() if times > 1]
        assert not again, f"nothing has failed but masters, and some regions have run again: {again}"

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.loop.spawn(work, self.hosts.outside)

    def _note(self, line: str) -> None:
        self.story.append(f"{self.loop.time():.3f} {line}")

    # ── clients ──────────────────────────────────────────────────────────────────────────────
    async def _client(self, number: int, after_s: float) -> None:
        """Submits a job until it is safe, looks at it to its end, and reads its result twice."""
        graph = _with_artifact(random_job(self.mishaps.stream(f"job {number}"), number, 4, 3))
        own = self.mishaps.stream(f"restarts {number}").choice(RESTARTS)
        graph = msgspec.structs.replace(graph, configuration={**graph.configuration, **own})
        await asyncio.sleep(after_s)
        if not self.mishaps.strikes(f"job {number}"):
            return
        files = {artifact.sha256: Path(__file__) for artifact in graph.artifacts}
        with contextlib.suppress(DuplicateJob):  # It has ended since the first time.
            await self._ask(lambda master: master.client.submit_job(graph, files))
        if self.mishaps.strikes("cancel job", 0.2):
            await asyncio.sleep(self.mishaps.stream("cancel job:by").uniform(0.0, 10.0))
            self.cancelled.add(graph.job_id)
            with contextlib.suppress(CancelRefused):  # it commits
                await self._ask(lambda master: master.client.cancel_job(graph.job_id))
        seen = JobStatus.CREATED
        while not seen.is_globally_terminal:
            seen = (await self._ask(lambda master: master.client.request_job(graph.job_id))).status
            await asyncio.sleep(1.0)
        first = await self._ask(lambda master: master.client.request_job_result(graph.job_id))
        await asyncio.sleep(5.0)
        again = await self._ask(lambda master: master.client.request_job_result(graph.job_id))
        shown = (await self._ask(lambda master: master.client.request_job(graph.job_id))).status
        assert first == again, f"the result of {graph.job_id} was {first} and is {again}"
        assert {seen, shown} == {first.status}, f"{graph.job_id}: shown {seen}, {shown}, ended {first.status}"
        self._check_result(graph, first)

    async def _ask(self, request: Callable[[MasterProcess], Coroutine[Any, Any, Any]]) -> Any:
        """Ask the leading master until there is an answer. The master's process does it, and may be gone meanwhile.

        One that has not noticed yet that it was deposed is not asked: what it shows is old.
        """
        while True:
            master = self.hosts.leading
            if master is not None and master.leads_in(self.hosts.epoch):
                task = self.loop.spawn(request(master), master.process)
                await asyncio.wait([task], timeout=PATIENCE_S)
                if task.done() and not task.cancelled():
                    if not isinstance(task.exception(), RETRIED):
                        return task.result()
                else:
                    task.cancel()
            await asyncio.sleep(0.5)

    def _check_result(self, graph: JobGraph, result: JobResult) -> None:
        self._note(f"job {graph.job_id} has ended: {result.status.value}")
        allowed = {JobStatus.FINISHED, *({JobStatus.CANCELED} if graph.job_id in self.cancelled else ())}
        assert result.status in allowed, f"{result}"
        visible = {key: done for key, done in self.ground.script.visible.items() if key.startswith(graph.job_id)}
        assert all(len(done) <= 1 for done in visible.values()), f"a sink of {graph.job_id} is visible twice"
        made = sum(map(len, visible.values()))
        assert len(result.sinks) == made, f"{graph.job_id} says {len(result.sinks)} outputs are visible, {made} are"

    # ── the end ──────────────────────────────────────────────────────────────────────────────
    async def _until_nothing_is_left(self) -> None:
        until_s = self.loop.time() + BOUND_S
        while problem := self._left():
            assert self.loop.time() < until_s, f"{BOUND_S:g} s after the faults: {problem}"
            await asyncio.sleep(1.0)

    def _left(self) -> str:
        """What is left of jobs that have ended."""
        for process in self.hosts.workers:
            if process.worker is None:
                return f"{process.name} is not up"
            core = process.worker.endpoint.core
            core.validate()
            if core.jobs:
                return f"{process.name} still holds {list(core.jobs)}"
        if self.hosts.leading is None:
            return "nobody leads"
        if self.hosts.leading.store._log.jobs.graphs():
            return "jobs are still stored"
        try:
            managers = self.hosts.leading.master.resource_manager().task_managers()
        except NoLeader:
            return "no ResourceManager leads"
        free = sum(manager.free_slots for manager in managers)
        total = sum(len(process.worker.endpoint.core.table.slots) for process in self.hosts.workers if process.worker)
        if free != total:
            return f"{free} of {total} slots are free, as the ResourceManager knows"
        kept = self.hosts.leading.store._log.jobs.kept_graphs()
        named = {artifact.sha256 for graph in kept for artifact in graph.artifacts}
        left = [name for name in self.ground.blobs.names if name not in named]
        return f"blobs are left: {left}" if left else ""

    async def _stop_all(self) -> None:
        """In order; then nothing of any process may be left."""
        for process in self.hosts.processes():
            task = self.loop.spawn(process.stop(), process.process)
            await asyncio.wait([task], timeout=STOP_S)
            assert task.done(), f"{process.name} does not stop"
            task.result()
        await asyncio.sleep(STOPPED_S)
        for process in self.hosts.processes():
            left = [*self.loop.left_of(process.process), *process.left()]
            assert not left, f"{process.name} has stopped, and has left {left}"


def _with_artifact(graph: JobGraph) -> JobGraph:
    artifact = Artifact(name="code", kind="code", sha256=graph.job_id * 2, size_bytes=1)
    return msgspec.structs.replace(graph, artifacts=(artifact,))


def run_endpoint_seed(seed: int, only: Iterable[str] | None = None, *, tell_all: bool = False) -> Summary:
    """Execute one seed of level B. Raises SimulationFailure."""
    gc.disable()
    try:
        return EndpointRun(seed, only, tell_all=tell_all).execute()
    finally:
        gc.enable()
