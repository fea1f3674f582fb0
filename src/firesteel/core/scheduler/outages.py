"""A storage that does not answer: what needs it runs again until it does, whatever its retries and its restart strategy."""

from dataclasses import dataclass

import msgspec

from firesteel.core.scheduler.backoff import BackoffState, ExponentialDelay
from firesteel.model.ids import RegionIndex
from firesteel.model.options.jobs import JOB_COMMIT_TIMEOUT

RETRY_MS, RETRY_MAX_MS = 1_000, 15_000
"""Time before the first try again of what may pass, and before each after many failures; for commits, too."""

OUTAGES_MAX = 5
"""Outages in a row that a batch region is run again for and does not finish: it begins anew each time, and may be what brings
the storage down. A stream goes on where it was, for months."""

_MULTIPLIER, _JITTER, _RESTARTS_MAX = 2.0, 0.1, 1_000_000


class Outage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of one. Stored, so that the next leader waits no longer than this one would have."""

    since_ms: int
    """When the first attempt failed of it."""
    told: str
    """What was said of it last."""
    region: RegionIndex
    """What failed of it last: when that has finished, it is over."""
    backoff: BackoffState = BackoffState()
    number: int = 1
    """How many there were, this one included, since the last that was over."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer to a failure: a restart after this time, and what is remembered then."""

    delay_ms: int
    outage: Outage
    is_new_attempt: bool


@dataclass(frozen=True, slots=True)
class OutagePatience:
    """Restarts for `patience_ms`, with the pauses of commits that have to wait. An outage is over when what failed of it has
    finished, or something else has failed; one that comes so long after the last restart is another one."""

    patience_ms: int
    seed: str = ""
    """See ExponentialDelay."""
    is_stream: bool = False

    def notify_failure(self, known: Outage | None, told: str, region: RegionIndex, now_ms: int) -> Waiting | str:
        """`told` is what is said of it, for people. A text: it is not waited for (any more), and why; empty where nothing
        ever is."""
        if not self.patience_ms:
            return ""
        if known is None:
            known = Outage(since_ms=now_ms, told=told, region=region)
        elif now_ms - (known.backoff.due_ms or known.since_ms) >= self.patience_ms:
            known = Outage(since_ms=now_ms, told=told, region=region, number=known.number + 1)
        if now_ms - known.since_ms >= self.patience_ms:
            return f"it was waited for, for {self.patience_ms / 1000:g} s ({JOB_COMMIT_TIMEOUT.key})"
        if known.number > OUTAGES_MAX and not self.is_stream:
            return f"it was waited for in {OUTAGES_MAX} outages, and did not come to its end after any"
        pauses = ExponentialDelay(
            RETRY_MS, RETRY_MAX_MS, _MULTIPLIER, self.patience_ms, _JITTER, _RESTARTS_MAX, self.seed
        )
        answer = pauses.notify_failure(known.backoff, now_ms)
        assert answer.delay_ms is not None, "these restarts are limited by time"
        outage = msgspec.structs.replace(known, told=told, region=region, backoff=answer.state)
        return Waiting(answer.delay_ms, outage, answer.is_new_attempt)
