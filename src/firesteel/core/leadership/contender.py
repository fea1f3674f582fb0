"""A contender for the leadership of one component: one service a grant, the next after the last is gone."""

from enum import Enum
from typing import assert_never

from firesteel.core.leadership import events as e
from firesteel.core.machine import TransitionTable
from firesteel.model.ids import FencingToken


class ContenderState(Enum):
    WAITING = "WAITING"
    """Others may lead."""
    STARTING = "STARTING"
    """Leadership was granted; the service of this session is coming up."""
    LEADING = "LEADING"
    """The service is up and its address is published."""
    STOPPING = "STOPPING"
    """Leadership was revoked; the service is going down."""


CONTENDER_TRANSITIONS = TransitionTable[ContenderState](
    {
        (ContenderState.WAITING, ContenderState.STARTING): "leadership was granted",
        (ContenderState.STARTING, ContenderState.LEADING): "the service is up: its address may be published",
        (ContenderState.STARTING, ContenderState.STOPPING): "leadership was revoked while the service came up",
        (ContenderState.LEADING, ContenderState.STOPPING): "leadership was revoked, or granted anew",
        (ContenderState.STOPPING, ContenderState.WAITING): "the service is gone",
    }
)


class LeaderContender:
    """Services of two sessions never overlap; answers that belong to another session do nothing."""

    def __init__(self) -> None:
        self.state = ContenderState.WAITING
        self._token: FencingToken | None = None
        self._next: FencingToken | None = None

    def handle(self, event: e.ContenderEvent) -> list[e.ContenderEffect]:
        """The one door."""
        match event:
            case e.Granted():
                self._next = event.token
                return self._go_on()
            case e.Revoked():
                self._next = None
                return self._stop()
            case e.ServiceStarted():
                return self._started(event.token)
            case e.ServiceStopped():
                return self._stopped(event.token)
            case _:
                assert_never(event)

    def _started(self, token: FencingToken) -> list[e.ContenderEffect]:
        if token != self._token or self.state is not ContenderState.STARTING:
            return []
        self._move(ContenderState.LEADING)
        return [e.ConfirmLeadership(token)]

    def _stopped(self, token: FencingToken) -> list[e.ContenderEffect]:
        if token != self._token or self.state is not ContenderState.STOPPING:
            return []
        self._move(ContenderState.WAITING)
        self._token = None
        return self._go_on()

    def _go_on(self) -> list[e.ContenderEffect]:
        if self._next is None:
            return []
        if self.state is not ContenderState.WAITING:
            return [] if self._token == self._next else self._stop()
        self._token, self._next = self._next, None
        self._move(ContenderState.STARTING)
        return [e.StartService(self._token)]

    def _stop(self) -> list[e.ContenderEffect]:
        if self.state not in (ContenderState.STARTING, ContenderState.LEADING):
            return []
        assert self._token is not None, "a service has a session"
        self._move(ContenderState.STOPPING)
        return [e.StopService(self._token)]

    def _move(self, target: ContenderState) -> None:
        CONTENDER_TRANSITIONS.check(self.state, target, "contender")
        self.state = target
