"""What leads: a master's process, and within it what a Dispatcher has started for a job."""

import itertools
from dataclasses import dataclass, field

from firesteel.core.dispatcher import requests as r
from firesteel.core.journal.groupcommit import GroupCommit
from firesteel.model.ids import Address, FencingToken, JobID
from firesteel.model.messages import Leader
from firesteel.testing.simulation.store import Store
from firesteel.testing.simulation.world import Endpoint

GRANT_BITS = 30
"""Of a token's epoch, for the grants within one leadership of a process."""


@dataclass(slots=True)
class Process:
    """A master's process, during one leadership."""

    node: str
    store: Store
    epoch: int
    grants: "itertools.count[int]" = field(default_factory=itertools.count)

    def token(self) -> FencingToken:
        """A token newer than all of this process and of those that led before."""
        return FencingToken((self.epoch << GRANT_BITS) + next(self.grants), self.node)


@dataclass(slots=True)
class Session:
    """A job that a Dispatcher has a JobMaster for: the one that runs, or that is to be started."""

    dispatcher: Endpoint
    start: r.StartJobMaster | r.ReleaseJob
    endpoint: Endpoint | None = None
    failures: int = 0
    commit: GroupCommit = field(default_factory=GroupCommit)

    @property
    def job_id(self) -> JobID:
        return self.start.job_id if isinstance(self.start, r.ReleaseJob) else self.start.graph.job_id


def leaders(process: Process, session: Session, token: FencingToken) -> tuple[Leader, Leader]:
    """What leads a job from now on, and the Dispatcher that has started it."""
    boss = session.dispatcher.core
    assert boss.token is not None, "a Dispatcher has a token"
    return Leader(Address(f"{process.node}/jobmaster/{session.job_id[:6]}"), token), Leader(boss.address, boss.token)
