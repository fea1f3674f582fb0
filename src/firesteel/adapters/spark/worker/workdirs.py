"""Work directories of workers: whose each is, whether its owner lives, and what a dead one has left.

A worker locks a file of its directory for as long as it lives. The kernel gives the lock back however it dies, so that who
gets the lock of another worker on the same host knows that this one is dead, and that no third one clears up after it. Of
directories of other hosts nothing can be told that way: they are left alone.
"""

import os
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from firesteel.adapters.spark.jvm.launch import SECRETS_NAME
from firesteel.adapters.spark.staged.notes import SINKS, STAGED, noted_in
from firesteel.adapters.spark.streams.usednotes import delete_checkpoints, jobs_noted
from firesteel.adapters.storage.temporary import try_lock
from firesteel.model.ids import JobID
from firesteel.model.stored import UNREADABLE

LOCK = "worker.lock"
TEMPORARY = "firesteel-taskmanager-"
"""Beginning of the names of temporary ones."""
FORMER = "former"
"""Below a worker's directory: the logs of those whose directories it has cleared."""
FORMER_MAX = 5
"""Dead workers whose logs are kept."""
LOCK_TRIES, LOCK_PAUSE_SECONDS = 20, 0.05
NAMESAKES_MAX = 20
"""Directories of one name, with numbers, that other processes may have."""
PARTITIONS = "partitions"
"""Below a worker's directory: stored results, a directory a job."""
SCRATCH = ("attempts", "artifacts", "backends", "blobs", "derby", "local", "tmp", "warehouse")
"""Directories that are of no use without the process whose they are."""


class Owner(msgspec.Struct, frozen=True):
    """The worker that a directory belongs to."""

    worker: str
    host: str
    cluster: str
    """Name that tells its cluster from others: only its own master knows which of its jobs are over."""
    was_stopped: bool = False
    """Whether it has ended as it should: its logs stay where they are."""


class WorkDirectory:
    """A directory whose lock this process has. Its methods block."""

    def __init__(self, path: Path, owner: Owner, lock: int) -> None:
        self.path, self.owner = path, owner
        self._lock = lock

    def jobs(self) -> list[JobID]:
        """Jobs of which there is something that may still be needed."""
        stored = [path.name for path in (self.path / PARTITIONS).glob("*")]
        noted = [path.name.partition("-")[0] for path in (self.path / SINKS / STAGED).glob("*")]
        return [JobID(name) for name in dict.fromkeys((*stored, *noted, *jobs_noted(self.path)))]

    def staged(self, job_id: JobID) -> list[str]:
        """Locations that the job's attempts have noted."""
        notes = sorted((self.path / SINKS / STAGED).glob(f"{job_id}-*"))
        return [line for note in notes for line in noted_in(note)]

    def forget(self, job_id: JobID) -> None:
        """The job is over, and what it had staged is gone. Raises OSError when that is to be tried again."""
        delete_checkpoints(self.path, job_id)
        shutil.rmtree(self.path / PARTITIONS / job_id, ignore_errors=True)
        for note in (self.path / SINKS / STAGED).glob(f"{job_id}-*"):
            note.unlink(missing_ok=True)

    def clear_scratch(self) -> None:
        for name in SCRATCH:
            shutil.rmtree(self.path / name, ignore_errors=True)

    def bury(self, heir: Path) -> bool:
        """Remove what is left of it, but for its logs, which its heir keeps for a while. False when that is not done yet:
        processes that die with their worker may write for a moment longer."""
        logs = self.path / "logs"
        if self.owner.was_stopped:
            return self._leave_logs()
        if logs.is_dir() and any(logs.iterdir()):
            kept = heir / FORMER / self.path.name
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(logs, kept, dirs_exist_ok=True)
            _keep_newest(kept.parent)
        shutil.rmtree(self.path, ignore_errors=True)
        return not self.path.exists()

    def _leave_logs(self) -> bool:
        for path in self.path.iterdir():
            if path.is_dir() and path.name not in ("logs", FORMER):
                shutil.rmtree(path, ignore_errors=True)
        (self.path / LOCK).unlink(missing_ok=True)
        return True

    def stop(self) -> None:
        """This process, whose directory it is, ends as it should. What jobs may still need is left to others to clear."""
        if self.path.exists():
            (self.path / SECRETS_NAME).unlink(missing_ok=True)
            if self.jobs():
                stopped = msgspec.structs.replace(self.owner, was_stopped=True)
                os.ftruncate(self._lock, 0)
                os.pwrite(self._lock, msgspec.json.encode(stopped), 0)
            else:
                (self.path / LOCK).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Give the lock back. Idempotent."""
        lock, self._lock = self._lock, -1  # two threads that did the same would close somebody else's file
        if lock >= 0:
            os.close(lock)


def open_own(path: Path, worker: str, cluster: str) -> WorkDirectory:
    """Take a directory for this process, which is that worker: this one, or one of that name with a number where another
    process has it, as who clears up after a former worker of that name does. Raises OSError."""
    for number in range(NAMESAKES_MAX + 1):
        found = _open(path.with_name(f"{path.name}.{number}") if number else path, worker, cluster)
        if found is not None:
            return found
    raise FileExistsError(f"{path} and {NAMESAKES_MAX} more of that name belong to processes that live")


def _open(path: Path, worker: str, cluster: str) -> WorkDirectory | None:
    for _ in range(LOCK_TRIES):
        path.mkdir(parents=True, exist_ok=True)
        lock = try_lock(path / LOCK)
        if lock is not None:
            owner = Owner(worker, platform.node(), cluster)
            os.ftruncate(lock, 0)
            os.pwrite(lock, msgspec.json.encode(owner), 0)
            return WorkDirectory(path, owner, lock)
        time.sleep(LOCK_PAUSE_SECONDS)
    return None


def dead_ones(parent: Path, pattern: str) -> Iterator[WorkDirectory]:
    """Directories of workers of this host that are dead, locked: each is to be closed."""
    for file in sorted(parent.glob(f"{pattern}/{LOCK}")):
        owner = _owner(file)
        if owner is None or owner.host != platform.node() or file.stat().st_uid != os.getuid():
            continue
        lock = try_lock(file)
        if lock is not None:
            yield WorkDirectory(file.parent, owner, lock)


def of_other_hosts(parent: Path, pattern: str) -> list[tuple[Path, Owner]]:
    """Directories of which this host can't tell whether their workers live."""
    found = [(file.parent, _owner(file)) for file in sorted(parent.glob(f"{pattern}/{LOCK}"))]
    return [(path, owner) for path, owner in found if owner is not None and owner.host != platform.node()]


def _owner(file: Path) -> Owner | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Owner)
    except (OSError, *UNREADABLE):  # it is being made, or removed
        return None


def _keep_newest(directory: Path) -> None:
    kept = sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[FORMER_MAX:]:
        shutil.rmtree(path, ignore_errors=True)
