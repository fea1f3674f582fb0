"""Restart strategies: whether and when to run again what failed. Immutable; what they remember is the journal's.

Their rules, and with them every delay, are those of Flink's classes of the same names: FixedDelay-, FailureRate- and
ExponentialDelayRestartBackoffTimeStrategy. `make compat` compares them with these.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from firesteel.model.counts import counted
from firesteel.model.options import ConfigOption, Configuration, ConfigurationError, is_known
from firesteel.model.options import restarts as o

BACKOFF_MS_MAX = (1 << 63) - 1
"""What a backoff that grows without limit ends at, before `max-backoff` has its say."""


class BackoffState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a strategy remembers of a job's failures. Stored, so that restarts go on counting under the next leader."""

    attempts: int = 0
    """Failures that were answered, since the beginning or since the backoff was reset."""
    due_ms: int | None = None
    """When the last restart was, or is, to begin (exponential-delay)."""
    failures_ms: tuple[int, ...] = ()
    """When the last failures were, oldest first, one more than may be in an interval (failure-rate)."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A strategy's answer to a failure: time to wait before the restart, or None to let the job fail."""

    delay_ms: int | None
    state: BackoffState
    is_new_attempt: bool = True
    """False: the failure is one more of those that the restart under way is for."""


class RestartStrategy(ABC):
    """Asked once for each failure of what has no retries of its own."""

    @abstractmethod
    def notify_failure(self, state: BackoffState, now_ms: int) -> Backoff:
        """The answer to a failure now, given what is remembered of those before."""

    @abstractmethod
    def describe(self) -> str:
        """Why it lets a job fail, for messages; empty when it never restarts anything."""


@dataclass(frozen=True, slots=True)
class NoRestart(RestartStrategy):
    """The first failure fails the job."""

    def notify_failure(self, state: BackoffState, now_ms: int) -> Backoff:
        return Backoff(None, state)

    def describe(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class FixedDelay(RestartStrategy):
    """`attempts` restarts, each after the same time."""

    attempts: int
    wait_ms: int

    def __post_init__(self) -> None:
        _require(self.attempts >= 0, o.RESTART_FIXED_ATTEMPTS, "at least 0")

    def notify_failure(self, state: BackoffState, now_ms: int) -> Backoff:
        attempts = state.attempts + 1
        return Backoff(self.wait_ms if attempts <= self.attempts else None, BackoffState(attempts=attempts))

    def describe(self) -> str:
        return f"all {self.attempts} restarts of {o.RESTART_FIXED_ATTEMPTS.key} are used up"


@dataclass(frozen=True, slots=True)
class FailureRate(RestartStrategy):
    """Restarts after the same time each, as long as no more than `failures` failures fall into any `interval_ms`."""

    failures: int
    interval_ms: int
    wait_ms: int

    def __post_init__(self) -> None:
        _require(self.failures > 0, o.RESTART_RATE_FAILURES, "at least 1")
        _require(self.interval_ms > 0, o.RESTART_RATE_INTERVAL, "more than 0")

    def notify_failure(self, state: BackoffState, now_ms: int) -> Backoff:
        recent = (*state.failures_ms, now_ms)[-self.failures - 1 :]
        too_many = len(recent) > self.failures and now_ms - recent[0] <= self.interval_ms
        return Backoff(None if too_many else self.wait_ms, BackoffState(failures_ms=recent))

    def describe(self) -> str:
        within = f"{self.interval_ms / 1000:g} s"
        return f"more than {counted(self.failures, 'failure')} within {within} ({o.RESTART_RATE_FAILURES.key})"


@dataclass(frozen=True, slots=True)
class ExponentialDelay(RestartStrategy):
    """Each restart waits longer than the one before, until there was no failure for a while. Failures that come while
    one waits are answered by that one."""

    initial_ms: int
    max_ms: int
    multiplier: float
    reset_after_ms: int
    jitter: float
    attempts: int
    seed: str = ""
    """What the jitter is made of, with the number and the time of the failure: other jobs have another one."""

    def __post_init__(self) -> None:
        _require(self.initial_ms >= 1, o.RESTART_EXPONENTIAL_INITIAL, "at least 1 ms")
        limit = o.RESTART_EXPONENTIAL_INITIAL.key
        _require(self.max_ms >= self.initial_ms, o.RESTART_EXPONENTIAL_MAX, f"at least {limit}")
        _require(self.multiplier > 1, o.RESTART_EXPONENTIAL_MULTIPLIER, "more than 1")
        _require(self.reset_after_ms >= 1, o.RESTART_EXPONENTIAL_RESET, "at least 1 ms")
        _require(0 <= self.jitter <= 1, o.RESTART_EXPONENTIAL_JITTER, "from 0 to 1")
        _require(self.attempts >= 1, o.RESTART_EXPONENTIAL_ATTEMPTS, "at least 1")

    def notify_failure(self, state: BackoffState, now_ms: int) -> Backoff:
        attempts, due_ms = state.attempts, state.due_ms
        is_new = due_ms is None or now_ms > due_ms
        if is_new:
            if due_ms is not None and now_ms - due_ms >= self.reset_after_ms:
                attempts = 0
            due_ms = now_ms + self._backoff_ms(attempts, now_ms)
            attempts += 1
        assert due_ms is not None, "a restart that failures are merged into has a time"
        delay_ms = max(0, due_ms - now_ms) if attempts <= self.attempts else None
        return Backoff(delay_ms, BackoffState(attempts=attempts, due_ms=due_ms), is_new)

    def describe(self) -> str:
        return f"all {self.attempts} restarts of {o.RESTART_EXPONENTIAL_ATTEMPTS.key} are used up"

    def _backoff_ms(self, attempts: int, now_ms: int) -> int:
        try:
            backoff_ms = int(min(self.initial_ms * self.multiplier**attempts, BACKOFF_MS_MAX))
        except OverflowError:
            backoff_ms = BACKOFF_MS_MAX
        return max(self.initial_ms, min(backoff_ms + self._jitter_ms(backoff_ms, attempts, now_ms), self.max_ms))

    def _jitter_ms(self, backoff_ms: int, attempts: int, now_ms: int) -> int:
        """Evenly spread from minus to plus the jitter's share of the backoff."""
        reach_ms = int(backoff_ms * self.jitter)
        digest = hashlib.sha256(f"{self.seed}/{attempts}/{now_ms}".encode()).digest()
        return int.from_bytes(digest[:16]) % (2 * reach_ms + 1) - reach_ms


def restart_strategy(
    cluster: Configuration, job: Mapping[str, str], seed: str = "", *, is_stream: bool = False
) -> RestartStrategy:
    """The job's own strategy, else the cluster's, else what Flink does: a stream is restarted, a batch is not. Raises
    ConfigurationError when its options don't fit together."""
    configuration = effective(cluster, job)
    get = configuration.get_option
    is_unset = o.RESTART_STRATEGY.key not in configuration
    match "exponential-delay" if is_stream and is_unset else get(o.RESTART_STRATEGY):
        case "fixed-delay":
            return FixedDelay(get(o.RESTART_FIXED_ATTEMPTS), get(o.RESTART_FIXED_DELAY))
        case "failure-rate":
            return FailureRate(
                get(o.RESTART_RATE_FAILURES),
                get(o.RESTART_RATE_INTERVAL),
                get(o.RESTART_RATE_DELAY),
            )
        case "exponential-delay":
            return ExponentialDelay(
                get(o.RESTART_EXPONENTIAL_INITIAL),
                get(o.RESTART_EXPONENTIAL_MAX),
                get(o.RESTART_EXPONENTIAL_MULTIPLIER),
                get(o.RESTART_EXPONENTIAL_RESET),
                get(o.RESTART_EXPONENTIAL_JITTER),
                get(o.RESTART_EXPONENTIAL_ATTEMPTS),
                seed,
            )
        case _:
            return NoRestart()


def effective(cluster: Configuration, job: Mapping[str, str]) -> Configuration:
    """The cluster's configuration with what the job has of its own; what is unknown here is left out."""
    return cluster.merged({key: value for key, value in job.items() if is_known(key)})


def _require(condition: bool, option: ConfigOption[int] | ConfigOption[float], what: str) -> None:
    if not condition:
        raise ConfigurationError(f"{option.key}: it has to be {what}")
