"""What leads in a master's process: candidates for leadership, whose effects are carried out in simulated time."""

import itertools
from abc import ABC, abstractmethod
from functools import partial
from typing import assert_never

from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER, Effect
from firesteel.core.leadership import events as e
from firesteel.core.leadership.candidate import Candidacy, LeaderCandidate
from firesteel.core.leadership.grants import grants_from
from firesteel.core.machine import Core
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages import Leader
from firesteel.runtime.leadership import failure_of
from firesteel.testing.simulation.cores.settings import ClusterSettings
from firesteel.testing.simulation.cores.store import Store
from firesteel.testing.simulation.cores.world import SimulatedEndpoint, World


class Process:
    """A master's process. What is in it leads as long as the process does, as far as that knows."""

    def __init__(self, world: World, node: str, store: Store, epoch: int) -> None:
        self.world, self.node, self.store, self.epoch = world, node, store, epoch
        self.leads = False
        """Whether a component of it that does not lead may."""
        self._grants = itertools.count()

    def token(self) -> FencingToken:
        """A token newer than all of this process and of those that led before."""
        return FencingToken(grants_from(self.epoch) + next(self._grants), self.node)


class Runner(ABC):
    """What `runtime.leadership.LeaderRunner` is. Of a process that is dead it does nothing."""

    def __init__(self, process: Process, component: str, *, outlives_bugs: bool = True) -> None:
        self.world, self.process, self.component = process.world, process, component
        self.endpoint: SimulatedEndpoint | None = None
        self._candidate = LeaderCandidate(outlives_bugs=outlives_bugs)
        self._token: FencingToken | None = None
        self._error: Exception | None = None
        self._reason = ""

    def begin(self) -> None:
        """Take part."""
        self._tell(e.Began())

    def grant(self) -> None:
        """Lead, if it takes part."""
        if self._candidate.candidacy is Candidacy.STANDS:
            self._tell(e.Granted(self.process.token()))

    def revoke(self, reason: str) -> None:
        self._reason = reason
        self._tell(e.Revoked())

    def fail(self, error: Exception) -> None:
        """Its service did not come up, or is of no use any more."""
        self._error, self._reason = error, f"{type(error).__name__}: {error}"
        self._tell(e.SessionFailed(failure_of(error)))

    def retire(self, reason: str) -> None:
        self._reason = reason
        self._tell(e.Retired())

    def serves(self, token: FencingToken) -> bool:
        """Whether what was begun under a token is still wanted."""
        return self._token == token and not self.process.store.is_dead

    def _tell(self, event: e.CandidateEvent) -> None:
        if not self.process.store.is_dead:
            for effect in self._candidate.handle(event, self.world.now_ms):
                self._perform(effect)

    def _perform(self, effect: e.CandidateEffect) -> None:
        match effect:
            case e.Contend():
                if self._may_lead():
                    self.grant()
            case e.Leave():
                pass  # No other process waits in its place.
            case e.StartService(token=token):
                self._token = token
                self._serve(token)
            case e.StopService(token=token):
                self._token = None
                self._stop(self._reason)
                self._tell(e.ServiceStopped(token))
            case e.ConfirmLeadership(token=token):
                assert self.endpoint is not None, "only a service that is up is confirmed"
                self.world.publish(self.component, Leader(self.endpoint.core.address, token))
            case e.RetryLater(delay_ms=delay_ms):
                self.world.after(delay_ms, partial(self._tell, e.RetryDue()))
            case e.GiveUp():
                assert self._error is not None, "something has failed"
                self._lost(self._error)
            case _:
                assert_never(effect)

    def _may_lead(self) -> bool:
        return self.process.leads

    @abstractmethod
    def _serve(self, token: FencingToken) -> None:
        """Bring its service up, now or later: `_is_up`."""

    def _is_up(self, core: Core, follows: str = "") -> None:
        assert core.token is not None, "a leader has a token"
        self.endpoint = self.world.add(core, self.process.node, self._interpret)
        if follows:
            self.world.watch(self.endpoint, follows)
        self._tell(e.ServiceStarted(core.token))

    def _stop(self, reason: str) -> None:
        """End its service, if that is up."""
        endpoint, self.endpoint = self.endpoint, None
        if endpoint is not None and endpoint.alive:
            self.world.remove(endpoint.core.address, reason)

    def _lost(self, error: Exception) -> None:
        raise AssertionError(f"{self.process.node} has lost its {self.component}: {error}")

    def _interpret(self, endpoint: SimulatedEndpoint, effect: Effect) -> None:
        raise AssertionError(f"{endpoint.core.address} has no such effect: {effect}")


class ResourceManagerRunner(Runner):
    """Follows the Dispatcher beside it."""

    def __init__(self, process: Process, settings: ClusterSettings) -> None:
        super().__init__(process, RESOURCE_MANAGER)
        self._settings = settings.resource_manager

    def _serve(self, token: FencingToken) -> None:
        me = Leader(Address(f"{self.process.node}/resourcemanager"), token)
        self._is_up(ResourceManagerCore(self._settings, me), DISPATCHER)
