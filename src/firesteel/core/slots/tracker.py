"""Facts about slots and needs, as the ResourceManager knows them. Decides nothing."""

from dataclasses import dataclass, field
from enum import Enum

from firesteel.model.ids import Address, AllocationID, InstanceID, JobID, ResourceID
from firesteel.model.messages import DEFAULT_QUEUE, Leader, SlotReport
from firesteel.model.resources import ResourceProfile


class SlotState(Enum):
    """A slot as the ResourceManager sees it; what its worker reports overrules."""

    FREE = "FREE"
    PENDING = "PENDING"
    """Requested from its worker, which has not answered yet."""
    ALLOCATED = "ALLOCATED"


@dataclass(slots=True)
class TrackedSlot:
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
    slots: dict[int, TrackedSlot] = field(default_factory=dict)
    sequence: int = -1


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
        """Of every slot that any worker has had: a worker that is gone may come back."""
        self._jobs_seen = 0

    def add_worker(self, worker: TrackedWorker) -> None:
        self.workers[worker.resource_id] = worker

    def add_job(self, job_id: JobID, leader: Leader) -> TrackedJob:
        """Note a JobMaster; a new leader of a known job keeps the job's place."""
        known = self.jobs.get(job_id)
        self._jobs_seen += known is None
        job = self.jobs[job_id] = TrackedJob(leader, self._jobs_seen if known is None else known.order)
        return job

    def held(self) -> dict[JobID, list[ResourceProfile]]:
        """The profiles of the slots each job has, or was promised."""
        held: dict[JobID, list[ResourceProfile]] = {}
        for worker in self.workers.values():
            for slot in worker.slots.values():
                if slot.job_id is not None:
                    held.setdefault(slot.job_id, []).append(slot.profile)
        return held

    def apply_report(self, worker: TrackedWorker, report: SlotReport) -> None:
        """Take a worker's word for its slots, unless it is old news; a request on its way stays PENDING."""
        if report.sequence <= worker.sequence:
            return
        worker.sequence = report.sequence
        for status in report.slots:
            slot = worker.slots.setdefault(status.index, TrackedSlot(status.profile))
            self.profiles[slot.profile] = None
            if status.allocation_id is not None:
                slot.state, slot.allocation_id, slot.job_id = SlotState.ALLOCATED, status.allocation_id, status.job_id
            elif slot.state is SlotState.ALLOCATED:
                slot.state, slot.allocation_id, slot.job_id = SlotState.FREE, None, None

    def release_pending(self, worker: TrackedWorker, allocation_id: AllocationID) -> None:
        """The worker has answered, or had its time: the request is not on its way any more."""
        for slot in worker.slots.values():
            if slot.state is SlotState.PENDING and slot.allocation_id == allocation_id:
                slot.state, slot.allocation_id, slot.job_id = SlotState.FREE, None, None

    def overdue(self, before_ms: int) -> list[tuple[TrackedWorker, AllocationID]]:
        """Requests sent before `before_ms` that were not answered."""
        return [
            (worker, slot.allocation_id)
            for worker in self.workers.values()
            for slot in worker.slots.values()
            if slot.state is SlotState.PENDING and slot.allocation_id is not None and slot.requested_ms <= before_ms
        ]

    def counts(self) -> tuple[int, int]:
        """(slots, free slots) of all workers."""
        slots = [slot for worker in self.workers.values() for slot in worker.slots.values()]
        return len(slots), sum(slot.state is SlotState.FREE for slot in slots)

    def validate(self) -> None:
        """A slot names an allocation exactly when it is not free, and no allocation has two slots."""
        taken = [slot for worker in self.workers.values() for slot in worker.slots.values() if slot.allocation_id]
        assert all(slot.state is not SlotState.FREE for slot in taken), "a free slot is allocated"
        assert len({slot.allocation_id for slot in taken}) == len(taken), "an allocation has two slots"
