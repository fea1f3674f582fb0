"""The JobMaster's endpoint: its core, its journal, and the leaders it follows."""

from collections.abc import Callable, Sequence

from firesteel.core.effects import RESOURCE_MANAGER, Effect, LeaderChanged, Persist, Persisted
from firesteel.core.jobmaster import JobMasterCore, JobMasterSettings
from firesteel.core.journal import JournalRecord
from firesteel.core.scheduler.backoff import restart_strategy
from firesteel.core.scheduler.scheduler import SchedulerSettings
from firesteel.model import options
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Leader
from firesteel.model.options import Configuration
from firesteel.runtime.endpoint import Endpoint
from firesteel.runtime.services import Clock, JobStore, LeaderRetrieval, Rpc


class JobMasterEndpoint(Endpoint):
    """Serves one leadership of one job."""

    core: JobMasterCore

    def __init__(
        self, core: JobMasterCore, rpc: Rpc, clock: Clock, store: JobStore, *, on_broken: Callable[[Exception], None]
    ) -> None:
        super().__init__(core, rpc, clock, on_broken)
        self._store = store
        self._unwritten: list[Persist] = []
        self._writing = False
        self._unwatch: Callable[[], None] = lambda: None

    @property
    def leader(self) -> Leader:
        assert self.core.token is not None, "a leader has a token"
        return Leader(self.core.address, self.core.token)

    def follow(self, leaders: LeaderRetrieval) -> None:
        """Learn of the ResourceManager's leaders."""
        self._unwatch = leaders.watch(RESOURCE_MANAGER, lambda found: self.tell(LeaderChanged(RESOURCE_MANAGER, found)))

    async def stop(self) -> None:
        self._unwatch()
        await super().stop()

    def perform(self, effect: Effect) -> None:
        if not isinstance(effect, Persist):
            super().perform(effect)
            return
        self._unwritten.append(effect)
        if not self._writing:
            self._writing = True
            self.background(self._write())

    async def _write(self) -> None:
        """Group commit: what has come while a write was under way goes into the next one.

        A write that failed may be durable or not, and nothing may be written after it: StaleLeader and
        OSError break this session, and the next one starts from what the store has.
        """
        job_id = self.core.job.graph.job_id
        token = self.leader.token
        while self._unwritten:
            batch, self._unwritten = self._unwritten, []
            await self._store.append(job_id, token, [record for item in batch for record in _records(item)])
            self.tell(Persisted(batch[-1].sequence))
        self._writing = False


def _records(effect: Persist) -> Sequence[JournalRecord]:
    return effect.records  # type: ignore[return-value]


def job_master_settings(config: Configuration, graph: JobGraph) -> JobMasterSettings:
    job = Configuration(graph.configuration)
    return JobMasterSettings(
        scheduler=SchedulerSettings(
            restart_strategy(config, graph.configuration),
            config.get_option(options.EXCEPTION_HISTORY_SIZE),
            job.get_option(options.JOB_TIMEOUT),
        ),
        queue=job.get_option(options.JOB_QUEUE),
        priority=job.get_option(options.JOB_PRIORITY),
        heartbeat_interval_ms=config.get_option(options.HEARTBEAT_INTERVAL),
        heartbeat_timeout_ms=config.get_option(options.HEARTBEAT_TIMEOUT),
        slot_idle_timeout_ms=config.get_option(options.SLOT_IDLE_TIMEOUT),
        reconciliation_timeout_ms=config.get_option(options.RECONCILIATION_TIMEOUT),
    )
