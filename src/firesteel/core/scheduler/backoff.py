"""Restart strategies: whether and when to run again what failed. Immutable; the journal keeps the count."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from firesteel.model import options
from firesteel.model.options import Configuration


class RestartStrategy(ABC):
    """Asked once for each failure that is not merged into a restart under way."""

    @abstractmethod
    def delay_ms(self, restarts: int) -> int | None:
        """Time to wait before restart number `restarts` + 1, or None to let the job fail."""

    @abstractmethod
    def describe(self) -> str:
        """The strategy as a user would name it, for messages."""


@dataclass(frozen=True, slots=True)
class NoRestart(RestartStrategy):
    """The first failure fails the job."""

    def delay_ms(self, restarts: int) -> int | None:
        return None

    def describe(self) -> str:
        return "restart-strategy.type is none"


@dataclass(frozen=True, slots=True)
class FixedDelay(RestartStrategy):
    """`attempts` restarts, each after `delay`."""

    attempts: int
    wait_ms: int

    def delay_ms(self, restarts: int) -> int | None:
        return self.wait_ms if restarts < self.attempts else None

    def describe(self) -> str:
        return f"all {self.attempts} restarts of restart-strategy.fixed-delay.attempts are used up"


def restart_strategy(cluster: Configuration, job: Mapping[str, str]) -> RestartStrategy:
    """The job's own strategy, else the cluster's."""
    known = {key: value for key, value in job.items() if key in options.OPTIONS}
    configuration = cluster.merged(known)
    if configuration.get_option(options.RESTART_STRATEGY) == "none":
        return NoRestart()
    return FixedDelay(
        configuration.get_option(options.RESTART_FIXED_ATTEMPTS), configuration.get_option(options.RESTART_FIXED_DELAY)
    )
