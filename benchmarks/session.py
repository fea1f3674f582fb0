"""A master and workers as processes of their own, for benchmarks: started, given jobs, looked at, ended."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import psutil

from benchmarks.report import ROOT
from benchmarks.restload import BareClient, Load, Measured
from firesteel.model.jobgraph import JobGraph

OVERVIEWS = 20
START_TIMEOUT_S, QUIET_TIMEOUT_S = 120.0, 60.0
QUIET_SHARE = 0.05
"""A worker's Spark starts beside it; nothing is measured before its JVM takes less of a core than this."""


class Cluster:
    """The processes."""

    def __init__(self, address: str, master: psutil.Process, workers: list[psutil.Process]) -> None:
        self.address, self.master, self.workers = address, master, workers

    def load(
        self,
        graph: JobGraph,
        clients: int,
        jobs: int,
        *,
        is_bare: bool = True,
        artifacts: Mapping[str, Path] | None = None,
    ) -> "Run":
        """Have a process of clients submit jobs; those with artifacts go through our own client."""
        files = {sha256: str(path) for sha256, path in (artifacts or {}).items()}
        load = Load(self.address, graph, clients, jobs, is_bare and not files, files)
        before = self._cpu_seconds()
        program = (sys.executable, "-m", "benchmarks.restload")
        ran = subprocess.run(program, input=msgspec.json.encode(load), stdout=subprocess.PIPE, cwd=ROOT, check=True)
        after = self._cpu_seconds()
        master_s, worker_s = (end - begin for begin, end in zip(before, after, strict=True))
        return Run(msgspec.json.decode(ran.stdout, type=Measured), master_s, worker_s)

    def overview_ms(self) -> tuple[list[float], float]:
        """Milliseconds of reading a line for every job, and of the master's processor for one such reading."""
        client, values = BareClient(self.address), []
        before_s, _ = self._cpu_seconds()
        for _ in range(OVERVIEWS):
            started = time.perf_counter()
            client.request(b"GET", b"/v1/jobs/overview")
            values.append((time.perf_counter() - started) * 1_000)
        client.close()
        return values, (self._cpu_seconds()[0] - before_s) * 1_000 / OVERVIEWS

    def memory_mib(self) -> float:
        """Resident memory of the master."""
        resident: int = self.master.memory_info().rss
        return resident / (1 << 20)

    def _cpu_seconds(self) -> tuple[float, float]:
        master, *workers = (process.cpu_times() for process in (self.master, *self.workers))
        return master.user + master.system, sum(worker.user + worker.system for worker in workers)


class Run(msgspec.Struct, frozen=True):
    """One process of clients, and what master and worker did for it."""

    clients: Measured
    master_cpu_s: float
    worker_cpu_s: float

    @property
    def jobs(self) -> int:
        return len(self.clients.milliseconds)

    @property
    def jobs_per_second(self) -> float:
        return self.jobs / self.clients.seconds

    def cpu_ms(self, seconds: float) -> float:
        """Milliseconds a job."""
        return seconds * 1_000 / self.jobs


@contextlib.contextmanager
def started(folder: Path, settings: Mapping[str, str], workers: int = 1) -> Iterator[Cluster]:
    """A master and workers on free ports, warm; their logs are in the folder."""
    defined = {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": "0",
        "rest.port": "0",
        "taskmanager.spark.warm-up": "false",
        "cluster.work-dir": str(folder / "work"),
        **settings,
    }
    with contextlib.ExitStack() as processes:
        master = processes.enter_context(_process(folder, "jobmanager", "jobmanager", defined))
        words = _first_line(master).split()
        defined["jobmanager.rpc.port"] = words[3].rstrip(",").rpartition(":")[2]
        begun = [
            processes.enter_context(_process(folder, "taskmanager", f"taskmanager-{number}", defined))
            for number in range(workers)
        ]
        for worker in begun:
            _first_line(worker)
        cluster = Cluster(words[-1], psutil.Process(master.pid), [psutil.Process(worker.pid) for worker in begun])
        for each in cluster.workers:
            _settle(each)
        yield cluster


@contextlib.contextmanager
def _process(folder: Path, command: str, name: str, settings: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    defined = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
    program = (sys.executable, "-m", "firesteel", command, *defined)
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=log, cwd=folder, env=os.environ)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(START_TIMEOUT_S)


def _first_line(process: subprocess.Popen[bytes]) -> str:
    """Like `started jobmanager at 127.0.0.1:6123, REST at http://127.0.0.1:8081`."""
    assert process.stdout is not None, "it is piped"
    line = process.stdout.readline().decode()
    if not line:
        raise RuntimeError(f"it did not start: {process.args!r}")
    return line


def _settle(worker: psutil.Process) -> None:
    """Wait until what the worker has started beside itself is idle."""
    until_s = time.monotonic() + QUIET_TIMEOUT_S
    quiet = 0
    while quiet < 3 and time.monotonic() < until_s:
        before = _cpu_of_children(worker)
        time.sleep(1.0)
        quiet = quiet + 1 if _cpu_of_children(worker) - before < QUIET_SHARE and before else 0


def _cpu_of_children(worker: psutil.Process) -> float:
    total = 0.0
    for child in worker.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            total += times.user + times.system
    return total
