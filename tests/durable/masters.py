"""Masters and workers as real processes around one directory."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.runtime.client import NoLeader
from tests.network.processes import until

STARTED = re.compile(r"started jobmanager at 127\.0\.0\.1:(\d+), REST at http://127\.0\.0\.1:(\d+)")


class Master:
    """A master process, which may be started again at the same ports."""

    def __init__(self, directory: Path, name: str, options: dict[str, str]) -> None:
        self.log = directory / f"{name}.log"
        self.options = {**options, "jobmanager.rpc.port": "0", "rest.port": "0"}
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        arguments = [part for key, value in self.options.items() for part in ("-D", f"{key}={value}")]
        begin = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "firesteel", "jobmanager", *arguments, stdout=log, stderr=log
            )

        async def is_up() -> bool:
            assert self.process is not None
            assert self.process.returncode is None, self.log.read_text()
            found = STARTED.search(self.log.read_text(), begin)
            if found is not None:
                self.options |= {"jobmanager.rpc.port": found[1], "rest.port": found[2]}
            return found is not None

        await until(is_up)
        self.client = HttpClusterClient([f"http://127.0.0.1:{self.options['rest.port']}"])

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def stop(self) -> None:
        """As it is told to."""
        assert self.process is not None
        await self.client.close()
        self.signal(signal.SIGTERM)
        assert await self.process.wait() == 0

    async def kill(self) -> None:
        """As a power cut would, but for what the operating system has."""
        assert self.process is not None
        await self.client.close()
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        await self.process.wait()

    async def until_it_leads(self) -> float:
        async def leads() -> bool:
            with contextlib.suppress(NoLeader, ConnectionError):
                await self.client.request_cluster_overview()
                return True
            return False

        return await until(leads)

    async def until_status(self, job_id: JobID, status: JobStatus) -> None:
        async def has_it() -> bool:
            return (await self.client.request_job(job_id)).status is status

        await until(has_it)

    async def run(self, graph: JobGraph) -> JobResult:
        return await self.client.request_job_result(await self.client.submit_job(graph, {}))


class Site:
    """A directory, the masters that share it, and a worker with attempts that are files."""

    def __init__(self, directory: Path, **options: str) -> None:
        self.directory = directory
        self.options = {
            "jobmanager.rpc.address": "127.0.0.1",
            "high-availability.type": "filesystem",
            "high-availability.storageDir": str(directory / "shared"),
            "high-availability.leader-election.retry-period": "100 ms",
            **options,
        }
        self.masters: list[Master] = []
        self.worker: asyncio.subprocess.Process | None = None

    async def start_master(self, name: str, **options: str) -> Master:
        master = Master(self.directory, name, {**self.options, **options})
        self.masters.append(master)
        await master.start()
        return master

    async def start_worker(self, master: Master) -> None:
        """It is told of one master, and finds the others."""
        options = {**master.options, "taskmanager.resource-id": "worker", "cluster.work-dir": str(self.directory)}
        arguments = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        with open(self.directory / "worker.log", "ab") as log:
            self.worker = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.network.fakeworker",
                str(self.directory),
                *arguments,
                stdout=log,
                stderr=log,
            )

    def hold(self, function: str) -> None:
        (self.directory / f"hold-{function}").touch()

    def release(self, function: str) -> None:
        (self.directory / f"hold-{function}").unlink()

    def attempts(self) -> list[str]:
        """The function of each attempt that has begun."""
        file = self.directory / "attempts"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []

    async def until_attempts(self, *functions: str) -> None:
        async def are_there() -> bool:
            return self.attempts() == list(functions)

        await until(are_there)

    async def close(self) -> None:
        for master in self.masters:
            if master.process is not None and master.process.returncode is None:
                await master.kill()
        await self.kill_worker()

    async def kill_worker(self) -> None:
        if self.worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.worker.pid, signal.SIGKILL)
            await self.worker.wait()


@contextlib.asynccontextmanager
async def site(directory: Path, **options: str) -> AsyncIterator[Site]:
    made = Site(directory, **options)
    try:
        yield made
    finally:
        await made.close()
