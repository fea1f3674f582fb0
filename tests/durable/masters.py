"""Masters and workers as real processes around one directory."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.runtime.client import NoLeader
from tests.network.processes import until

PATIENCE_S = 240.0
"""Of clients, on a machine that is busy with other things."""

STARTED = re.compile(r"started jobmanager at 127\.0\.0\.\d:(\d+), REST at http://127\.0\.0\.1:(\d+)")


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
        self.client = HttpClusterClient([f"http://127.0.0.1:{self.options['rest.port']}"], patience_s=PATIENCE_S)

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
        self.signal(signal.SIGKILL)
        await self.process.wait()

    async def until_it_leads(self) -> float:
        async def leads() -> bool:
            with contextlib.suppress(NoLeader, ConnectionError):
                await self.client.request_cluster_overview()
                return True
            return False

        return await until(leads)

    async def until_it_has_taken_over(self) -> None:
        """From a leader that does not move: what is handed on to that one meanwhile waits for it."""
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.options['rest.port']}", timeout=PATIENCE_S
        ) as http:

            async def leads() -> bool:
                return bool((await http.get("/v1/cluster/leader")).json().get("leads"))

            await until(leads)
        await self.until_it_leads()

    async def until_status(self, job_id: JobID, status: JobStatus) -> None:
        async def has_it() -> bool:
            return (await self.client.request_job(job_id)).status is status

        await until(has_it)

    async def until_logged(self, text: str) -> None:
        async def is_there() -> bool:
            return text in self.log.read_text()

        await until(is_there)

    async def run(self, graph: JobGraph) -> JobResult:
        return await self.client.request_job_result(await self.client.submit_job(graph, {}))


class Site:
    """A directory, the masters that share it, and workers with attempts that are files."""

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
        self.workers: list[asyncio.subprocess.Process] = []

    async def start_master(self, name: str, **options: str) -> Master:
        master = Master(self.directory, name, {**self.options, **options})
        self.masters.append(master)
        await master.start()
        return master

    async def start_worker(self, master: Master, name: str = "worker") -> None:
        """It is told of one master, and finds the others."""
        options = {**master.options, "taskmanager.resource-id": name, "cluster.work-dir": str(self.directory)}
        arguments = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        program = ("-m", "tests.network.fakeworker", str(self.directory))
        with open(self.directory / f"{name}.log", "ab") as log:
            worker = await asyncio.create_subprocess_exec(sys.executable, *program, *arguments, stdout=log, stderr=log)
        self.workers.append(worker)

    def hold(self, function: str) -> None:
        (self.directory / f"hold-{function}").touch()

    def release(self, function: str) -> None:
        (self.directory / f"hold-{function}").unlink()

    def begun(self) -> list[tuple[str, str]]:
        """Function and worker of each attempt that has begun."""
        file = self.directory / "attempts"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(function, worker) for function, worker in map(str.split, lines)]

    def attempts(self) -> list[str]:
        """The function of each attempt that has begun."""
        return [function for function, _ in self.begun()]

    async def until_attempts(self, *functions: str) -> None:
        async def are_there() -> bool:
            return self.attempts() == list(functions)

        await until(are_there)

    async def close(self) -> None:
        for master in self.masters:
            if master.process is not None and master.process.returncode is None:
                await master.kill()
        await self.kill_workers()

    async def kill_workers(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
            await worker.wait()


@contextlib.asynccontextmanager
async def site(directory: Path, **options: str) -> AsyncIterator[Site]:
    made = Site(directory, **options)
    try:
        yield made
    finally:
        await made.close()
