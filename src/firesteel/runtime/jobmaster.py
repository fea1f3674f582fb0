"""The JobMaster's endpoint: its core, its journal, and the leaders it follows."""

import logging
from collections.abc import Callable, Sequence

from firesteel.core.checkpoint.savepoints import SavepointSettings
from firesteel.core.effects import Effect, Event, LeadershipLost, Persist
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.groupcommit import GroupCommit
from firesteel.core.journal.records import JournalRecord
from firesteel.core.scheduler.backoff import NoRestart, RestartStrategy, effective, restart_strategy
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.core.settings import JobMasterSettings, JobReleaseSettings
from firesteel.model import options
from firesteel.model.checkpoints import CheckpointRetention, CheckpointSettings
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.streams import CHECKPOINTS_BELOW
from firesteel.runtime.about import about
from firesteel.runtime.leading import LeadingEndpoint
from firesteel.runtime.narration import lines_of, subject_of
from firesteel.runtime.registration import registration_timeouts
from firesteel.runtime.services import Clock, JobStore, Rpc

logger = logging.getLogger(__name__)


class JobMasterEndpoint(LeadingEndpoint):
    """Serves one leadership of one job, and writes its journal."""

    core: JobMasterCore

    def __init__(
        self,
        core: JobMasterCore,
        rpc: Rpc,
        clock: Clock,
        store: JobStore,
        *,
        on_broken: Callable[[Exception], None],
        on_change: Callable[[], None],
        on_records: Callable[[Sequence[JournalRecord]], None],
    ) -> None:
        super().__init__(core, rpc, clock, on_broken)
        self._store, self._on_change, self._on_records = store, on_change, on_records
        self._commit = GroupCommit()

    def perform(self, effect: Effect) -> None:
        if not isinstance(effect, Persist):
            super().perform(effect)
        elif self._commit.add(effect):
            self.background(self._write())

    def handled(self, event: Event) -> None:
        self._on_change()

    async def stop(self) -> None:
        """Suspend the job, unless it has ended: whoever leads next goes on with it. What runs is left alone."""
        before = self.core.status
        if not self._stopped:
            self._handle(LeadershipLost())
        if self.core.status is not before:
            graph = self.core.job.graph
            text = "job %s (%s): SUSPENDED, after %s: this master does not lead it any more"
            logger.info(text, graph.job_id, graph.name, before.value, extra=about(graph.job_id))
        await super().stop()

    async def _write(self) -> None:
        """StaleLeader and OSError break this session, and the next one starts from what the store has."""
        job_id = self.core.job.graph.job_id
        while records := self._commit.next_write():
            await self._store.append(job_id, self.leader.token, records)
            self._narrate(records)
            self._on_records(records)
            self.tell(self._commit.written())

    def _narrate(self, records: Sequence[JournalRecord]) -> None:
        """Log what has become a fact."""
        if logger.isEnabledFor(logging.INFO):
            graph, topology, intended = self.core.job.graph, self.core.topology, self.core.views.intended
            for record in records:
                subject = about(graph.job_id, *subject_of(record, topology))
                for line in lines_of(record, topology, intended):
                    logger.info("job %s (%s): %s", graph.job_id, graph.name, line, extra=subject)


def job_master_settings(config: Configuration, graph: JobGraph) -> JobMasterSettings:
    job = Configuration(graph.configuration)
    either = effective(config, graph.configuration)
    return JobMasterSettings(
        scheduler=SchedulerSettings(
            _strategy(config, graph),
            config.get_option(options.EXCEPTION_HISTORY_SIZE),
            job.get_option(options.JOB_TIMEOUT),
            either.get_option(options.RESTART_FIXED_DELAY),
            either.get_option(options.JOB_COMMIT_TIMEOUT),
            savepoints=SavepointSettings(
                either.get_option(options.SAVEPOINT_DIR),
                either.get_option(options.CHECKPOINT_TIMEOUT),
                job.get_option(options.CHECKPOINTS_DIR),
            ),
            checkpoints=CheckpointSettings(
                interval_ms=either.get_option(options.CHECKPOINT_INTERVAL),
                timeout_ms=either.get_option(options.CHECKPOINT_TIMEOUT),
                min_pause_ms=either.get_option(options.CHECKPOINT_MIN_PAUSE),
                tolerable_failures=either.get_option(options.TOLERABLE_FAILED_CHECKPOINTS),
                retained_max=max(1, either.get_option(options.CHECKPOINTS_RETAINED)),
                checkpoints_dir=job.get_option(options.CHECKPOINTS_DIR),
                retention=CheckpointRetention(either.get_option(options.CHECKPOINT_RETENTION)),
                shared_dir=_shared_dir(either),
            ),
            subtask_bytes=_subtask_bytes(either, graph),
            restarts_all=either.get_option(options.FAILOVER_STRATEGY) == "full",
        ),
        queue=job.get_option(options.JOB_QUEUE),
        priority=job.get_option(options.JOB_PRIORITY),
        heartbeat_interval_ms=config.get_option(options.HEARTBEAT_INTERVAL),
        heartbeat_timeout_ms=config.get_option(options.HEARTBEAT_TIMEOUT),
        slot_idle_timeout_ms=config.get_option(options.SLOT_IDLE_TIMEOUT),
        reconciliation_timeout_ms=config.get_option(options.RECONCILIATION_TIMEOUT),
        registration=registration_timeouts(config),
    )


def _subtask_bytes(config: Configuration, graph: JobGraph) -> int:
    if graph.job_type is JobType.STREAMING or not config.get_option(options.AUTO_PARALLELISM):
        return 0
    return int(config.get_option(options.SUBTASK_DATA_VOLUME)) << 20


def _shared_dir(config: Configuration) -> str:
    """Where all workers find checkpoints; empty where each has its own."""
    results = config.get_option(options.RESULTS_DIR).rstrip("/")
    below = f"{results}/{CHECKPOINTS_BELOW}" if results.startswith(("/", "file:")) else ""
    return config.get_option(options.CHECKPOINTS_DIR).rstrip("/") or below


def job_release_settings(config: Configuration) -> JobReleaseSettings:
    return JobReleaseSettings(
        config.get_option(options.HEARTBEAT_INTERVAL),
        config.get_option(options.HEARTBEAT_TIMEOUT),
        config.get_option(options.RECONCILIATION_TIMEOUT),
    )


def _strategy(config: Configuration, graph: JobGraph) -> RestartStrategy:
    """It was checked at the submission, on a cluster that may have had other options."""
    try:
        is_stream = graph.job_type is JobType.STREAMING
        return restart_strategy(config, graph.configuration, graph.job_id, is_stream=is_stream)
    except ConfigurationError as error:
        text = "job %s (%s) restarts nothing: %s"
        logger.warning(text, graph.job_id, graph.name, error, extra=about(graph.job_id))
        return NoRestart()
