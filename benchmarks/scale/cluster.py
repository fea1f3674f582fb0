"""The cores of a cluster on one thread, with the messages, frames, records and folds of the real one, and no sockets.

What each costs is processor time, by who would spend it: `job_master`, `resource_manager`, `dispatcher`, `wire`
(frames the master encodes and decodes) and `journal` (records encoded, and folded into what the store keeps) are the
master's; `workers` is the sum over all workers, whose machines are not the master's.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from firesteel.adapters.ha.segments import line
from firesteel.adapters.rpc.frames import FrameDecoder, encode_frame, preface
from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.effects import (
    RESOURCE_MANAGER,
    Effect,
    Event,
    LeaderChanged,
    Persist,
    Persisted,
    Received,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.storedjobs import GraphStored, RecordsAppended, StoredJobs
from firesteel.core.machine import Core
from firesteel.core.requests import Reply
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.settings import ResourceManagerSettings, TaskExecutorSettings
from firesteel.core.taskexecutor import workeffects as w
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.timers import HeartbeatDue, WakeUp
from firesteel.model.ids import Address, FencingToken, JobID, RegionAttemptID, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Envelope, Leader
from firesteel.model.options import Configuration
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.resources import ResourceProfile
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import Committed
from firesteel.runtime.jobmaster import job_master_settings

FRAME_LIMIT_BYTES = 64 * 1024 * 1024
HISTORY_SIZE = 16
PROFILE = ResourceProfile(1.0, 1024)
MASTERS = ("job_master", "resource_manager", "dispatcher", "wire", "journal")
RESTART_DELAY_MS = 1_000

Result = TypeVar("Result")


@dataclass(slots=True)
class Node:
    """A core, whose account its time goes to, and what has been received of its connection to the master."""

    core: Core
    account: str
    decoder: FrameDecoder | None = None


class Cluster:
    """One master, `workers` workers of `slots` slots. Messages are carried until there are none."""

    def __init__(self, workers: int, slots: int) -> None:
        self.now_ms = 1_000_000
        self.spent: dict[str, float] = defaultdict(float)
        """Seconds of processor time."""
        self.sent: Counter[str] = Counter()
        """Messages by kind."""
        self.sent_bytes: Counter[str] = Counter()
        """Bytes of frames between master and workers."""
        self.records: Counter[str] = Counter()
        """Journal records by kind."""
        self.running: dict[RegionAttemptID, Address] = {}
        """Attempts that were started at workers and have not ended."""
        self.canceling: list[RegionAttemptID] = []
        self.replies: dict[int, object] = {}
        self.store = StoredJobs(HISTORY_SIZE)
        self.nodes: dict[Address, Node] = {}
        self._mail: deque[tuple[Address, Event | bytes]] = deque()
        self._epoch = 0
        self._decoder = FrameDecoder(FRAME_LIMIT_BYTES)
        self._greet(self._decoder)
        self._wake_ms: dict[Address, int] = {}
        self.resource_manager = self._lead("resourcemanager")
        settings = ResourceManagerSettings(10_000, 50_000, spread_slots=False)
        self._add(ResourceManagerCore(settings, self.resource_manager), "resource_manager")
        self.dispatcher = self._lead("dispatcher")
        self._add(DispatcherCore(self.dispatcher, results_max=10_000), "dispatcher")
        self.workers = [self._add_worker(number, slots) for number in range(workers)]
        self.carry()

    # ── who is there ─────────────────────────────────────────────────────────────────────────
    def _lead(self, name: str) -> Leader:
        self._epoch += 1
        return Leader(Address(f"master/{name}"), FencingToken(self._epoch, "master"))

    def _add(self, core: Core, account: str) -> Node:
        node = self.nodes[core.address] = Node(core, account)
        self.give(core.address, Started())
        return node

    def _add_worker(self, number: int, slots: int) -> Address:
        name = ResourceID(f"worker-{number:04d}-{number * 7919:08x}")
        settings = TaskExecutorSettings(slots, PROFILE, 10_000, 50_000, 10_000, 600_000)
        node = self._add(TaskExecutorCore(name, settings, Address(f"worker:{name}")), "workers")
        node.decoder = FrameDecoder(FRAME_LIMIT_BYTES)
        self._greet(node.decoder)
        self.give(node.core.address, LeaderChanged(RESOURCE_MANAGER, self.resource_manager))
        return node.core.address

    def start_job_master(self, graph: JobGraph, state: JobState | None = None) -> JobMasterCore:
        """A JobMaster of the next epoch, which knows the ResourceManager."""
        me = self._lead(f"jobmaster/{graph.job_id}")
        settings = job_master_settings(Configuration(), graph)
        known = state or JobState(job_id=graph.job_id)
        core = self.timed("job_master", lambda: JobMasterCore(graph, known, settings, me, self.dispatcher))
        self._add(core, "job_master")
        self.give(core.address, LeaderChanged(RESOURCE_MANAGER, self.resource_manager))
        return core

    def keep(self, graph: JobGraph) -> None:
        """The job is stored, as the Dispatcher has it done before its JobMaster starts."""
        self.timed("journal", lambda: self._store_entry(GraphStored(graph)))

    def drop(self, address: Address) -> None:
        """It is gone; what is on its way to it is lost."""
        del self.nodes[address]

    # ── what happens ─────────────────────────────────────────────────────────────────────────
    def timed(self, account: str, work: Callable[[], Result]) -> Result:
        """Do something on somebody's account."""
        started = time.process_time()
        result = work()
        self.spent[account] += time.process_time() - started
        return result

    def master_s(self) -> float:
        """Seconds of the master's so far."""
        return sum(self.spent[account] for account in MASTERS)

    def give(self, address: Address, event: Event) -> None:
        """Let a core answer an event, then do what it wants."""
        node = self.nodes[address]
        effects = self.timed(node.account, lambda: node.core.handle(event, self.now_ms))
        for effect in effects:
            self._perform(node, effect)

    def carry(self) -> None:
        """Deliver what is on its way, and what comes of it, until nothing is."""
        while self._mail:
            address, content = self._mail.popleft()
            node = self.nodes.get(address)
            if node is not None:
                self.give(address, content if isinstance(content, Event) else self._decoded(node, content))

    def pass_time(self, milliseconds: int) -> None:
        """Time passes; JobMasters that asked to be woken by then are."""
        self.now_ms += milliseconds
        due = [address for address, at_ms in self._wake_ms.items() if at_ms <= self.now_ms]
        for address in due:
            del self._wake_ms[address]
            self.give(address, TimerFired(WakeUp()))
        self.carry()

    def beat(self, account: str) -> None:
        """The heartbeat of all cores of one kind."""
        for address in [address for address, node in self.nodes.items() if node.account == account]:
            self.give(address, TimerFired(HeartbeatDue()))
        self.carry()

    def change(self, updates: Iterable[TaskStateUpdate]) -> None:
        """Attempts get on, each told by itself, as processes of their own tell it."""
        for update in updates:
            address = self.running[update.attempt]
            if update.state.is_terminal:
                del self.running[update.attempt]
            self.give(address, w.TasksChanged((update,)))
        self.carry()

    def end_canceled(self) -> None:
        """Attempts that were to be cancelled are gone."""
        gone, self.canceling = self.canceling, []
        here = [attempt for attempt in gone if attempt in self.running]
        self.change(TaskStateUpdate(attempt=attempt, state=ExecutionState.CANCELED) for attempt in here)

    # ── what is done about it ────────────────────────────────────────────────────────────────
    def _perform(self, node: Node, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(node, effect.envelope)
            case Persist():
                self._persist(node.core, effect)
            case SetTimer(timer=WakeUp()):
                self._wake_ms[node.core.address] = effect.at_ms
            case Reply():
                self.replies[effect.request_id] = effect.value
            case w.StartTasks():
                self.running.update((deployment.attempt, node.core.address) for deployment in effect.deployments)
            case w.CancelTask():
                self.canceling.append(effect.attempt)
            case w.CommitSink():
                done = w.SinkCommitDone(effect.job_id, effect.commit.commit_id, None, Committed())
                self._mail.append((node.core.address, done))
            case w.ReleaseJob():
                self._mail.append((node.core.address, w.JobReleaseDone(effect.job_id)))
            case _:
                self._perform_for_dispatcher(node.core.address, effect)

    def _perform_for_dispatcher(self, address: Address, effect: Effect) -> None:
        match effect:
            case r.LoadJobs():
                self._mail.append((address, r.JobsLoaded((), ())))
            case r.StoreJobGraph():
                self.keep(effect.graph)
                self._mail.append((address, r.JobGraphStored(effect.graph.job_id)))
            case r.StartJobMaster():
                self.start_job_master(effect.graph)
            case r.StoreJobResult():
                self._mail.append((address, r.JobResultStored(effect.result.job_id)))
            case r.StopJobMaster():
                self.drop(Address(f"master/jobmaster/{effect.job_id}"))
            case r.CleanUpJob():
                self._mail.append((address, r.JobCleanedUp(effect.job_id)))
            case r.ForgetGraph() | r.ForgetResult():
                self._mail.append((address, r.JobForgotten(effect.job_id)))
            case _:
                pass  # timers that are not played, leaders that do not change, directories that are not there

    def _send(self, node: Node, envelope: Envelope) -> None:
        self.sent[type(envelope.body).__name__] += 1
        recipient = self.nodes.get(envelope.recipient)
        is_local = node.decoder is None and recipient is not None and recipient.decoder is None
        if is_local or recipient is None:
            self._mail.append((envelope.recipient, Received(envelope)))
            return
        account = "wire" if node.decoder is None else "workers"
        frame = self.timed(account, lambda: encode_frame(envelope, FRAME_LIMIT_BYTES))
        self.sent_bytes[type(envelope.body).__name__] += len(frame)
        self._mail.append((envelope.recipient, frame))

    def _decoded(self, node: Node, frame: bytes) -> Event:
        decoder, account = (self._decoder, "wire") if node.decoder is None else (node.decoder, "workers")
        (envelope,) = self.timed(account, lambda: list(decoder.frames(frame)))
        assert isinstance(envelope, Envelope), "nothing else is sent here"
        return Received(envelope)

    def _persist(self, core: Core, effect: Persist) -> None:
        assert isinstance(core, JobMasterCore), "only JobMasters have a journal"
        entry = RecordsAppended(JobID(core.job.graph.job_id), effect.records)
        self.records.update(type(record).__name__ for record in effect.records)
        self.timed("journal", lambda: self._store_entry(entry))
        self._mail.append((core.address, Persisted(effect.sequence)))

    def _store_entry(self, entry: GraphStored | RecordsAppended) -> None:
        line([entry])
        self.store.apply(entry)

    def _greet(self, decoder: FrameDecoder) -> None:
        assert not list(decoder.frames(preface())), "a preface is no frame"
