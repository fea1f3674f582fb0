"""When to try again to register at a ResourceManager that has not answered, as Flink does (RetryingRegistration)."""

from dataclasses import dataclass

from firesteel.model.backoff import ExponentialBackoff


@dataclass(frozen=True, slots=True)
class RegistrationTimeouts:
    initial_ms: int = 100
    """How long the first try waits for an answer."""
    max_ms: int = 30_000
    """The longest that any try does."""
    error_delay_ms: int = 10_000
    """The longest time after a try that could not be made."""
    give_up_ms: int | None = None
    """How long a worker may be registered nowhere; None: for ever."""


FLINKS_DEFAULTS = RegistrationTimeouts()


@dataclass(slots=True)
class RegistrationTries:
    """Tries of one registration: each is given twice the time of the one before it."""

    timeouts: RegistrationTimeouts = FLINKS_DEFAULTS
    _made: int = 0

    def begin(self) -> None:
        """Another registration: with another leader, or because the last one has gone stale."""
        self._made = 0

    def wait_ms(self) -> int:
        """How long to wait for an answer to the try that is made now."""
        self._made += 1
        return self._given_ms()

    def pause_ms(self) -> int:
        """How long to wait after a try that could not be made: as long as for its answer, and no longer than the error
        delay, for all of which Flink waits each time. A connection that has broken is mostly there again in a second.
        """
        return min(self._given_ms(), self.timeouts.error_delay_ms)

    def _given_ms(self) -> int:
        return int(ExponentialBackoff(self.timeouts.initial_ms, self.timeouts.max_ms).after(self._made))
