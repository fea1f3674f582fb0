"""Real worker processes around a master in this one."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from firesteel.assembly.jobmanager import JobManager
from firesteel.model.options import Configuration
from firesteel.model.views import ClusterOverview
from tests.processes import in_own_file_systems

LIMIT_S = 300.0
"""Nothing here takes that long, but on a machine that is busy with other things."""


_ALONE = 'mount -t tmpfs none "$0" && mkdir "$0/tmp" && echo "$1" > "$0/name" && shift && TMPDIR="$0/tmp" exec "$@"'


def on_own_host(directory: Path, name: str) -> tuple[str, ...]:
    """Before a command: what is in the directory is its own, as on a host of that name. Skips the test without root."""
    return in_own_file_systems(_ALONE, str(directory), name)


class Cluster:
    """A master here, and workers with attempts that are files below `directory`."""

    def __init__(self, directory: Path, options: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.options = {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": "0",
            "rest.port": "0",
            "cluster.work-dir": str(directory / "work"),
            **(options or {}),
        }
        self.workers: list[asyncio.subprocess.Process] = []
        (directory / "work").mkdir(exist_ok=True)

    async def start_master(self) -> None:
        """Start it, or another one on the same port."""
        self.master = JobManager(Configuration(self.options))
        await self.master.start()
        self.options["jobmanager.rpc.port"] = str(self.master.port)
        self.client = self.master.client

    async def start_worker(
        self, name: str, *command: str, within: Sequence[str] = (), **options: str
    ) -> asyncio.subprocess.Process:
        """By default one whose attempts are files. `within`: a command that runs what follows it."""
        defined = {**self.options, "taskmanager.resource-id": name, **options}
        program = command or ("-m", "tests.network.fakeworker", str(self.directory))
        arguments = [part for key, value in defined.items() for part in ("-D", f"{key}={value}")]
        with open(self.directory / f"{name}.log", "ab") as log:
            worker = await asyncio.create_subprocess_exec(
                *within, sys.executable, *program, *arguments, stdout=log, stderr=log, start_new_session=True
            )
        self.workers.append(worker)
        return worker

    def hold(self, function: str) -> None:
        (self.directory / f"hold-{function}").touch()

    def release(self, function: str) -> None:
        (self.directory / f"hold-{function}").unlink()

    def attempts(self) -> list[str]:
        """`function worker` of each attempt that has begun."""
        file = self.directory / "attempts"
        return file.read_text().splitlines() if file.exists() else []

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    async def until_slots(self, total: int) -> float:
        """Wait until the master has that many; returns how long that took, in seconds."""

        async def holds() -> bool:
            return (await self.overview()).slots_total == total

        return await until(holds)

    async def overview(self) -> ClusterOverview:
        return await self.client.request_cluster_overview()

    async def close(self) -> None:
        for worker in self.workers:
            if worker.returncode is None:
                with contextlib.suppress(ProcessLookupError):  # it has ended, and that was not told yet
                    os.killpg(worker.pid, signal.SIGKILL)
            await worker.wait()
        await self.master.stop()


async def until(holds: Callable[[], Awaitable[bool]]) -> float:
    """Look again and again, for a limited time; returns how long it took, in seconds."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with asyncio.timeout(LIMIT_S):
        while not await holds():
            await asyncio.sleep(0.01)
    return loop.time() - begin


@contextlib.asynccontextmanager
async def cluster(directory: Path, options: Mapping[str, str] | None = None) -> AsyncIterator[Cluster]:
    made = Cluster(directory, options)
    await made.start_master()
    try:
        yield made
    finally:
        await made.close()
