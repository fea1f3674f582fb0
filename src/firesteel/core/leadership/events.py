"""What happens to whoever contends for the leadership of a component, and what is to be done for it."""

from dataclasses import dataclass
from enum import Enum

from firesteel.core.effects import Effect, Event
from firesteel.model.ids import FencingToken


class SessionFailure(Enum):
    STORAGE = "STORAGE"
    """What is stored can't be read or written: nobody's mistake. A disk that is full is waited for."""
    STALE = "STALE"
    """Another leader has written since."""
    BUG = "BUG"
    """Ours."""


# ── events ───────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Began(Event):
    """It is to take part from now on."""


@dataclass(frozen=True, slots=True)
class SessionFailed(Event):
    """The service of this session did not come up, or is of no use any more."""

    failure: SessionFailure


@dataclass(frozen=True, slots=True)
class RetryDue(Event):
    """Answers RetryLater."""


@dataclass(frozen=True, slots=True)
class Retired(Event):
    """It is to take part no more."""


@dataclass(frozen=True, slots=True)
class Granted(Event):
    token: FencingToken


@dataclass(frozen=True, slots=True)
class Revoked(Event):
    pass


@dataclass(frozen=True, slots=True)
class ServiceStarted(Event):
    """Answers StartService."""

    token: FencingToken


@dataclass(frozen=True, slots=True)
class ServiceStopped(Event):
    """Answers StopService."""

    token: FencingToken


# ── effects ──────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Contend(Effect):
    """Take part in the election; answered by Granted, if ever."""


@dataclass(frozen=True, slots=True)
class Leave(Effect):
    """Let others lead."""


@dataclass(frozen=True, slots=True)
class RetryLater(Effect):
    """Answered by RetryDue."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp(Effect):
    """The component is lost: the last failure was one too many, or of a kind that does not pass."""


@dataclass(frozen=True, slots=True)
class StartService(Effect):
    token: FencingToken


@dataclass(frozen=True, slots=True)
class StopService(Effect):
    token: FencingToken


@dataclass(frozen=True, slots=True)
class ConfirmLeadership(Effect):
    """Publish that the service of this session can be reached."""

    token: FencingToken


ContenderEvent = Granted | Revoked | ServiceStarted | ServiceStopped
ContenderEffect = StartService | StopService | ConfirmLeadership
CandidateEvent = Began | SessionFailed | RetryDue | Retired | ContenderEvent
CandidateEffect = Contend | Leave | RetryLater | GiveUp | ContenderEffect
