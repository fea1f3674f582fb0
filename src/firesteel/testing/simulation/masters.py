"""The masters of a cluster: their processes, who leads, and what their cores have done by their process."""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher import shown
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER, Effect, Persist
from firesteel.core.heartbeat import HeartbeatMonitor
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.jobmaster.jobrelease import JobReleaseCore
from firesteel.core.journal.groupcommit import GroupCommit
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.storedjobs import (
    AnyEntry,
    GraphStored,
    JobRemoved,
    ResultForgotten,
    ResultStored,
    StoredJobs,
)
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.scheduler.commit import undeleted
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import Address, FencingToken, JobID, ResourceID
from firesteel.model.messages import Leader
from firesteel.model.states import JobStatus
from firesteel.runtime.services import StaleLeader
from firesteel.testing.power import FakeSystem
from firesteel.testing.simulation.sessions import Process, Session, leaders
from firesteel.testing.simulation.settings import ClusterSettings
from firesteel.testing.simulation.store import Store
from firesteel.testing.simulation.world import Endpoint, World

RETRY_MS, RETRY_MS_MAX = 100, 5_000
"""Time between two tries at something that failed."""

SESSIONS_FAILED_MAX = 8
"""JobMasters of one job that may be stale in a row."""


class Masters:
    """One of two hosts leads. A process that led before may live on for a while, and write, and talk."""

    def __init__(self, world: World, settings: ClusterSettings) -> None:
        self.world, self.settings = world, settings
        self.system = FakeSystem(world.stream("disk"), meddle=self._meddle)
        self.leading: Process | None = None
        self.node = ""
        """Host of the process that leads, or is about to."""
        self.durable = StoredJobs(0)
        """What is stored, before any process has read it."""
        self._writer: tuple[FencingToken, Store] | None = None
        """Who has claimed what is stored last: of two that have read it at once, the newer leader."""
        self._processes: dict[str, Process] = {}
        self._sessions: dict[tuple[FencingToken | None, JobID], Session] = {}
        self.epochs = 0
        """Leaderships so far, with those that ended before they were taken up."""
        self._meddling = False

    @property
    def dispatcher(self) -> Endpoint | None:
        """The leading Dispatcher, when it is up."""
        found = self.world.leaders.get(DISPATCHER)
        endpoint = self.world.endpoints.get(found.address) if found is not None else None
        return endpoint if endpoint is not None and found is not None and endpoint.core.token == found.token else None

    # ── processes ────────────────────────────────────────────────────────────────────────────
    def change(self, after_ms: int = 0, lives_ms: int = 0) -> None:
        """The other of two hosts leads now, or soon. The old process may not notice for a while, `lives_ms` at least."""
        old = self.leading
        if old is not None:
            lives_ms += self.world.stream("deposed").randint(0, self.world.faults.deposed_lives_ms_max)
            if lives_ms:
                self.world.after(lives_ms, partial(self.kill, old, "deposed"))
            else:
                self.kill(old, "killed")
        self.epochs += 1
        self.leading = None
        self.node = f"master-{self.epochs % 2}"
        self._in_charge_later(after_ms, partial(self._take_over, self.node))

    def lose_session(self, after_ms: int = 0) -> None:
        """The process that leads loses that, and leads anew, with what it has in memory."""
        process = self.leading
        if process is None:
            return
        self._end_services(process, "its session is lost")
        self.epochs += 1
        process.epoch = self.epochs
        self._in_charge_later(after_ms, partial(self._serve, process))

    def power_cut(self) -> None:
        """The masters and their disk have no power for a moment."""
        self.world.tell("disk", "the power is cut")
        for process in list(self._processes.values()):
            process.store.is_dark = True
            self.kill(process, "the power is cut")
        self.leading = None
        self.system.restart()
        self.change(self.world.stream("power").randint(0, 5_000))

    def kill(self, process: Process, reason: str) -> None:
        """End a process; not the next one on its host."""
        process.store.is_dead = True
        if self._processes.get(process.node) is process:
            self._end_services(process, reason)
            del self._processes[process.node]

    def _in_charge_later(self, after_ms: int, action: Callable[[], None]) -> None:
        """Unless another one leads by then."""
        epoch = self.epochs
        if self.world.mishaps.sometimes("shutdown-slow"):
            after_ms += 8_000
        if not after_ms:
            action()
            return
        self.world.withdraw(RESOURCE_MANAGER)
        self.world.withdraw(DISPATCHER)
        self.world.after(after_ms, lambda: action() if self.epochs == epoch else None)

    def _take_over(self, node: str) -> None:
        if node in self._processes:
            self.kill(self._processes[node], "another process starts here")
        store = Store(self.world, self.system, node, self.power_cut)
        process = self._processes[node] = self.leading = Process(node, store, self.epochs)
        self._serve(process)

    def _serve(self, process: Process) -> None:
        me = Leader(Address(f"{process.node}/resourcemanager"), process.token())
        core = ResourceManagerCore(self.settings.resource_manager, me)
        endpoint = self.world.add(core, process.node, _no_effects)
        self.world.watch(endpoint, DISPATCHER)
        self.world.publish(RESOURCE_MANAGER, me)
        self._serve_dispatcher(process)

    def _serve_dispatcher(self, process: Process) -> None:
        me = Leader(Address(f"{process.node}/dispatcher"), process.token())
        core = DispatcherCore(me, results_max=1_000)
        self.world.add(core, process.node, partial(self._on_dispatcher_effect, process))
        self.world.publish(DISPATCHER, me)

    def _end_services(self, process: Process, reason: str) -> None:
        for endpoint in [known for known in self.world.endpoints.values() if known.node == process.node]:
            self.world.remove(endpoint.core.address, reason)

    def _end_dispatcher(self, process: Process, endpoint: Endpoint) -> None:
        """Another process has claimed its jobs. Who still leads as far as he knows tries again."""
        if not endpoint.alive:
            return
        self.world.remove(endpoint.core.address, "another leader writes")
        for session in [known for known in self._sessions.values() if known.dispatcher is endpoint]:
            self._end_session(session, "its Dispatcher is gone")
        if self.leading is process:
            epoch = process.epoch

            def again() -> None:
                if self.leading is process and process.epoch == epoch:
                    self._serve_dispatcher(process)

            self.world.after(RETRY_MS, again)

    # ── mishaps of the disk ──────────────────────────────────────────────────────────────────
    def _meddle(self) -> None:
        """At every call to the operating system: what may come in between."""
        if self._meddling:
            return
        faults = self.world.faults
        kinds = (("disk-error", faults.disk_error), ("power", faults.power_cut), ("overtaken", faults.overtaken))
        match self.world.mishaps.one_of("disk", kinds):
            case "disk-error":
                self.system.fill_up()
            case "power":
                self.system.cut()
            case "overtaken":
                self._meddling = True
                self.change()
                if self.leading is not None:
                    self.leading.store.hurry()
                self._meddling = False
            case _:
                pass

    # ── the Dispatcher's effects ─────────────────────────────────────────────────────────────
    def _on_dispatcher_effect(self, process: Process, endpoint: Endpoint, effect: Effect) -> None:
        assert isinstance(effect, r.DispatcherEffect), f"not an effect of a Dispatcher: {effect}"
        match effect:
            case r.LoadJobs():
                self._load(process, endpoint)
            case r.StoreJobGraph():
                self._store_graph(process, endpoint, effect)
            case r.StoreJobResult(result=result):
                self._write(process, endpoint, ResultStored(result), r.JobResultStored(result.job_id))
            case r.CleanUpJob(job_id=job_id):
                self._write(process, endpoint, JobRemoved(job_id), r.JobCleanedUp(job_id))
            case r.ForgetResult(job_id=job_id):
                self._write(process, endpoint, ResultForgotten(job_id), None)
            case r.StartJobMaster() | r.ReleaseJob():
                session = Session(endpoint, effect)
                self._sessions[endpoint.core.token, session.job_id] = session
                self._claim(process, session)
            case r.StopJobMaster(job_id=job_id):
                stopped = self._sessions.pop((endpoint.core.token, job_id), None)
                if stopped is not None:
                    self._end_session(stopped, "stopped by its Dispatcher")
            case _:
                assert_never(effect)

    def _load(self, process: Process, endpoint: Endpoint) -> None:
        token = endpoint.core.token
        assert token is not None, "a Dispatcher has a token"

        def answer(value: object) -> None:
            if isinstance(value, OSError):
                self.world.after(RETRY_MS, lambda: self._load(process, endpoint) if endpoint.alive else None)
            elif isinstance(value, StaleLeader):
                self._end_dispatcher(process, endpoint)
            else:
                assert isinstance(value, tuple), "all graphs, and all results"
                if self._writer is None or self._writer[0] < token:
                    self._writer = token, process.store
                self.world.give(endpoint, r.JobsLoaded(*value))

        process.store.load(token, answer)

    def _store_graph(self, process: Process, endpoint: Endpoint, effect: r.StoreJobGraph) -> None:
        def answer(value: object) -> None:
            if isinstance(value, StaleLeader):
                self._end_dispatcher(process, endpoint)
            else:
                error = str(value) if isinstance(value, OSError) else ""
                self.world.give(endpoint, r.JobGraphStored(effect.graph.job_id, error))

        process.store.write(GraphStored(effect.graph), endpoint.core.token, answer)

    def _write(
        self,
        process: Process,
        endpoint: Endpoint,
        entry: AnyEntry,
        done: r.JobResultStored | r.JobCleanedUp | None,
    ) -> None:
        """Write until it is done, then say so."""

        def answer(value: object) -> None:
            if isinstance(value, StaleLeader):
                self._end_dispatcher(process, endpoint)
            elif isinstance(value, OSError):
                self.world.after(RETRY_MS, again)
            elif done is not None:
                self.world.give(endpoint, done)

        def again() -> None:
            if endpoint.alive:
                process.store.write(entry, endpoint.core.token, answer)

        again()

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def job_masters(self) -> list[Endpoint]:
        """Those of the host that leads."""
        known = self.world.endpoints.values()
        return [item for item in known if isinstance(item.core, JobMasterCore) and item.node == self.node]

    def status_of(self, job_id: JobID) -> JobStatus | None:
        """What a view of a job says; None when it is not known."""
        endpoint = self.dispatcher
        assert endpoint is not None, "somebody is asked"
        assert isinstance(endpoint.core, DispatcherCore), "the leader is a Dispatcher"
        job = endpoint.core.jobs.get(job_id)
        if job is None:
            return None
        session = self._sessions.get((endpoint.core.token, job_id))
        leads = session.endpoint.core if session is not None and session.endpoint is not None else None
        return (shown.view_at_hand(job, leads) or shown.last_known_view(job)).status

    def break_job_master(self, endpoint: Endpoint) -> None:
        """A bug ends one JobMaster; its Dispatcher is told."""
        for session in [known for known in self._sessions.values() if known.endpoint is endpoint]:
            failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="a bug in firesteel")
            self._end_session(session, "broke")
            self.world.give(session.dispatcher, r.JobMasterBroke(session.job_id, failure))

    def _claim(self, process: Process, session: Session) -> None:
        """Start a JobMaster from the journal, under a new token."""
        if not self._is_wanted(session):
            return
        token = process.token()

        def answer(value: object) -> None:
            if isinstance(session.start, r.ReleaseJob) and not isinstance(value, OSError):
                self._start_release(process, session, token, value if isinstance(value, JobState) else None)
            elif isinstance(value, JobState):
                self._start_job_master(process, session, token, value)
            else:
                assert isinstance(value, OSError | StaleLeader), "it is one or the other"
                self._failed(process, session, value)

        process.store.claim_journal(session.job_id, token, answer)

    def _is_wanted(self, session: Session) -> bool:
        key = (session.dispatcher.core.token, session.job_id)
        return session.dispatcher.alive and self._sessions.get(key) is session

    def _start_job_master(self, process: Process, session: Session, token: FencingToken, state: JobState) -> None:
        if not self._is_wanted(session):
            return
        boss, start = session.dispatcher.core, session.start
        assert isinstance(boss, DispatcherCore), "who starts JobMasters is a Dispatcher"
        assert isinstance(start, r.StartJobMaster), "what has no journal claims none"
        if boss.jobs[session.job_id].result is not None and not state.status.is_globally_terminal:
            self._start_release(process, session, token, state)
            return
        me, dispatcher = leaders(process, session, token)
        core = JobMasterCore(start.graph, state, self.settings.job_master, me, dispatcher, doom=start.failure)
        session.commit = GroupCommit()
        self._lead(session, self.world.add(core, process.node, partial(self._on_effect, process, session)))

    def _start_release(self, process: Process, session: Session, token: FencingToken, state: JobState | None) -> None:
        """In the place of a JobMaster that broke for good. Without its journal, workers still let go of what they know."""
        if not self._is_wanted(session):
            return
        settings = self.settings.job_master
        heartbeats: HeartbeatMonitor[ResourceID] = HeartbeatMonitor(
            settings.heartbeat_interval_ms, settings.heartbeat_timeout_ms
        )
        core = JobReleaseCore(
            session.job_id,
            settings.reconciliation_timeout_ms,
            *leaders(process, session, token),
            heartbeats=heartbeats,
            undeleted=undeleted(state) if state is not None else None,
        )
        self._lead(session, self.world.add(core, process.node, _no_effects))

    def _lead(self, session: Session, endpoint: Endpoint) -> None:
        assert endpoint.core.token is not None, "a leader has a token"
        session.endpoint = endpoint
        self.world.watch(endpoint, RESOURCE_MANAGER)
        self.world.publish(session.job_id, Leader(endpoint.core.address, endpoint.core.token))

    def _failed(self, process: Process, session: Session, error: OSError | StaleLeader) -> None:
        """A JobMaster that has lost its journal ends; the next one starts from what is stored."""
        if not self._is_wanted(session):
            return
        self._end_session(session, f"{type(error).__name__}: {error}")
        session.failures += 1
        if session.failures > SESSIONS_FAILED_MAX and isinstance(error, StaleLeader):
            failure = FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="the journal could not be read or written")
            self.world.give(session.dispatcher, r.JobMasterBroke(session.job_id, failure))
            return
        delay_ms = min(RETRY_MS * 2 ** min(session.failures - 1, 8), RETRY_MS_MAX)
        self.world.after(delay_ms, partial(self._claim, process, session))

    def _end_session(self, session: Session, reason: str) -> None:
        if session.endpoint is not None and session.endpoint.alive:
            self.world.remove(session.endpoint.core.address, reason)
        session.endpoint = None

    def _on_effect(self, process: Process, session: Session, endpoint: Endpoint, effect: Effect) -> None:
        assert isinstance(effect, Persist), f"not an effect of a JobMaster: {effect}"
        if session.commit.add(effect):
            self.world.after(0, partial(self._append, process, session, endpoint))

    def _append(self, process: Process, session: Session, endpoint: Endpoint) -> None:
        if session.endpoint is not endpoint or not endpoint.alive:
            return
        assert endpoint.core.token is not None, "a JobMaster has a token"
        records = session.commit.next_write()
        if not records:
            return

        def answer(value: object) -> None:
            if session.endpoint is not endpoint:
                return
            if isinstance(value, OSError | StaleLeader):
                self._failed(process, session, value)
            elif self.world.mishaps.strikes("change-after-write", self.world.faults.change_after_write):
                self.change()  # What was decided is durable, and nobody has heard of it.
            else:
                told = session.commit.written()
                self._append(process, session, endpoint)
                self.world.give(endpoint, told)

        process.store.append(session.job_id, endpoint.core.token, records, answer)

    def stored(self) -> StoredJobs:
        """What is durable, as the process sees it that has claimed it last."""
        return self._writer[1].log.jobs if self._writer is not None else self.durable


def _no_effects(endpoint: Endpoint, effect: Effect) -> None:
    raise AssertionError(f"{endpoint.core.address} has no such effect: {effect}")
