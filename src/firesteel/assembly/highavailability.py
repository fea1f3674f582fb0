"""High-availability services, as `high-availability.type` says: who leads, and where jobs are kept."""

import asyncio
import contextlib
import platform
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from firesteel.adapters.ha.election import RegisterElection
from firesteel.adapters.ha.embedded import EmbeddedLeaderElection, InMemoryJobStore
from firesteel.adapters.ha.filesystem import FileJobStore
from firesteel.adapters.ha.joblog import JobLog
from firesteel.adapters.ha.registers import election_times
from firesteel.adapters.ha.storage import Storage
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.model import options
from firesteel.model.options import Configuration
from firesteel.runtime.register import LeaderRecord, LeaderRegister
from firesteel.runtime.services import Clock, JobStore, LeaderElection

SNAPSHOT_RECORDS = 10_000
"""Records that are written between two snapshots of the jobs, at least."""


@dataclass(frozen=True, slots=True)
class HighAvailability:
    election: LeaderElection
    store: JobStore
    shared: RegisterElection | None = None
    """The election, when other processes take part in it."""
    begin: Callable[[str], Awaitable[None]] = lambda rest: asyncio.sleep(0)
    """Take part, as the master whose REST endpoint has that URL."""


@contextlib.contextmanager
def storage_named(config: Configuration) -> Iterator[None]:
    """Raise what is wrong with the storage in the body as an OSError that says which option names it."""
    try:
        yield
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        where = f"{options.HA_STORAGE_DIR.key} {config.get_option(options.HA_STORAGE_DIR)}"
        raise OSError(f"{where} can't be used: {what}") from error


async def open_high_availability(
    config: Configuration,
    clock: Clock,
    *,
    listens_at: tuple[str, int],
    network: NetworkSettings,
    storage: Storage | None,
    register: LeaderRegister | None,
    ends: contextlib.AsyncExitStack,
    on_over: Callable[[], None] = lambda: None,
) -> HighAvailability:
    """For a master that listens there; a leader that ends the cluster calls `on_over`. Raises OSError when the storage can't be used."""
    host, port = listens_at
    if storage is None or register is None:
        # The time as an epoch: workers tell a master that was started anew from the one before.
        election = EmbeddedLeaderElection(f"{host}:{port}", epoch=clock.now_ms())
        return HighAvailability(election, InMemoryJobStore(config.get_option(options.EXCEPTION_HISTORY_SIZE)))
    with storage_named(config):
        await asyncio.to_thread(storage.prepare)
        if config.get_option(options.HA_TYPE) == "filesystem":
            await register.open()
    if config.get_option(options.HA_TYPE) != "filesystem":
        await register.open()
    ends.push_async_callback(register.close)
    name = f"{host}:{port}/{uuid.uuid4().hex[:8]}"
    times = election_times(config)
    shared = RegisterElection(
        register,
        name,
        clock,
        network=network,
        lease_ms=times.lease_ms,
        retry_ms=times.retry_ms,
        renew_deadline_ms=times.renew_deadline_ms,
        on_over=on_over,
    )
    log = JobLog(
        storage.jobs(),
        history_size=config.get_option(options.EXCEPTION_HISTORY_SIZE),
        snapshot_records=SNAPSHOT_RECORDS,
    )
    store = FileJobStore(log, shared.certain)
    ends.push_async_callback(store.close)
    ends.push_async_callback(shared.close)

    async def begin(rest: str) -> None:
        await shared.start(LeaderRecord(name=name, node=platform.node(), host=host, port=port, rest=rest))

    return HighAvailability(shared, store, shared, begin)
