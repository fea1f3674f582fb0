"""Verbs of stories about one ResourceManager."""

import dataclasses

from firesteel.core.effects import Event, TimerFired
from firesteel.core.requests import Asked
from firesteel.core.resourcemanager.inquiries import INQUIRIES_MAX, AskTaskManager, InquiryTimeout
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.settings import ResourceManagerSettings
from firesteel.model import messages as m
from firesteel.model.ids import Address, AllocationID, FencingToken, InstanceID, JobID, ResourceID
from firesteel.model.inquiries import DumpThreads, ThreadDump, ThreadEntry, WorkerAnswered
from firesteel.model.messages import Leader
from firesteel.model.reports import SlotAllocation, SlotReport
from firesteel.model.resources import ResourceProfile, ResultsStorage
from tests.core.stories.player import Player, listed, show

SETTINGS = ResourceManagerSettings(10_000, 50_000, spread_slots=False)


def new_core() -> ResourceManagerCore:
    return ResourceManagerCore(SETTINGS, Leader(Address("rm"), FencingToken(1, "rm")))


class ResourceManagerPlayer(Player):
    """Allocation and instance ids are told by number, in the order they come: `alloc1`, `inst1`."""

    core: ResourceManagerCore

    def make_core(self) -> ResourceManagerCore:
        self.sequence = 0
        self.names: dict[str, str] = {}
        return new_core()

    def play(self, script: str) -> str:
        told = super().play(script)
        for real, short in self.names.items():
            told = told.replace(real, short)
        return told

    def give(self, event: Event) -> None:
        super().give(event)
        for worker in self.core.slots.tracker.workers.values():
            self._name(worker.instance_id, "inst")
            for slot in worker.slots.values():
                if slot.allocation_id is not None:
                    self._name(slot.allocation_id, "alloc")

    def do_wait_for_workers(self, ms: str) -> None:
        """A ResourceManager that gives its workers some time to register."""
        settings = dataclasses.replace(SETTINGS, start_up_ms=int(ms))
        self.core = ResourceManagerCore(settings, Leader(Address("rm"), FencingToken(1, "rm")))

    def do_request_timeout(self, ms: str) -> None:
        """A ResourceManager that lets needs wait so long for a worker that could meet them."""
        settings = dataclasses.replace(SETTINGS, slot_request_timeout_ms=int(ms))
        self.core = ResourceManagerCore(settings, Leader(Address("rm"), FencingToken(1, "rm")))

    def do_queue(self) -> None:
        self.out += [f"    {job} {show(place)}" for job, place in self.core.queue().items()]

    # ── workers ──────────────────────────────────────────────────────────────────────────────
    def do_worker(self, name: str, *slots: str, unheard: str = "", stores: str = "") -> None:
        """`worker w1 . 2 alloc1:job`: it registers with slots: free ones (or of that many cores), and taken ones.
        `stores=/work:1`: results, in the storage 1, which it finds at /work."""
        report, (where, _, identity) = self._report(slots, unheard), stores.rpartition(":")
        results = ResultsStorage(where, identity)
        self.deliver(name, m.RegisterTaskExecutor(resource_id=ResourceID(name), report=report, results=results))

    def do_slots(
        self, name: str, *slots: str, kind: str = "heartbeat", answers: str = "", instance: str = "", unheard: str = ""
    ) -> None:
        """A slot report in one of the three messages that carry one; `instance=old` of a former registration."""
        known = self.core.slots.tracker.workers.get(ResourceID(name))
        mine = InstanceID(instance) if instance or known is None else known.instance_id
        worker, report = ResourceID(name), self._report(slots, unheard)
        bodies: dict[str, m.AnyMessage] = {
            "heartbeat": m.TaskExecutorHeartbeat(resource_id=worker, instance_id=mine, report=report),
            "available": m.NotifySlotAvailable(resource_id=worker, instance_id=mine, report=report),
            "answer": m.SlotRequestAnswer(
                resource_id=worker,
                instance_id=mine,
                report=report,
                allocations=tuple(AllocationID(self._real(name)) for name in listed(answers)),
            ),
        }
        self.deliver(name, bodies[kind])

    def do_ask(self, number: str, name: str, limit: str = "1000") -> None:
        """`ask 1 w1`: a client wants to see the threads of w1."""
        self.give(Asked(int(number), AskTaskManager(ResourceID(name), DumpThreads(), int(limit))))

    def do_ask_much(self, name: str) -> None:
        """As many questions as may wait at a time, from number 1000 on."""
        for number in range(1_000, 1_000 + INQUIRIES_MAX):
            self.give(Asked(number, AskTaskManager(ResourceID(name), DumpThreads(), 1_000)))
        self.out.clear()

    def do_answer(self, name: str, number: str) -> None:
        self.deliver(name, WorkerAnswered(number=int(number), answer=ThreadDump(threads=(ThreadEntry("main", ""),))))

    def do_expire(self, number: str) -> None:
        """The time of a question is over."""
        self.give(TimerFired(InquiryTimeout(int(number))))

    def do_goodbye(self, name: str) -> None:
        self.deliver(name, m.DisconnectTaskExecutor(resource_id=ResourceID(name), reason="it is shut down"))

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def do_job(
        self, name: str, what: str, count: str = "0", cores: str = "1", seq: str = "", token: str = "1", lost: str = ""
    ) -> None:
        """`job j register 2`: a JobMaster needs two slots; `declare`, `heartbeat` and `gone` are the others."""
        self.sequence += 1
        job_id, number = JobID(name), int(seq or self.sequence)
        needs = ((ResourceProfile(float(cores), 1_024), int(count)),) if count != "0" else ()
        bodies: dict[str, m.AnyMessage] = {
            "register": m.RegisterJobMaster(job_id=job_id, sequence=number, requirements=needs),
            "declare": m.DeclareRequiredResources(
                job_id=job_id, sequence=number, requirements=needs, lost=tuple(map(ResourceID, listed(lost)))
            ),
            "heartbeat": m.JobMasterHeartbeat(job_id=job_id),
            "gone": m.DisconnectJobMaster(job_id=job_id),
            "closed": m.JobClosed(job_id=job_id),
        }
        self.deliver(f"jm-{name}", bodies[what], int(token))

    def do_view(self) -> None:
        self.out += [show(view) for view in self.core.task_managers()]

    def _report(self, slots: tuple[str, ...], unheard: str) -> SlotReport:
        self.sequence += 1
        sizes = tuple((ResourceProfile(1.0 if text == "." or ":" in text else float(text), 1_024), 1) for text in slots)
        owners = [(index, text.partition(":")) for index, text in enumerate(slots) if ":" in text]
        taken = (SlotAllocation(index, AllocationID(self._real(name)), JobID(job)) for index, (name, _, job) in owners)
        return SlotReport(self.sequence, sizes, tuple(taken), tuple(map(JobID, listed(unheard))))

    def _name(self, real: str, kind: str) -> None:
        if len(real) == 32 and real not in self.names:
            number = 1 + sum(name.startswith(kind) for name in self.names.values())
            self.names[real] = f"{kind}{number}"

    def _real(self, short: str) -> str:
        return next((real for real, name in self.names.items() if name == short), short)
