"""Who leads, and where jobs are kept, as `high-availability.type` says."""

import asyncio
import contextlib
import platform
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.election import FileLeaderElection
from firesteel.adapters.ha.embedded import EmbeddedLeaderElection, InMemoryJobStore
from firesteel.adapters.ha.filesystem import FileJobStore
from firesteel.adapters.ha.joblog import JobLog
from firesteel.adapters.ha.register import LeaderRecord, LeaderRegister
from firesteel.adapters.storage.durability import sync
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.services import Clock, JobStore, LeaderElection

SNAPSHOT_RECORDS = 10_000
"""Records that are written between two snapshots of the jobs, at least."""


@dataclass(frozen=True, slots=True)
class HighAvailability:
    election: LeaderElection
    store: JobStore


def storage_directory(config: Configuration) -> Path | None:
    """Where the cluster keeps what outlives its masters; None when nothing does. Raises ConfigurationError."""
    if config.get_option(options.HA_TYPE) == "none":
        return None
    where, cluster_id = config.get_option(options.HA_STORAGE_DIR), config.get_option(options.CLUSTER_ID)
    parts = urlsplit(where)
    if parts.scheme not in ("", "file") or parts.netloc or not parts.path.startswith("/"):
        raise ConfigurationError(
            f"{options.HA_STORAGE_DIR.key}: {where!r} is not the absolute path of a directory that all masters share"
        )
    if re.fullmatch(r"[\w.-]*\w[\w.-]*", cluster_id) is None:
        raise ConfigurationError(f"{options.CLUSTER_ID.key}: {cluster_id!r} can't be the name of a directory")
    return Path(unquote(parts.path) if parts.scheme else where) / cluster_id


def leader_register(storage: Path) -> LeaderRegister:
    return LeaderRegister(Disk(storage / "leader"))


async def open_high_availability(
    config: Configuration, clock: Clock, listens_at: tuple[str, int], ends: contextlib.AsyncExitStack
) -> HighAvailability:
    """For a master that listens there. Raises OSError when the storage can't be used."""
    host, port = listens_at
    storage = storage_directory(config)
    if storage is None:
        # The time as an epoch: workers tell a master that was started anew from the one before.
        election = EmbeddedLeaderElection(f"{host}:{port}", epoch=clock.now_ms())
        return HighAvailability(election, InMemoryJobStore(config.get_option(options.EXCEPTION_HISTORY_SIZE)))
    await asyncio.to_thread(_prepare, storage)
    log = JobLog(
        Disk(storage / "jobs"),
        history_size=config.get_option(options.EXCEPTION_HISTORY_SIZE),
        snapshot_records=SNAPSHOT_RECORDS,
    )
    store = FileJobStore(log)
    ends.push_async_callback(store.close)
    name = f"{host}:{port}/{uuid.uuid4().hex[:8]}"
    shared = FileLeaderElection(
        leader_register(storage),
        LeaderRecord(name=name, node=platform.node(), host=host, port=port),
        clock,
        lease_ms=config.get_option(options.HA_LEASE_DURATION),
        retry_ms=config.get_option(options.HA_RETRY_PERIOD),
    )
    ends.push_async_callback(shared.close)
    await shared.start()
    return HighAvailability(shared, store)


def _prepare(storage: Path) -> None:
    """The directories, on a file system that can do what is needed."""
    for name in ("jobs", "leader"):
        (storage / name).mkdir(parents=True, exist_ok=True)
        Disk(storage / name).check()
    for directory in (storage, storage.parent, storage.parent.parent):
        sync(directory)
