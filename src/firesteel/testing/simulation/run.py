"""One seed, one run: faults first, then healing; safety all the time, liveness at the end."""

import gc
import hashlib
from collections.abc import Callable
from functools import partial

from firesteel.core.dispatcher.requests import AwaitJobResult, CancelJobRequest, SubmitJob
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.testing.simulation.cluster import Cluster
from firesteel.testing.simulation.faults import Faults, draw
from firesteel.testing.simulation.oracles import Oracles
from firesteel.testing.simulation.workload import random_job
from firesteel.testing.simulation.world import World

FAULTY_MS = 120_000
"""Simulated time with faults."""

HEALED_MS = 1_500_000
"""Simulated time after it, in which all must end: longer than the grace workers give absent masters."""

JOBS_MAX = 5


class SimulationFailure(AssertionError):
    """A run broke an invariant. The text has seed, faults, cause and the last events."""

    def __init__(self, seed: int, faults: str, cause: BaseException, story: list[str]) -> None:
        lines = "\n".join(story[-60:])
        super().__init__(f"seed {seed} failed: {type(cause).__name__}: {cause}\nfaults: {faults}\n{lines}")
        self.seed, self.cause = seed, cause


class Run:
    """A cluster, its workload and its faults, all drawn from one seed."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.seed = seed
        drawing = World(seed, Faults()).stream("faults")
        self.world = World(seed, faults or draw(drawing))
        self.drawn = str(self.world.faults)
        self.cluster = Cluster(self.world, self.world.stream("workload").randint(1, 3))
        self.oracles = Oracles(self.cluster)
        self.world.check = self.oracles.after_event
        self.accepted: dict[JobID, None] = {}
        self.pending: dict[int, JobID] = {}
        self.awaited: dict[int, JobID] = {}

    def execute(self) -> str:
        """Run to the end; returns a digest of all that happened. Raises SimulationFailure."""
        end_ms = self.world.now_ms + FAULTY_MS
        try:
            self._plan_jobs()
            self._plan_faults(end_ms)
            self.world.run(end_ms)
            self.world.faults.heal()
            self.world.run(end_ms + HEALED_MS)
            self._collect()
            self.oracles.at_the_end(self.accepted)
        except Exception as error:
            raise SimulationFailure(self.seed, self.drawn, error, self.world.story) from error
        text = f"{self.world.events} {sorted((k, v[0].status.value) for k, v in self.cluster.results.items())}"
        return hashlib.blake2b((text + "\n".join(self.world.story)).encode(), digest_size=8).hexdigest()

    def _plan_jobs(self) -> None:
        chance = self.world.stream("workload")
        for number in range(chance.randint(1, JOBS_MAX)):
            graph = random_job(chance, number)
            at_ms = chance.randint(1, FAULTY_MS // 2)
            self.world.after(at_ms, partial(self._submit, graph))
            if chance.random() < self.world.faults.cancel_job:
                cancel_ms = at_ms + chance.randint(0, 60_000)
                self.world.after(cancel_ms, partial(self._cancel, graph.job_id))

    def _submit(self, graph: JobGraph) -> None:
        request = self.cluster.ask(SubmitJob(graph))
        if request is not None:
            self.pending[request] = graph.job_id
            self.cluster.ask(AwaitJobResult(graph.job_id))

    def _cancel(self, job_id: JobID) -> None:
        self.cluster.ask(CancelJobRequest(job_id))

    def _collect(self) -> None:
        """What clients were told: an answered submission must not be lost."""
        for request, job_id in self.pending.items():
            if self.world.replies.get(request) == job_id:
                self.accepted[job_id] = None

    def _plan_faults(self, end_ms: int) -> None:
        faults = self.world.faults
        self._repeat("crash", faults.worker_crash_every_ms, end_ms, self._crash_worker)
        self._repeat("depose", faults.master_change_every_ms, end_ms, self.cluster.change_master)
        self._repeat("break", faults.job_master_break_every_ms, end_ms, self._break_job_master)
        self._repeat("cut", faults.cut_every_ms, end_ms, self._cut)
        self._repeat("stall", faults.stall_every_ms, end_ms, self._stall)

    def _repeat(self, name: str, every_ms: int, end_ms: int, action: Callable[[], None]) -> None:
        if every_ms <= 0:
            return
        chance = self.world.stream(f"fault:{name}")

        def once() -> None:
            if self.world.now_ms < end_ms:
                action()
                self.world.after(chance.randint(1, 2 * every_ms), once)

        self.world.after(chance.randint(1, 2 * every_ms), once)

    def _crash_worker(self) -> None:
        workers = self.cluster.workers()
        self.cluster.kill_worker(self.world.stream("victims").choice(workers).core.address)

    def _break_job_master(self) -> None:
        masters = self.cluster.job_masters()
        if masters:
            self.cluster.break_job_master(self.world.stream("victims").choice(masters).core.address)

    def _cut(self) -> None:
        node, chance = self._victim(), self.world.stream("victims")
        self.world.faults.cuts[node] = self.world.now_ms + chance.randint(1, self.world.faults.cut_ms_max)

    def _stall(self) -> None:
        node, chance = self._victim(), self.world.stream("victims")
        self.world.faults.stalls[node] = self.world.now_ms + chance.randint(1, self.world.faults.stall_ms_max)

    def _victim(self) -> str:
        """The leading master's host, or a worker's."""
        nodes = [self.cluster.master, *(worker.node for worker in self.cluster.workers())]
        return self.world.stream("victims").choice(nodes)


def run_seed(seed: int, faults: Faults | None = None) -> str:
    """Execute one seed; returns the run's digest. Raises SimulationFailure."""
    gc.disable()
    try:
        return Run(seed, faults).execute()
    finally:
        gc.enable()
