"""The settings of a simulated cluster: as drawn by a seed, since what is rare with long times is not with short ones."""

import dataclasses
import random
from dataclasses import dataclass

from firesteel.core.scheduler.backoff import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.core.settings import JobMasterSettings, ResourceManagerSettings, TaskExecutorSettings
from firesteel.model.labels import Labels
from firesteel.model.resources import ResourceProfile
from firesteel.testing.simulation.cores.store import HISTORY_SIZE

RETRYABLE_MAX = 2
"""Jobs that did not finish whose graphs are kept: few, so that some go."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings of every component."""

    workers: int
    job_master: JobMasterSettings
    resource_manager: ResourceManagerSettings
    task_executor: TaskExecutorSettings
    labels: tuple[Labels, ...] = ()
    """Of the workers, one after the other; the first has all that any job asks for. Empty: nobody has any."""


CALM_HEARTBEATS, QUICK_HEARTBEATS = (10_000, 50_000), (2_000, 7_000)


GROWING, ENDING = (
    ExponentialDelay(200, 5_000, 2.0, 20_000, 0.1, attempts=1_000, seed="growing"),
    ExponentialDelay(500, 2_000, 1.5, 10_000, 0.0, attempts=4),
)
STRATEGIES: tuple[RestartStrategy, ...] = (GROWING, ENDING, FailureRate(50, 5_000, 200), FailureRate(2, 5_000, 0))


def draw_scheduling(chance: random.Random, first: SchedulerSettings) -> SchedulerSettings:
    """How failures are met, where it is not as simply as in `first`."""
    strategy = chance.choice((first.strategy, first.strategy, *STRATEGIES))
    return dataclasses.replace(
        first, strategy=strategy, retry_delay_ms=chance.choice((0, 700)), restarts_all=chance.random() < 0.2
    )


def draw_volumes(chance: random.Random, first: SchedulerSettings) -> SchedulerSettings:
    """What a subtask is to read, in units of what one leaves."""
    return dataclasses.replace(first, subtask_bytes=chance.choice((0, 1, 2, 5, 1_000)))


LABELS: tuple[Labels, ...] = (("a", "b"), ("a",), ("b",), ())
LABELLED = 0.25
"""Share of the seeds in which workers have labels, and jobs ask for them."""


def draw_labels(chance: random.Random, workers: int) -> tuple[Labels, ...]:
    """Labels of the workers of some clusters."""
    if chance.random() >= LABELLED:
        return ()
    return LABELS[0], *(chance.choice(LABELS) for _ in range(workers - 1))


def draw_settings(chance: random.Random, *, slots_max: int = 6) -> ClusterSettings:
    """Settings that users may choose."""
    interval_ms, timeout_ms = chance.choice((CALM_HEARTBEATS, QUICK_HEARTBEATS))
    strategies: tuple[RestartStrategy, ...] = (NoRestart(), FixedDelay(100, 500), FixedDelay(100, 0))
    job_timeout_ms = chance.choice((0, 0, 0, 0, 60_000))
    idle_ms, reconciliation_ms = chance.choice((1_000, 50_000)), chance.choice((2_000, 10_000))
    slots, slot_timeout_ms = chance.randint(1, slots_max), chance.choice((3_000, 10_000))
    return ClusterSettings(
        workers=chance.randint(1, 3),
        job_master=JobMasterSettings(
            SchedulerSettings(chance.choice(strategies), HISTORY_SIZE, job_timeout_ms),
            interval_ms,
            timeout_ms,
            idle_ms,
            reconciliation_ms,
        ),
        resource_manager=ResourceManagerSettings(
            interval_ms, timeout_ms, spread_slots=chance.random() < 0.5, start_up_ms=chance.choice((0, 5_000))
        ),
        task_executor=TaskExecutorSettings(
            slots,
            ResourceProfile(1.0, 1024),
            interval_ms,
            timeout_ms,
            slot_timeout_ms,
            chance.choice((60_000, 600_000)),
        ),
    )
