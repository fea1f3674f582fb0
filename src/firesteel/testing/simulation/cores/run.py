"""One seed, one run: faults first, then healing; safety all the time, liveness within a bound of time after it."""

import dataclasses
import gc
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from firesteel.model.jobgraph import JobGraph
from firesteel.model.states import JobStatus
from firesteel.testing.simulation.cores.clients import MISSED_MS, Client, another_of
from firesteel.testing.simulation.cores.cluster import Cluster
from firesteel.testing.simulation.cores.settings import (
    LABELS,
    ClusterSettings,
    draw_labels,
    draw_scheduling,
    draw_settings,
    draw_volumes,
)
from firesteel.testing.simulation.cores.spark import HANG_MS_MAX
from firesteel.testing.simulation.cores.world import World, line_of
from firesteel.testing.simulation.faults import MASTERS_ONLY, Faults, draw
from firesteel.testing.simulation.mishaps import Mishaps
from firesteel.testing.simulation.oracles.oracles import Oracles
from firesteel.testing.simulation.streams.clients import Pipeline
from firesteel.testing.simulation.streams.pipelines import QUERIES_MAX, has_stream, with_retention, with_streams
from firesteel.testing.simulation.summary import SimulationFailure, Summary
from firesteel.testing.simulation.workload import random_job, with_auto_parallelism, with_labels, with_retries

FAULTY_MS = 120_000
"""Simulated time with faults."""

LOOK_EVERY_MS = 5_000
"""Time between two looks whether all is done, once the faults have stopped."""

SLACK_MS = 300_000
"""Slack in the bound on the time until all is done: registrations, reports, restarts, and what was late on its way."""

JOBS_MAX, JOBS_BESIDE_STREAM_MAX = 5, 2

BIG_SEED_EVERY = 25
"""One of so many seeds has a job with up to 200 subtasks a vertex."""


class Run:
    """A cluster, its clients and its faults, all drawn from one seed. Of the mishaps, `only` these happen."""

    def __init__(
        self, seed: int, faults: Faults | None = None, only: Iterable[str] | None = None, *, tell_all: bool = False
    ) -> None:
        drawing = Mishaps(seed)
        self.seed = seed
        self.world = World(seed, faults or drawn(drawing), only, tell_all=tell_all)
        self.mix = str(self.world.faults)
        self.is_big = faults is None and seed % BIG_SEED_EVERY == BIG_SEED_EVERY - 1
        settings = draw_settings(drawing.stream("settings"), slots_max=64 if self.is_big else 6)
        restarting = draw_scheduling(drawing.stream("restarts"), settings.job_master.scheduler)
        scheduler = draw_volumes(drawing.stream("volumes"), restarting)
        settings = dataclasses.replace(
            settings,
            job_master=dataclasses.replace(settings.job_master, scheduler=scheduler),
            labels=draw_labels(drawing.stream("labels"), settings.workers),
        )
        streaming = drawing.stream("streams")
        self.has_stream = has_stream(streaming)
        batches, is_shared = 0, False
        if self.has_stream:
            settings = with_streams(streaming, settings)
            batches, is_shared = streaming.choice((1, 2, 5)), streaming.random() < 0.85
            settings = with_retention(drawing.stream("retention"), settings, is_shared=is_shared)
        self.clients: list[Client] = []
        self.cluster = Cluster(self.world, settings)
        self.pipeline = self._pipeline(batches, is_shared=is_shared) if self.has_stream else None
        self.oracles = Oracles(self.cluster)
        self.world.check = self.oracles.after_event

    def execute(self) -> Summary:
        """Run to the end. Raises SimulationFailure."""
        end_ms = self.world.now_ms + FAULTY_MS
        try:
            self._plan_jobs()
            if self.pipeline is not None:
                self.pipeline.plan()
            self._plan_mishaps(end_ms)
            self.world.run(end_ms)
            self._heal()
            bound = bound_ms(self.cluster.settings, self._graphs(), self.world.faults)
            self._until("a job has not ended", self._jobs_run, bound)
            self._until("something is left", self.oracles.at_the_end, SLACK_MS)
            self.oracles.outputs_are_whole()
            if self.pipeline is not None:
                for client in self.pipeline.clients:
                    client.has_heard_the_truth()
                self.oracles.streams.at_the_end(is_drained=self.pipeline.is_drained())
        except Exception as error:
            story = [line_of(told) for told in self.world.story]
            what = f"{type(error).__name__}: {error}"
            raise SimulationFailure(self.seed, what, self.mix, self.world.mishaps.struck, story) from error
        names = tuple(self.world.mishaps.struck)
        changes = self.cluster.masters.epochs - 1
        if self.world.digest is None:
            return Summary(self.seed, self.world.events, names, changes, "")
        lines = tuple(line_of(told) for told in self.world.story)
        return Summary(self.seed, self.world.events, names, changes, self.world.digest.hexdigest(), lines)

    def _pipeline(self, batches: int, *, is_shared: bool) -> Pipeline:
        """Of the size of the cluster: its queries run at once, or not at all. Spark retains so many batches."""
        streams, slots = self.cluster.storage.streams, slots_of(self.cluster.settings)
        streams.retained, streams.is_shared = batches, is_shared
        retention = self.cluster.settings.job_master.scheduler.checkpoints.retention
        streams.keeps = retention.retains(JobStatus.FAILED)
        return Pipeline(self.world, self.cluster, min(QUERIES_MAX, slots), self.world.now_ms + FAULTY_MS)

    # ── the workload ─────────────────────────────────────────────────────────────────────────
    def _plan_jobs(self) -> None:
        chance, mishaps, faults = self.world.stream("workload"), self.world.mishaps, self.world.faults
        count = chance.randint(1, JOBS_MAX)
        for number in range(min(count, JOBS_BESIDE_STREAM_MAX) if self.has_stream else count):
            wide = self.is_big and not number
            graph = random_job(chance, number, parallelism_max=200 if wide else 6)
            graph = with_auto_parallelism(self.world.stream(f"parallelism {number}"), graph)
            graph = with_retries(self.world.stream(f"retries {number}"), graph)
            if self.cluster.settings.labels:
                graph = with_labels(self.world.stream(f"labels {number}"), graph)
            at_ms, cancel_ms, again_ms = (
                chance.randint(1, FAULTY_MS // 2),
                chance.randint(0, 60_000),
                chance.randint(0, 60_000),
            )
            if not mishaps.strikes("job"):
                continue
            if mishaps.strikes("attached", faults.attached):
                timeout_ms = self.world.stream("attached:by").choice((4_000, 20_000))
                graph = msgspec.structs.replace(graph, client_heartbeat_timeout_ms=timeout_ms)
            client = Client(self.world, self.cluster, graph)
            self.clients.append(client)
            gone_ms = self.world.stream("client gone:by").randint(0, 60_000)
            if graph.client_heartbeat_timeout_ms and mishaps.strikes("client gone", faults.client_gone):
                self.world.after(at_ms + gone_ms, client.vanish)
            self.world.after(at_ms, client.submit)
            if mishaps.strikes("cancel job", faults.cancel_job):
                self.world.after(at_ms + cancel_ms, client.cancel)
            if mishaps.strikes("resubmit", faults.resubmit):
                other = another_of(graph) if again_ms % 2 else graph
                self.world.after(at_ms + again_ms, partial(self._again, client, other))

    def _again(self, client: Client, graph: JobGraph) -> None:
        """Another client cannot be the first to take an id."""
        if client.is_safe:
            client.submit_again(graph)

    def _all_clients(self) -> list[Client]:
        return [*self.clients, *(self.pipeline.clients if self.pipeline is not None else ())]

    def _graphs(self) -> list[JobGraph]:
        return [client.graph for client in self._all_clients()]

    # ── healing ──────────────────────────────────────────────────────────────────────────────
    def _heal(self) -> None:
        """No fault from here on, and whoever is cut off or stands still is back."""
        self.world.faults.heal()
        self.world.mishaps.is_over = True
        self.world.cuts.clear()
        self.world.end_stalls()
        if self.pipeline is not None:
            self.pipeline.settle_down()
        for client in self.clients:
            missed_ms = MISSED_MS + 2 * client.graph.client_heartbeat_timeout_ms
            self.world.after(missed_ms, client.should_be_missed)

    def _until(self, what: str, check: Callable[[], None], within_ms: int) -> None:
        """Let time pass until `check` has nothing to complain of."""
        until_ms = self.world.now_ms + within_ms
        while True:
            try:
                check()
            except AssertionError as error:
                if self.world.now_ms >= until_ms:
                    raise AssertionError(f"{what} {within_ms / 1000:g} s after the faults: {error}") from error
            else:
                return
            self.world.run(min(until_ms, self.world.now_ms + LOOK_EVERY_MS))

    def _jobs_run(self) -> None:
        for client in self._all_clients():
            assert client.is_content, (
                f"the client of {client.job_id} waits ({client.seen}, {client.reads} results read)"
            )
        assert self.cluster.is_complete, "a worker is away"

    # ── mishaps by the clock ─────────────────────────────────────────────────────────────────
    def _plan_mishaps(self, end_ms: int) -> None:
        faults = self.world.faults
        for name, every_ms, action in (
            ("crash", faults.worker_crash_every_ms, self._crash_worker),
            ("stop", faults.worker_stop_every_ms, self._stop_worker),
            ("depose", faults.master_change_every_ms, self._depose),
            ("session", faults.session_loss_every_ms, self._lose_session),
            ("bug", faults.job_master_break_every_ms, self._break_job_master),
            ("break", faults.break_every_ms, self._break_connection),
            ("cut", faults.cut_every_ms, self._cut),
            ("stall", faults.stall_every_ms, self._stall),
            ("pause", faults.pause_every_ms, self._pause),
        ):
            self._repeat(name, every_ms, end_ms, action)

    def _repeat(self, name: str, every_ms: int, end_ms: int, action: Callable[[float, float], None]) -> None:
        """Now and then do something, with two numbers from 0 to 1 that say how: drawn also when it is not done."""
        if every_ms <= 0:
            return
        chance = self.world.stream(f"when:{name}")

        def once() -> None:
            if self.world.now_ms < end_ms:
                how = chance.random(), chance.random()
                if self.world.mishaps.strikes(name):
                    action(*how)
                self.world.after(chance.randint(1, 2 * every_ms), once)

        self.world.after(chance.randint(1, 2 * every_ms), once)

    def _crash_worker(self, who: float, how: float) -> None:
        workers = self.cluster.workers()
        if workers:
            self.cluster.kill_worker(workers[int(who * len(workers))])

    def _stop_worker(self, who: float, how: float) -> None:
        workers = self.cluster.workers()
        if workers:
            self.cluster.stop_worker(workers[int(who * len(workers))])

    def _depose(self, who: float, how: float) -> None:
        self.cluster.masters.change(int(how * self.world.faults.leaderless_ms_max))

    def _lose_session(self, who: float, how: float) -> None:
        self.cluster.masters.lose_session(int(how * self.world.faults.leaderless_ms_max))

    def _break_job_master(self, who: float, how: float) -> None:
        masters = self.cluster.masters.job_masters()
        if masters:
            self.cluster.masters.break_job_master(masters[int(who * len(masters))])

    def _break_connection(self, who: float, how: float) -> None:
        workers = self.cluster.workers()
        if workers:
            self.world.break_connection(self.cluster.masters.node, workers[int(who * len(workers))].node)

    def _cut(self, who: float, how: float) -> None:
        """One node, one direction between two, or halves of the cluster."""
        nodes = self._nodes()
        until_ms = self.world.now_ms + 1 + int(how * self.world.faults.cut_ms_max)
        here = {nodes[int(who * len(nodes))]}
        kind = int(who * 1_000) % 3
        if kind == 2:
            here = {node for index, node in enumerate(nodes) if (int(how * 1_000_000) >> index) % 2}
        there = [node for node in nodes if node not in here]
        for one in sorted(here):
            for other in there:
                self.world.cut(one, other, until_ms)
                if kind != 1:
                    self.world.cut(other, one, until_ms)

    def _stall(self, who: float, how: float) -> None:
        nodes = self._nodes()
        node = nodes[int(who * len(nodes))]
        self.world.stall(node, self.world.now_ms + 1 + int(how * self.world.faults.stall_ms_max))

    def _pause(self, who: float, how: float) -> None:
        """The leader stands still; another one takes over, and lives beside it when it wakes up."""
        pause_ms = 2_000 + int(how * 30_000)
        self.world.stall(self.cluster.masters.node, self.world.now_ms + pause_ms)

        def depose() -> None:
            if not self.world.mishaps.is_over:
                self.cluster.masters.change(lives_ms=pause_ms)

        self.world.after(int(who * pause_ms), depose)

    def _nodes(self) -> list[str]:
        """Those that may stand still, or be cut off from the others."""
        workers = () if self.world.faults.masters_only else self.cluster.workers()
        return [self.cluster.masters.node, *(worker.node for worker in workers)]


def drawn(drawing: Mishaps) -> Faults:
    """What goes wrong in a seed."""
    faults = draw(drawing.stream("faults"))
    chance = drawing.stream("masters only")
    if chance.random() < MASTERS_ONLY:
        faults.keep_masters(chance)
    return faults


def bound_ms(settings: ClusterSettings, graphs: list[JobGraph], faults: Faults) -> int:
    """Time in which all jobs must have ended in a calm cluster, wherever they stood before."""
    attempts = sum(vertex.parallelism for graph in graphs for vertex in graph.vertices)
    rows = sum(len(graph.vertices) for graph in graphs)
    slots = slots_of(settings)
    turn_ms = 2 * faults.task_ms_max + faults.cancel_ms_max + 4_000
    beats_ms = 4 * settings.job_master.heartbeat_timeout_ms
    return (attempts // slots + rows) * turn_ms + HANG_MS_MAX + beats_ms + SLACK_MS


def slots_of(settings: ClusterSettings) -> int:
    """Slots that any job may have."""
    workers = settings.labels.count(LABELS[0]) if settings.labels else settings.workers
    return workers * settings.task_executor.slots


def run_seed(
    seed: int, faults: Faults | None = None, only: Iterable[str] | None = None, *, tell_all: bool = False
) -> Summary:
    """Execute one seed. Raises SimulationFailure."""
    gc.disable()
    try:
        return Run(seed, faults, only, tell_all=tell_all).execute()
    finally:
        gc.enable()
