"""A cluster in a world: masters with their stores, workers with their Spark, and who leads."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER, Effect, Event, Persist, Persisted, PersistFailed
from firesteel.core.jobmaster import JobMasterCore, JobMasterSettings
from firesteel.core.journal import JobState, JournalRecord, fold
from firesteel.core.resourcemanager import ResourceManagerCore, ResourceManagerSettings
from firesteel.core.scheduler.backoff import FixedDelay, NoRestart, RestartStrategy
from firesteel.core.scheduler.scheduler import SchedulerSettings
from firesteel.core.taskexecutor import TaskExecutorCore, TaskExecutorSettings
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import Address, FencingToken, JobID, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Leader
from firesteel.model.resources import ResourceProfile
from firesteel.model.views import JobResult
from firesteel.testing.simulation.spark import FakeSpark, Storage
from firesteel.testing.simulation.world import Endpoint, World

HISTORY_SIZE = 16
HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS = 10_000, 50_000


@dataclass(slots=True)
class JobStore:
    """Durable and fenced: what the leaders of a job have written, in order."""

    graph: JobGraph
    token: FencingToken
    records: list[JournalRecord] = field(default_factory=list)

    def state(self) -> JobState:
        """The fold of all records."""
        state = JobState(job_id=self.graph.job_id)
        for record in self.records:
            fold(state, record, HISTORY_SIZE)
        return state


class Cluster:
    """One leading master at a time, workers that come and go. Requests go through `ask`."""

    def __init__(self, world: World, workers: int) -> None:
        self.world, self.storage = world, Storage()
        self.jobs: dict[JobID, JobStore] = {}
        self.graphs: dict[JobID, JobGraph] = {}
        """Of every job that was ever stored, for the oracles."""
        self.results: dict[JobID, tuple[JobResult, bool]] = {}
        self.sparks: dict[Address, FakeSpark] = {}
        self.master = ""
        self.dispatcher: Leader | None = None
        self._masters = self._workers = self._requests = 0
        self._journal_busy: dict[Address, int] = {}
        self._lost_writes: dict[FencingToken | None, None] = {}
        chance = world.stream("cluster")
        self.strategy: RestartStrategy = chance.choice((NoRestart(), FixedDelay(100, 500), FixedDelay(100, 0)))
        self.slots = chance.randint(1, 6)
        self.change_master()
        for _ in range(workers):
            self.add_worker()

    # ── masters ──────────────────────────────────────────────────────────────────────────────
    def change_master(self) -> None:
        """The other of two hosts leads now. The old one may not notice for a while, its addresses are used again."""
        lives_ms = self.world.stream("deposed").randint(0, self.world.faults.deposed_lives_ms_max)
        for endpoint in self._at(self.master):
            if lives_ms:
                self.world.after(lives_ms, partial(self._end, endpoint, "deposed"))
            else:
                self._end(endpoint, "killed")
        self._masters += 1
        self.master = f"master-{self._masters % 2}"
        for endpoint in self._at(self.master):
            self._end(endpoint, "leads anew")
        self._start_resource_manager()
        self._start_dispatcher()

    def _at(self, node: str) -> list[Endpoint]:
        return [endpoint for endpoint in self.world.endpoints.values() if endpoint.node == node]

    def _end(self, endpoint: Endpoint, reason: str) -> None:
        """Remove one session; not the next one at its address."""
        if endpoint.alive:
            self.world.remove(endpoint.core.address, reason)

    def _start_resource_manager(self) -> None:
        me = self._leader("resourcemanager")
        settings = ResourceManagerSettings(HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, self._workers % 2 == 0)
        self.world.add(ResourceManagerCore(settings, me), self.master, self._none)
        self.world.publish(RESOURCE_MANAGER, me)

    def _start_dispatcher(self) -> None:
        me = self.dispatcher = self._leader("dispatcher")
        self.world.add(DispatcherCore(me, results_max=1_000), self.master, self._on_dispatcher_effect)
        self.world.publish(DISPATCHER, me)

    def _leader(self, component: str) -> Leader:
        return Leader(Address(f"{self.master}/{component}"), self.world.next_token(self.master))

    def _none(self, endpoint: Endpoint, effect: Effect) -> None:
        raise AssertionError(f"{endpoint.core.address} has no such effect: {effect}")

    # ── the Dispatcher's process ─────────────────────────────────────────────────────────────
    def ask(self, request: r.Request) -> int | None:
        """Ask the leading Dispatcher; returns the request's id, or None when there is none."""
        if self.dispatcher is None or self.dispatcher.address not in self.world.endpoints:
            return None
        self._requests += 1
        self.world.give(self.world.endpoints[self.dispatcher.address], r.Asked(self._requests, request))
        return self._requests

    def _on_dispatcher_effect(self, endpoint: Endpoint, effect: Effect) -> None:
        match effect:
            case r.LoadJobs():
                graphs = tuple(store.graph for store in self.jobs.values())
                self._answer(endpoint, r.JobsLoaded(graphs, tuple(self.results.values())))
            case r.StoreJobGraph():
                self._write(endpoint, lambda: self._put(effect.graph, endpoint), effect.graph.job_id)
            case r.StoreJobResult():
                self._write_result(endpoint, effect.result)
            case r.CleanUpJob():
                self._clean_up(endpoint, effect.job_id)
            case r.ForgetResult():
                self.results.pop(effect.job_id, None)
            case r.StartJobMaster():
                self._start_job_master(endpoint, effect)
            case r.StopJobMaster():
                self._stop_job_master(endpoint, effect.job_id)
            case _:
                raise AssertionError(f"not an effect of a Dispatcher: {effect}")

    def _answer(self, endpoint: Endpoint, event: Event) -> None:
        delay_ms = self.world.stream("store").randint(0, self.world.faults.persist_ms_max)
        self.world.after(delay_ms, lambda: self.world.give(endpoint, event))

    def _leads(self, endpoint: Endpoint) -> bool:
        """The store's fence: only the newest Dispatcher may write."""
        return self.dispatcher is not None and endpoint.core.token == self.dispatcher.token

    def _write(self, endpoint: Endpoint, write: Callable[[], None], job_id: JobID) -> None:
        def durable() -> None:
            if self._leads(endpoint) and endpoint.alive:
                write()
                self.world.give(endpoint, r.JobGraphStored(job_id))

        self.world.after(self.world.stream("store").randint(0, self.world.faults.persist_ms_max), durable)

    def _put(self, graph: JobGraph, endpoint: Endpoint) -> None:
        assert endpoint.core.token is not None, "a Dispatcher has a token"
        self.jobs[graph.job_id] = JobStore(graph, endpoint.core.token)
        self.graphs[graph.job_id] = graph

    def _write_result(self, endpoint: Endpoint, result: JobResult) -> None:
        def durable() -> None:
            if self._leads(endpoint) and endpoint.alive:
                known = self.results.get(result.job_id)
                assert known is None or known[0] == result, "a job ends once"
                self.results[result.job_id] = (result, True)
                self.world.give(endpoint, r.JobResultStored(result.job_id))

        self.world.after(self.world.stream("store").randint(0, self.world.faults.persist_ms_max), durable)

    def _clean_up(self, endpoint: Endpoint, job_id: JobID) -> None:
        def done() -> None:
            if self._leads(endpoint) and endpoint.alive:
                self.jobs.pop(job_id, None)
                self.results[job_id] = (self.results[job_id][0], False)
                self.world.give(endpoint, r.JobCleanedUp(job_id))

        self.world.after(self.world.stream("store").randint(0, self.world.faults.persist_ms_max), done)

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def _start_job_master(self, dispatcher: Endpoint, effect: r.StartJobMaster) -> None:
        job_id = effect.graph.job_id
        if not self._leads(dispatcher) or job_id not in self.jobs:
            return
        store = self.jobs[job_id]
        me = self._leader(f"jobmaster/{job_id[:6]}")
        store.token = me.token
        assert dispatcher.core.token is not None, "a Dispatcher has a token"
        boss = Leader(dispatcher.core.address, dispatcher.core.token)
        core = JobMasterCore(effect.graph, copy.deepcopy(store.state()), self._settings(), me, boss)
        core.doom = effect.failure
        endpoint = self.world.add(core, dispatcher.node, self._on_job_master_effect)
        self.world.watch(endpoint, RESOURCE_MANAGER)
        self.world.publish(job_id, me)

    def _settings(self) -> JobMasterSettings:
        return JobMasterSettings(
            SchedulerSettings(self.strategy, HISTORY_SIZE), HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, 50_000, 10_000
        )

    def _on_job_master_effect(self, endpoint: Endpoint, effect: Effect) -> None:
        assert isinstance(effect, Persist), f"not an effect of a JobMaster: {effect}"
        assert isinstance(endpoint.core, JobMasterCore), "only JobMasters have a journal"
        store = self.jobs.get(endpoint.core.job.graph.job_id)

        def durable() -> None:
            if store is None or store.token != endpoint.core.token:
                self.world.give(endpoint, PersistFailed("another leader has the journal"))
            elif self._lands(endpoint):
                store.records += effect.records  # type: ignore[arg-type]
                if endpoint.alive and self.world.stream("writes").random() < self.world.faults.change_after_write:
                    self.change_master()  # What was decided is durable, and nobody has heard of it.
                else:
                    self.world.give(endpoint, Persisted(effect.sequence))

        delay_ms = self.world.stream(f"journal:{endpoint.core.address}").randint(0, self.world.faults.persist_ms_max)
        busy_until = self._journal_busy.get(endpoint.core.address, 0)
        at_ms = max(self.world.now_ms + delay_ms, busy_until)
        self._journal_busy[endpoint.core.address] = at_ms
        self.world.after(at_ms - self.world.now_ms, durable)

    def _lands(self, endpoint: Endpoint) -> bool:
        """Whether a write becomes durable. What was on its way when its writer died may be; nothing after a lost one."""
        lost = not endpoint.alive and self.world.stream("landing").random() < 0.5
        if lost:
            self._lost_writes[endpoint.core.token] = None
        return endpoint.core.token not in self._lost_writes

    def _stop_job_master(self, dispatcher: Endpoint, job_id: JobID) -> None:
        for address, endpoint in list(self.world.endpoints.items()):
            core = endpoint.core
            if isinstance(core, JobMasterCore) and core.job.graph.job_id == job_id and endpoint.node == dispatcher.node:
                self.world.remove(address, "stopped by its Dispatcher")

    def break_job_master(self, address: Address) -> None:
        """A bug ends one JobMaster; its Dispatcher is told."""
        endpoint = self.world.endpoints[address]
        assert isinstance(endpoint.core, JobMasterCore), "only JobMasters break so"
        failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="a bug in firesteel")
        boss = self.world.endpoints.get(endpoint.core.dispatcher.address)
        self.world.remove(address, "broke")
        if boss is not None:
            self.world.give(boss, r.JobMasterBroke(endpoint.core.job.graph.job_id, failure))

    # ── workers ──────────────────────────────────────────────────────────────────────────────
    def add_worker(self) -> None:
        """A new worker process."""
        self._workers += 1
        name = f"worker-{self._workers}"
        settings = TaskExecutorSettings(
            self.slots, ResourceProfile(1.0, 1024), HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, 10_000, 600_000
        )
        core = TaskExecutorCore(ResourceID(name), settings, Address(name))
        spark = self.sparks[core.address] = FakeSpark(self.world, self.storage, name)
        self.world.add(core, name, spark.interpret)

    def kill_worker(self, address: Address) -> None:
        """A power cut for a worker; another takes its place."""
        self.sparks.pop(address).die()
        self.world.remove(address, "killed")
        self.add_worker()

    def workers(self) -> list[Endpoint]:
        return [endpoint for endpoint in self.world.endpoints.values() if isinstance(endpoint.core, TaskExecutorCore)]

    def job_masters(self) -> list[Endpoint]:
        """Those of the leading master."""
        masters = self.world.endpoints.values()
        return [item for item in masters if isinstance(item.core, JobMasterCore) and item.node == self.master]
