"""High-availability services, as `high-availability.type` says: who leads, and where jobs are kept."""

import asyncio
import contextlib
import importlib
import platform
import re
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from firesteel.adapters.ha.election import RegisterElection
from firesteel.adapters.ha.embedded import EmbeddedLeaderElection, InMemoryJobStore
from firesteel.adapters.ha.filesystem import FileJobStore
from firesteel.adapters.ha.joblog import JobLog
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.assembly.storage import Storage, configured_storage
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
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


def leader_register(config: Configuration) -> LeaderRegister | None:
    """The register that `high-availability.type` names, to be opened; None with `none`. Raises ConfigurationError."""
    kind = config.get_option(options.HA_TYPE)
    if kind == "none":
        return None
    if kind == "filesystem":
        storage = configured_storage(config)
        assert storage is not None, "only with `none` there is no storage"
        return storage.register()
    if kind == "zookeeper":
        return _zookeeper(config)
    return _own_register(kind, config)


def lease_ms(config: Configuration) -> int:
    """Time without a sign of life for which a leader still counts as one."""
    of_session = config.get_option(options.HA_TYPE) == "zookeeper"
    return int(config.get_option(options.ZOOKEEPER_SESSION_TIMEOUT if of_session else options.HA_LEASE_DURATION))


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
    shared = RegisterElection(
        register,
        name,
        clock,
        network=network,
        lease_ms=lease_ms(config),
        retry_ms=config.get_option(options.HA_RETRY_PERIOD),
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


def _zookeeper(config: Configuration) -> LeaderRegister:
    quorum, root = config.get_option(options.ZOOKEEPER_QUORUM), config.get_option(options.ZOOKEEPER_ROOT)
    if not quorum:
        raise ConfigurationError(f"{options.HA_TYPE.key} is zookeeper: set {options.ZOOKEEPER_QUORUM.key} too")
    if not re.fullmatch(r"(/[^/]+)+", root):
        raise ConfigurationError(f"{options.ZOOKEEPER_ROOT.key}: {root!r} is not the path of a node, like /firesteel")
    from firesteel.adapters.ha.zookeeper import ZooKeeperRegister  # kazoo is for those who use it

    return ZooKeeperRegister(
        quorum,
        f"{root}/{config.get_option(options.CLUSTER_ID)}",
        session_timeout_s=config.get_option(options.ZOOKEEPER_SESSION_TIMEOUT) / 1000,
        connection_timeout_s=config.get_option(options.ZOOKEEPER_CONNECTION_TIMEOUT) / 1000,
    )


def _own_register(kind: str, config: Configuration) -> LeaderRegister:
    """An instance of the user's class `module:Class`, made with the configuration. Raises ConfigurationError."""
    module, _, name = kind.partition(":")
    what = f"{options.HA_TYPE.key}: {kind!r}"
    if not name:
        raise ConfigurationError(f"{what} is none of none, filesystem, zookeeper, nor module:Class of a register")
    try:
        made: LeaderRegister = getattr(importlib.import_module(module), name)(config)
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigurationError(f"{what} can't be made: {error}") from None
    missing = [each for each in REGISTER_METHODS if not callable(getattr(made, each, None))]
    if missing:
        raise ConfigurationError(f"{what} lacks {', '.join(missing)} of firesteel.runtime.register.LeaderRegister")
    return made


REGISTER_METHODS = ("open", "close", "newest", "claim", "touch", "give_up", "changed")
