"""Flink's leader is killed again and again, for the figures beside ours.

FIRESTEEL_FLINK_JARS names the directory with Flink's jars (`python -m tools.flink` prints one); without it,
FIRESTEEL_FLINK_SH says that the script's own are where it has put them. Two JobManagers with ZooKeeper at default
settings, one TaskManager, one job without an end.
"""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec

JARS, SCRIPT, PEER = "FIRESTEEL_FLINK_JARS", "FIRESTEEL_FLINK_SH", "FLINK_PEER"
KILLS, KILLS_QUICK = 3, 1
TASKS = 8
LIMIT_S, LOOK_S, SETTLED_S = 300.0, 0.05, 3.0
SOURCE = Path(__file__).parent / "flinkjobs" / "Endless.java"
MASTER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
WORKER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
LISTENS = re.compile(r"Rest endpoint listening at \S+?:(\d+)")

OPENED = "java.lang java.lang.reflect java.io java.net java.nio sun.nio.ch java.time java.text java.util"
OPENED_TOO = "java.util.concurrent java.util.concurrent.atomic java.util.concurrent.locks"
EXPORTED = ("java.base/sun.net.util", "java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5")
ACCESS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in f"{OPENED} {OPENED_TOO}".split()),
    *(f"--add-exports={package}=ALL-UNNAMED" for package in EXPORTED),
)
"""What Flink needs of Java 17."""

CONFIGURATION = """\
jobmanager.rpc.address: localhost
jobmanager.memory.process.size: 1600m
rest.address: localhost
rest.bind-port: "0"
high-availability.type: zookeeper
high-availability.zookeeper.quorum: {quorum}
high-availability.storageDir: {folder}/shared
restart-strategy.type: exponential-delay
io.tmp.dirs: {folder}/tmp
web.tmpdir: {folder}/web
taskmanager.numberOfTaskSlots: {tasks}
taskmanager.cpu.cores: 2.0
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.managed.size: 128m
taskmanager.memory.network.min: 128m
taskmanager.memory.network.max: 128m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
"""
"""Of high availability only where it is. The restart strategy is the default of jobs with checkpoints: without one, a
deployment that fails while the next leader finds its TaskManager ends the job. A TaskManager's memory has no defaults."""

LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = F
appender.file.name = F
appender.file.type = File
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %-5p %c - %m%n
"""


class Failovers(msgspec.Struct, frozen=True):
    """Of each kill: seconds to an answer of the next leader, and until the job was RUNNING with all its tasks."""

    answers: list[float]
    runs: list[float]
    tasks_begun_again: int


def flink_jars() -> Path | None:
    """None when there is no Flink to measure."""
    if named := os.environ.get(JARS):
        return Path(named)
    if os.environ.get(SCRIPT):
        return Path(os.environ.get(PEER) or Path.home() / ".cache" / "firesteel-peers" / "flink") / "pyflink" / "lib"
    return None


async def flink_failovers(jars: Path, folder: Path, quorum: str, kills: int) -> Failovers:
    """Kill the leader so often; the standby leads then, and what was killed is started again as its standby."""
    answers, runs = [], []
    flink, notes = Flink(jars, folder), folder / "notes"
    flink.configure(quorum)
    async with flink, httpx.AsyncClient(timeout=LIMIT_S) as http:
        leader = await flink.start_master("jobmanager0")
        await flink.start("taskmanager", WORKER)
        await _until(http, leader, "/overview", lambda found: found["slots-total"] == TASKS)
        job = await flink.submit(leader, notes)
        await _until_running(http, leader, job)
        for number in range(1, kills + 1):
            standby = await flink.start_master(f"jobmanager{number}")
            await _until(http, standby, "/overview", lambda found: found["slots-total"] == TASKS)
            await asyncio.sleep(SETTLED_S)
            begin = time.perf_counter()
            await flink.kill(leader)
            await _until(http, standby, "/overview", lambda found: True)
            answers.append(time.perf_counter() - begin)
            await _until_running(http, standby, job)
            runs.append(time.perf_counter() - begin)
            print(f"Flink, kill {number}: answered after {answers[-1]:.2f} s, runs after {runs[-1]:.2f} s", flush=True)
            leader = standby
    return Failovers(answers, runs, len(notes.read_text().splitlines()) - TASKS)


async def _until_running(http: httpx.AsyncClient, port: int, job: str) -> None:
    """Nobody else asks a REST endpoint for the job before it is here: it would keep what it has seen for a while."""

    def runs(found: dict[str, Any]) -> bool:
        tasks = [(vertex["tasks"]["RUNNING"], vertex["parallelism"]) for vertex in found["vertices"]]
        assert found["state"] not in ("FAILED", "CANCELED", "FINISHED"), f"Flink's job ended {found['state']}"
        return found["state"] == "RUNNING" and all(running == wanted for running, wanted in tasks)

    await _until(http, port, f"/jobs/{job}", runs)


async def _until(http: httpx.AsyncClient, port: int, path: str, holds: Callable[[dict[str, Any]], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await http.get(f"http://localhost:{port}{path}")
                if answer.status_code == httpx.codes.OK and holds(answer.json()):
                    return
            await asyncio.sleep(LOOK_S)


class Flink:
    """Its processes, which end with the context; everything is below `folder`."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._folder = folder
        self._class_path = f"{folder / 'classes'}:{jars}/*"
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        """Of masters, by the port of their REST endpoints."""
        self._ends = contextlib.AsyncExitStack()

    async def __aenter__(self) -> "Flink":
        await self._run("javac", "-cp", self._class_path, "-d", str(self._folder / "classes"), str(SOURCE))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._ends.aclose()

    def configure(self, quorum: str) -> None:
        for name in ("conf", "classes", "tmp", "web", "log"):
            (self._folder / name).mkdir(parents=True)
        settings = CONFIGURATION.format(quorum=quorum, folder=self._folder, tasks=TASKS)
        (self._folder / "conf" / "config.yaml").write_text(settings)
        (self._folder / "conf" / "log4j.properties").write_text(LOGGING)

    async def start_master(self, name: str) -> int:
        """The port of its REST endpoint."""
        process, log = await self.start(name, MASTER), self._folder / "log" / f"{name}.log"
        async with asyncio.timeout(LIMIT_S):
            while (found := LISTENS.search(log.read_text() if log.exists() else "")) is None:
                assert process.returncode is None, f"{name} of Flink has ended: {log}"
                await asyncio.sleep(LOOK_S)
        port = int(found[1])
        self._processes[port] = process
        return port

    async def start(self, name: str, main: str) -> asyncio.subprocess.Process:
        conf, log = self._folder / "conf", self._folder / "log"
        logging = (f"-Dlog.file={log / name}.log", f"-Dlog4j.configurationFile=file:{conf / 'log4j.properties'}")
        command = ("java", "-Xmx1g", *ACCESS, *logging, "-cp", self._class_path, main, "--configDir", str(conf))
        with open(log / f"{name}.out", "wb") as output:  # noqa: ASYNC230 - a local file, once per start
            process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
        self._ends.push_async_callback(_end, process)
        return process

    async def kill(self, port: int) -> None:
        await _end(self._processes[port])

    async def submit(self, port: int, notes: Path) -> str:
        """The id of an endless job, which the master at `port` runs."""
        arguments = ("Endless", str(port), str(TASKS), str(notes))
        return (await self._run("java", *ACCESS, "-cp", self._class_path, *arguments)).split()[-1]

    async def _run(self, *command: str) -> str:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        output, error = await process.communicate()
        assert process.returncode == 0, f"{command[0]} failed: {error.decode()}"
        return output.decode()


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
