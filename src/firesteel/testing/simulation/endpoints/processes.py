"""A master and a worker as processes of their own on simulated ground: the real endpoints, election, log and assembly."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from firesteel.adapters.blob.local import BlobMissing
from firesteel.adapters.blob.outputs import Outputs, OutputStore
from firesteel.adapters.blob.uploads import BlobUploads
from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.embedded import EmbeddedLeaderElection
from firesteel.adapters.ha.filesystem import FileJobStore
from firesteel.adapters.ha.jobarchive import MemoryJobArchive
from firesteel.adapters.ha.joblog import JobLog
from firesteel.adapters.history.archive import NoHistory
from firesteel.adapters.inspection.desk import WorkerDesk
from firesteel.assembly.client import MasterClient
from firesteel.assembly.master import Master
from firesteel.assembly.worker import Worker
from firesteel.core.leadership.grants import grants_from, leadership_of
from firesteel.model.ids import Address, ResourceID
from firesteel.model.options import Configuration
from firesteel.runtime.client import NoLeader
from firesteel.runtime.retrieval import ANNOUNCER, LeaderAnnouncer, RemoteLeaders
from firesteel.testing.backend import FakeTaskBackend, TaskScript
from firesteel.testing.power import FakeSystem
from firesteel.testing.simulation.endpoints.loop import Process, SimulatedLoop
from firesteel.testing.simulation.endpoints.transport import SimulatedNetwork

LEADER_WAIT_S = 5.0
"""How long a master lets a client wait while nobody leads."""


@dataclass(slots=True)
class Blobs:
    """A blob store that all masters share, of names only."""

    names: dict[str, None] = field(default_factory=dict)
    outputs: Outputs = field(default_factory=lambda: OutputStore(Path("/nowhere")))
    """Output of scripts, which no job here is."""

    def put_before(self, moment_ms: int) -> list[str]:
        """What is left over is to be found at the end, not cleared away."""
        return []

    def free_bytes(self) -> int:
        return 1 << 40

    def used_bytes(self) -> int:
        return 0

    def put(self, source: Path, sha256: str | None = None) -> str:
        assert sha256 is not None, "clients know what they send"
        self.names[sha256] = None
        return sha256

    def path(self, sha256: str) -> Path:
        raise BlobMissing(sha256)

    def delete(self, sha256: str) -> None:
        self.names.pop(sha256, None)


@dataclass(slots=True)
class Ground:
    """What all processes stand on."""

    loop: SimulatedLoop
    network: SimulatedNetwork
    system: FakeSystem
    config: Configuration
    script: TaskScript
    failed: Callable[[str], None]
    """Told what must not happen."""
    blobs: Blobs = field(default_factory=Blobs)


class MasterProcess:
    """A master that leads once it is told so. `stop` ends it in order, `crash` at once."""

    def __init__(self, ground: Ground, name: str) -> None:
        self.name, self._ground = name, ground
        self.process = Process(name)
        self.rpc = ground.network.join(self.process)
        self.election = EmbeddedLeaderElection(name, is_open=False)
        log = JobLog(Disk(Path("/disk"), ground.system), history_size=16, snapshot_records=20)
        self.certain = asyncio.Event()
        """Cleared while the process does not know whether it still leads."""
        self.certain.set()
        self.store = FileJobStore(log, self.certain)
        self.uploads = BlobUploads(ground.blobs)
        self.master = Master(
            ground.config,
            rpc=self.rpc,
            clock=ground.loop,
            election=self.election,
            store=self.store,
            archive=MemoryJobArchive(),
            history=NoHistory(),
            announce_status=lambda change: None,
            uploads=self.uploads,
            on_lost=lambda component, error: ground.failed(f"{name} has lost its {component}: {error!r}"),
        )
        self.announcer = LeaderAnnouncer(self.rpc, self.election)
        self.client = MasterClient(self.master, leader_wait_s=LEADER_WAIT_S)

    def start(self) -> None:
        self.soon(self.master.start)
        self.soon(self.announcer.start)

    def lead(self, epoch: int) -> None:
        """From now on. Who has led before and not noticed that it was deposed does so first."""
        self.depose()
        self.soon(lambda: self.election.open(grants_from(epoch)))

    def leads_in(self, epoch: int) -> bool:
        """Whether its Dispatcher is up, and of that leadership."""
        try:
            return leadership_of(self.master.dispatcher().leader.token) == epoch
        except NoLeader:
            return False

    def depose(self) -> None:
        """It leads no more. What waits to be certain of that is of no use any more."""
        self.soon(self.election.close)
        self.soon(self.certain.set)

    def crash(self) -> None:
        self.process.is_dead = True
        self._ground.network.leave(self.process)

    async def stop(self) -> None:
        await self.master.stop()
        self.announcer.stop()
        self.election.close()
        await self.store.close()

    def left(self) -> list[str]:
        """What is there after a stop, and should not."""
        return [*map(str, self.rpc.mailboxes), *self.election._contenders, *self.election._listeners]

    def soon(self, action: Callable[[], object]) -> None:
        """Do it within the process."""
        self._ground.loop.call_soon(action, context=self.process.context.copy())


class WorkerProcess:
    """A worker that turns to the master it is told of."""

    def __init__(self, ground: Ground, name: str, leader: str) -> None:
        self.name, self._ground = name, ground
        self.process = Process(name)
        self.rpc = ground.network.join(self.process)
        self.leaders = RemoteLeaders(self.rpc, name, announcer_of(leader))
        self.backend = FakeTaskBackend(ground.script, Path(name))
        self._make: Callable[[], Worker] = lambda: Worker(
            ResourceID(name),
            ground.config,
            rpc=self.rpc,
            clock=ground.loop,
            leaders=self.leaders,
            backend=self.backend,
            desk=WorkerDesk(Path(name), self.backend, ground.blobs),  # type: ignore[arg-type]  # nobody inquires here
            on_broken=lambda error: ground.failed(f"{name} broke: {error!r}"),
        )
        self.worker: Worker | None = None

    async def start(self) -> None:
        self.worker = self._make()
        self.leaders.start()
        await self.worker.start()

    def ask_at(self, leader: str) -> None:
        self._ground.loop.call_soon(
            lambda: self.leaders.ask_at(announcer_of(leader)), context=self.process.context.copy()
        )

    def crash(self) -> None:
        self.process.is_dead = True
        self._ground.network.leave(self.process)

    async def stop(self) -> None:
        if self.worker is not None:
            await self.worker.end("it is stopped")
        self.leaders.stop()

    def left(self) -> list[str]:
        """What is there after a stop, and should not."""
        return [*map(str, self.rpc.mailboxes), *self.leaders._listeners]


def announcer_of(master: str) -> Address:
    return Address(f"{master}/{ANNOUNCER}")
