"""The masters of a cluster: their processes, who of them leads, and what happens to them and their disk."""

from collections.abc import Callable
from functools import partial

from firesteel.core.dispatcher import shown
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.storedjobs import StoredJobs
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobView
from firesteel.testing.power import FakeSystem
from firesteel.testing.simulation.cores.dispatching import DispatcherRunner
from firesteel.testing.simulation.cores.leading import Process, ResourceManagerRunner
from firesteel.testing.simulation.cores.settings import ClusterSettings
from firesteel.testing.simulation.cores.store import Store
from firesteel.testing.simulation.cores.world import SimulatedEndpoint, World

BUG_AGAIN = 0.5
"""How often what broke a JobMaster breaks the next one, too."""


class MasterProcess(Process):
    """A ResourceManager and a Dispatcher. `on_read` is told when the Dispatcher has read all that is stored."""

    def __init__(
        self,
        world: World,
        node: str,
        store: Store,
        epoch: int,
        settings: ClusterSettings,
        on_read: Callable[["MasterProcess", FencingToken], None],
        is_heard: Callable[[], bool],
        archive: dict[JobID, JobView],
    ) -> None:
        super().__init__(world, node, store, epoch)
        self.resource_manager = ResourceManagerRunner(self, settings)
        self.dispatcher = DispatcherRunner(self, settings, partial(on_read, self), is_heard, archive)
        for runner in (self.resource_manager, self.dispatcher):
            runner.begin()

    def lead(self) -> None:
        self.leads = True
        for runner in (self.resource_manager, self.dispatcher):
            runner.grant()

    def lose_session(self) -> None:
        """It leads no more, and knows it."""
        self.leads = False
        for runner in (self.resource_manager, self.dispatcher):
            runner.revoke("its session is lost")


class Masters:
    """One of two hosts leads. A process that led before may live on for a while, and write, and talk."""

    def __init__(self, world: World, settings: ClusterSettings) -> None:
        self.world, self.settings = world, settings
        self.system = FakeSystem(world.stream("disk"), meddle=self._meddle)
        self.leading: MasterProcess | None = None
        self.node = ""
        """Host of the process that leads, or is about to."""
        self.durable = StoredJobs(0)
        """What is stored, before any process has read it."""
        self._writer: tuple[FencingToken, Store] | None = None
        """Who has claimed what is stored last: of two that have read it at once, the newer leader."""
        self._processes: dict[str, MasterProcess] = {}
        self.epochs = 0
        """Leaderships so far, with those that ended before they were taken up."""
        self._meddling = False
        self.archive: dict[JobID, JobView] = {}
        """What there was to see of jobs that have ended."""

    @property
    def dispatcher(self) -> SimulatedEndpoint | None:
        """The leading Dispatcher, when it is up."""
        found = self.world.leaders.get(DISPATCHER)
        endpoint = self.world.endpoints.get(found.address) if found is not None else None
        return endpoint if endpoint is not None and found is not None and endpoint.core.token == found.token else None

    # ── processes ────────────────────────────────────────────────────────────────────────────
    def change(self, after_ms: int = 0, lives_ms: int = 0) -> None:
        """The other of two hosts leads now, or soon. The old process may not notice for a while, `lives_ms` at least."""
        old = self.leading
        if old is not None:
            old.leads = False
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
        process.lose_session()
        self.epochs += 1
        process.epoch = self.epochs
        self._in_charge_later(after_ms, process.lead)

    def power_cut(self) -> None:
        """The masters and their disk have no power for a moment."""
        self.world.note("disk", "the power is cut")
        for process in list(self._processes.values()):
            process.store.is_dark = True
            self.kill(process, "the power is cut")
        self.leading = None
        self.system.restart()
        self.change(self.world.stream("power").randint(0, 5_000))

    def kill(self, process: MasterProcess, reason: str) -> None:
        """End a process; not the next one on its host."""
        process.store.is_dead = True
        if self._processes.get(process.node) is process:
            for endpoint in [known for known in self.world.endpoints.values() if known.node == process.node]:
                self.world.remove(endpoint.core.address, reason)
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
        process = MasterProcess(
            self.world, node, store, self.epochs, self.settings, self._has_read, self._is_heard, self.archive
        )
        self._processes[node] = self.leading = process
        process.lead()

    def _has_read(self, process: "MasterProcess", token: FencingToken) -> None:
        if self._writer is None or self._writer[0] < token:
            self._writer = token, process.store

    def _is_heard(self) -> bool:
        """What was decided is durable; a master may be deposed before anybody has heard of it."""
        if self.world.mishaps.strikes("change-after-write", self.world.faults.change_after_write):
            self.change()
            return False
        return True

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

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def job_masters(self) -> list[SimulatedEndpoint]:
        """Those of the host that leads."""
        known = self.world.endpoints.values()
        return [item for item in known if isinstance(item.core, JobMasterCore) and item.node == self.node]

    def job_master(self, job_id: JobID) -> SimulatedEndpoint | None:
        """The JobMaster of a job that has not ended, as the leading Dispatcher knows it."""
        endpoint = self.dispatcher
        if endpoint is None:
            return None
        session = self._processes[endpoint.node].dispatcher.sessions.of(job_id)
        found = session.endpoint if session is not None else None
        return found if found is not None and isinstance(found.core, JobMasterCore) else None

    def status_of(self, job_id: JobID) -> JobStatus | None:
        """What a view of a job says; None when it is not known."""
        view = self.view_of(job_id)
        return view.status if view is not None else None

    def view_of(self, job_id: JobID) -> JobView | None:
        """What the Dispatcher that leads shows of a job; None when it is not known."""
        endpoint = self.dispatcher
        assert endpoint is not None, "somebody is asked"
        assert isinstance(endpoint.core, DispatcherCore), "the leader is a Dispatcher"
        job = endpoint.core.jobs.get(job_id)
        if job is None:
            return None
        leads = self._processes[endpoint.node].dispatcher.leads(job_id)
        archived = self.archive.get(job_id) if job.has_ended else None
        return shown.view_at_hand(job, leads) or archived or shown.last_known_view(job)

    def is_read_again(self, job_id: JobID) -> bool:
        """Whether a view of a job, which has ended, waits for what its JobMaster reads."""
        endpoint = self.dispatcher
        assert endpoint is not None, "somebody is asked"
        assert isinstance(endpoint.core, DispatcherCore), "the leader is a Dispatcher"
        leads = self._processes[endpoint.node].dispatcher.leads(job_id)
        return shown.is_read_again(endpoint.core.jobs[job_id], leads)

    def break_job_master(self, endpoint: SimulatedEndpoint) -> None:
        """A bug ends one JobMaster, and perhaps also the one that is to fail the job in order."""
        dispatcher = self._processes[endpoint.node].dispatcher
        for session in dispatcher.sessions.all():
            if session.endpoint is endpoint:
                session.fail(ZeroDivisionError("a bug in firesteel"))
                if self.world.mishaps.strikes("bug again", BUG_AGAIN):
                    again_ms = self.world.stream("bug again:by").randint(0, 2_000)
                    self.world.after(again_ms, partial(self._break_again, dispatcher, session.job_id))

    def _break_again(self, dispatcher: DispatcherRunner, job_id: JobID) -> None:
        session = dispatcher.sessions.of(job_id)
        if session is not None and session.endpoint is not None:
            session.fail(ZeroDivisionError("the same bug in firesteel"))

    def stored(self) -> StoredJobs:
        """What is durable, as the process sees it that has claimed it last."""
        return self._writer[1].log.jobs if self._writer is not None else self.durable
