"""Facts about slots and needs, as the ResourceManager knows them. Decides nothing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from firesteel.model.ids import Address, AllocationID, InstanceID, JobID, ResourceID
from firesteel.model.labels import Labels
from firesteel.model.messages import DEFAULT_QUEUE, Leader
from firesteel.model.metric import MetricValue
from firesteel.model.reports import SlotReport
from firesteel.model.resources import (
    UNKNOWN_HARDWARE,
    UNTOLD_STORAGE,
    HardwareDescription,
    ResourceProfile,
    ResultsStorage,
)


class SlotState(Enum):
    """A slot as the ResourceManager sees it; what its worker reports overrules."""

    FREE = "FREE"
    PENDING = "PENDING"
    """Requested from its worker, which has not answered yet."""
    ALLOCATED = "ALLOCATED"


@dataclass(slots=True)
class TrackedSlot:
    index: int
    profile: ResourceProfile
    state: SlotState = SlotState.FREE
    allocation_id: AllocationID | None = None
    job_id: JobID | None = None
    requested_ms: int = 0


@dataclass(slots=True)
class TrackedWorker:
    """A registered TaskExecutor."""

    resource_id: ResourceID
    instance_id: InstanceID
    address: Address
    since_ms: int
    hardware: HardwareDescription = UNKNOWN_HARDWARE
    results: ResultsStorage = UNTOLD_STORAGE
    slots: dict[int, TrackedSlot] = field(default_factory=dict)
    free: dict[int, None] = field(default_factory=dict)
    """Indices of the slots that are FREE."""
    taken: dict[AllocationID, TrackedSlot] = field(default_factory=dict)
    """The other slots."""
    sequence: int = -1
    metrics: tuple[MetricValue, ...] = ()
    """Figures that it has told of itself last."""
    is_suspect: bool = False
    """A job has lost it, and it has reported nothing since."""

    @property
    def labels(self) -> Labels:
        """All its slots have the same."""
        return next((slot.profile.labels for slot in self.slots.values()), ())

    @property
    def to_give(self) -> dict[int, None]:
        """Indices of the slots that may be given away."""
        return {} if self.is_suspect else self.free


@dataclass(slots=True)
class TrackedJob:
    """A registered JobMaster and what it needs."""

    leader: Leader
    order: int
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    since_ms: int = 0
    sequence: int = -1
    requirements: tuple[tuple[ResourceProfile, int], ...] = ()

    @property
    def turn(self) -> tuple[int, int, int]:
        """Jobs are served in the order of this: by priority, then age, then registration."""
        return (-self.priority, self.since_ms, self.order)


class SlotTracker:
    """Registered workers with their slots; registered jobs with their needs."""

    def __init__(self) -> None:
        self.workers: dict[ResourceID, TrackedWorker] = {}
        self.jobs: dict[JobID, TrackedJob] = {}
        self.profiles: dict[ResourceProfile, None] = {}
        """Profile of every slot that any worker has had: a worker that is gone may come back."""
        self.held: dict[JobID, Counter[ResourceProfile]] = {}
        """How many slots of each profile each job has, or was promised."""
        self.changes = 0
        """Grows with every change: as long as it does not, a plan that was made still is the right one."""
        self._jobs_seen = 0

    def add_worker(self, worker: TrackedWorker) -> None:
        self.workers[worker.resource_id] = worker

    def remove_worker(self, resource_id: ResourceID) -> None:
        """A registered worker is gone, and its slots with it."""
        for slot in self.workers.pop(resource_id).slots.values():
            self._count(slot, -1)
        self.changes += 1

    def suspect(self, resource_id: ResourceID, job_id: JobID) -> None:
        """A job has lost a worker: nothing there is given away, met or awaited any more, until it reports. What it says
        then counts; of other jobs it may well hold slots."""
        worker = self.workers[resource_id]
        worker.is_suspect = True
        for slot in tuple(worker.taken.values()):
            if slot.job_id == job_id or slot.state is SlotState.PENDING:
                self._free(worker, slot)

    def add_job(self, job_id: JobID, leader: Leader) -> TrackedJob:
        """Note a JobMaster; a new leader of a known job keeps the job's place."""
        known = self.jobs.get(job_id)
        self._jobs_seen += known is None
        job = self.jobs[job_id] = TrackedJob(leader, self._jobs_seen if known is None else known.order)
        return job

    def remove_job(self, job_id: JobID) -> None:
        """Its slots stay with it until its workers report them free."""
        self.jobs.pop(job_id, None)
        self.changes += 1

    def require(self, job_id: JobID, requirements: tuple[tuple[ResourceProfile, int], ...]) -> None:
        """All that a job needs now."""
        job = self.jobs[job_id]
        self.changes += job.requirements != requirements
        job.requirements = requirements

    def apply_report(self, worker: TrackedWorker, report: SlotReport) -> None:
        """Take a worker's word for its slots, unless it is old news; a request on its way stays PENDING."""
        if report.sequence <= worker.sequence:
            return
        worker.sequence = report.sequence
        self.changes += worker.is_suspect
        worker.is_suspect = False
        self._add_slots(worker, report.slots)
        told = {taken.allocation_id: taken for taken in report.allocations if taken.index in worker.slots}
        for allocation_id, slot in tuple(worker.taken.items()):
            known = told.get(allocation_id)
            is_gone = slot.state is SlotState.ALLOCATED if known is None else known.index != slot.index
            if is_gone:
                self._free(worker, slot)
        for allocation_id, taken in told.items():
            slot = worker.slots[taken.index]
            if slot.state is not SlotState.ALLOCATED or slot.allocation_id != allocation_id:
                self._give(worker, slot, SlotState.ALLOCATED, (taken.job_id, allocation_id))

    def _add_slots(self, worker: TrackedWorker, groups: tuple[tuple[ResourceProfile, int], ...]) -> None:
        """Those that the first report names: a worker keeps its slots."""
        if worker.slots:
            return
        for profile, count in groups:
            self.profiles[profile] = None
            for index in range(len(worker.slots), len(worker.slots) + count):
                worker.slots[index] = TrackedSlot(index, profile)
                worker.free[index] = None
        self.changes += 1

    def promise(self, resource_id: ResourceID, index: int, owner: tuple[JobID, AllocationID], now_ms: int) -> None:
        """A free slot is being requested for a job."""
        worker = self.workers[resource_id]
        slot = worker.slots[index]
        assert slot.state is SlotState.FREE, "a slot is promised once"
        slot.requested_ms = now_ms
        self._give(worker, slot, SlotState.PENDING, owner)

    def release_pending(self, worker: TrackedWorker, allocations: Iterable[AllocationID]) -> None:
        """The worker has answered, or had its time: these requests are not on their way any more."""
        for allocation_id in allocations:
            slot = worker.taken.get(allocation_id)
            if slot is not None and slot.state is SlotState.PENDING:
                self._free(worker, slot)

    def _give(
        self, worker: TrackedWorker, slot: TrackedSlot, state: SlotState, owner: tuple[JobID, AllocationID]
    ) -> None:
        self._free(worker, slot)
        slot.state = state
        slot.job_id, slot.allocation_id = owner
        self._count(slot, 1)
        del worker.free[slot.index]
        worker.taken[slot.allocation_id] = slot

    def _free(self, worker: TrackedWorker, slot: TrackedSlot) -> None:
        if slot.allocation_id is not None:
            self._count(slot, -1)
            del worker.taken[slot.allocation_id]
        slot.state, slot.job_id, slot.allocation_id = SlotState.FREE, None, None
        worker.free[slot.index] = None
        self.changes += 1

    def _count(self, slot: TrackedSlot, change: int) -> None:
        if slot.job_id is not None:
            held = self.held.setdefault(slot.job_id, Counter())
            held[slot.profile] += change
            if not held[slot.profile]:
                del held[slot.profile]
            if not held:
                del self.held[slot.job_id]

    def overdue(self, before_ms: int) -> list[tuple[TrackedWorker, AllocationID]]:
        """Requests sent before `before_ms` that were not answered."""
        return [
            (worker, allocation_id)
            for worker in self.workers.values()
            for allocation_id, slot in worker.taken.items()
            if slot.state is SlotState.PENDING and slot.requested_ms <= before_ms
        ]

    def counts(self) -> tuple[int, int]:
        """(slots, free slots) of all workers."""
        workers = self.workers.values()
        return sum(len(worker.slots) for worker in workers), sum(len(worker.free) for worker in workers)

    def validate(self) -> None:
        """A slot names an allocation exactly when it is not free, no allocation has two slots, and counts are right."""
        held: dict[JobID, Counter[ResourceProfile]] = {}
        for worker in self.workers.values():
            free = [index for index, slot in worker.slots.items() if slot.state is SlotState.FREE]
            assert sorted(worker.free) == free, "free slots are off"
            taken = {slot.allocation_id: slot for slot in worker.slots.values() if slot.allocation_id is not None}
            assert worker.taken == taken, "taken slots are off"
            for slot in worker.slots.values():
                if slot.job_id is not None:
                    held.setdefault(slot.job_id, Counter())[slot.profile] += 1
        assert held == self.held, "held slots are miscounted"
        named = [slot for worker in self.workers.values() for slot in worker.slots.values() if slot.allocation_id]
        assert all(slot.state is not SlotState.FREE for slot in named), "a free slot is allocated"
        assert len({slot.allocation_id for slot in named}) == len(named), "an allocation has two slots"
