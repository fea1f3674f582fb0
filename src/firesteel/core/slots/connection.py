"""Who talks to the ResourceManager, and what it has to be told: the state of both kinds of connection."""

from dataclasses import dataclass, field

import msgspec

from firesteel.core.registration import RegistrationTries
from firesteel.model import messages as m
from firesteel.model.configuration import duration_text
from firesteel.model.ids import FencingToken, InstanceID, JobID, ResourceID
from firesteel.model.metric import MetricValue
from firesteel.model.reports import SlotReport
from firesteel.model.resources import ResourceProfile

Requirements = tuple[tuple[ResourceProfile, int], ...]


@dataclass(slots=True)
class JobRequirements:
    """A JobMaster's side: registered or not, it always sends all it needs, numbered."""

    job_id: JobID
    tries: RegistrationTries = field(default_factory=RegistrationTries)
    queue: str = m.DEFAULT_QUEUE
    priority: int = 0
    since_ms: int = 0
    leader: m.Leader | None = None
    registered: bool = False
    heard_ms: int = 0
    """When the ResourceManager was heard of last, while registered."""
    _declared: Requirements = ()
    _sequence: int = 0
    _newest: FencingToken | None = None
    _lost: dict[ResourceID, None] = field(default_factory=dict)
    """Workers that were lost and the ResourceManager has not been told of."""

    def follow(self, leader: m.Leader | None) -> None:
        """Another ResourceManager leads, which does not know the job yet. Late word of a former one: nothing."""
        if leader is not None:
            if self._newest is not None and leader.token < self._newest:
                return
            self._newest = leader.token
        self.leader = leader
        self.lose()

    def lose(self) -> None:
        """The ResourceManager may have given this job up: register anew."""
        self.registered = False
        self._lost.clear()
        self.tries.begin()

    def lose_worker(self, resource_id: ResourceID) -> None:
        """The job's master has lost a worker, which the ResourceManager may not have noticed yet."""
        if self.registered:
            self._lost[resource_id] = None

    def is_silent(self, now_ms: int, timeout_ms: int) -> bool:
        """Whether the registration has gone stale: the ResourceManager may have given this job up."""
        return self.registered and now_ms - self.heard_ms >= timeout_ms

    def message(self, needed: Requirements, *, force: bool) -> m.RegisterJobMaster | m.DeclareRequiredResources | None:
        """What to send, when the need has changed, a worker was lost, or `force` asks for it anyway."""
        if self.leader is None or (needed == self._declared and not self._lost and not force):
            return None
        self._sequence += 1
        self._declared = needed
        if self.registered:
            lost, self._lost = tuple(self._lost), {}
            return m.DeclareRequiredResources(
                job_id=self.job_id, sequence=self._sequence, requirements=needed, lost=lost
            )
        return m.RegisterJobMaster(
            job_id=self.job_id,
            sequence=self._sequence,
            requirements=needed,
            queue=self.queue,
            priority=self.priority,
            since_ms=self.since_ms,
        )


@dataclass(slots=True)
class WorkerRegistration:
    """A TaskExecutor's side: registered while it has an instance id of the leader it follows."""

    resource_id: ResourceID
    tries: RegistrationTries = field(default_factory=RegistrationTries)
    leader: m.Leader | None = None
    instance_id: InstanceID | None = None
    heard_ms: int = 0
    lost_ms: int = 0
    """Since when it is not registered, while it is not."""
    metrics: tuple[MetricValue, ...] = ()
    """Figures that the worker has measured last; each heartbeat has them."""
    _newest: FencingToken | None = None

    def follow(self, leader: m.Leader | None, now_ms: int) -> None:
        """Another ResourceManager leads, or none. Late word of a former one: nothing."""
        if leader is not None:
            if self._newest is not None and leader.token < self._newest:
                return
            self._newest = leader.token
        self.leader, self.heard_ms = leader, now_ms
        self.lose(now_ms)

    def lose(self, now_ms: int) -> None:
        """The leader may have given this worker up: register anew."""
        self.instance_id, self.lost_ms = None, now_ms
        self.tries.begin()

    def is_from_leader(self, envelope: m.Envelope) -> bool:
        """Fencing: only the ResourceManager that leads is heard."""
        return self.leader is not None and envelope.sender_token == self.leader.token

    def cut(self, now_ms: int) -> int:
        """The connection to the leader broke: how long to wait before it is tried again."""
        if self.instance_id is None:
            return self.tries.pause_ms()
        self.lose(now_ms)
        return self.tries.wait_ms()

    def overdue(self, now_ms: int) -> str:
        """Why it is to give up: it has been registered nowhere for too long. Empty when it is not to."""
        limit_ms = self.tries.timeouts.give_up_ms
        if limit_ms is None or self.instance_id is not None or now_ms - self.lost_ms < limit_ms:
            return ""
        return f"it has been registered at no ResourceManager for {duration_text(limit_ms)}"

    def report(
        self, kind: type[m.TaskExecutorHeartbeat] | type[m.NotifySlotAvailable], report: SlotReport
    ) -> m.TaskExecutorHeartbeat | m.NotifySlotAvailable | None:
        """A numbered slot report for the leader, or None while not registered."""
        if self.leader is None or self.instance_id is None:
            return None
        made = kind(resource_id=self.resource_id, instance_id=self.instance_id, report=report)
        return made if isinstance(made, m.NotifySlotAvailable) else msgspec.structs.replace(made, metrics=self.metrics)

    def is_silent(self, now_ms: int, timeout_ms: int) -> bool:
        """Whether a registration has gone stale: the leader has not asked for long."""
        return self.instance_id is not None and now_ms - self.heard_ms >= timeout_ms
