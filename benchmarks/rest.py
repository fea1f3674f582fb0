"""Built-in no-ops through a real master and a real worker, over REST: what the control plane alone costs.

`firesteel jobmanager` and `firesteel taskmanager` are processes of their own, and so are the clients. Wall time says
little on a machine that does other things too; processor time of each process is what a job costs.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from benchmarks.report import ROOT, Report, Series, Verdict
from benchmarks.restload import BareClient, Load, Measured
from benchmarks.tasks import no_ops
from firesteel.model.jobgraph import JobGraph

SLOTS, CLIENTS = 32, 16
"""A job gives its slot back after its result is told: twice as many slots as clients are never what is waited for."""
JOBS_ALONE, JOBS_TOGETHER, WARM_UP_JOBS = 200, 960, 320
"""Jobs of a round, by one client and by CLIENTS of them."""
OVERVIEW_JOBS, OVERVIEWS = 10_000, 20
P50_MS_MAX, P99_MS_MAX, JOBS_PER_SECOND_MIN, OVERVIEW_MS_MAX = 15, 300, 300, 50
MASTER_MIB_MAX = 200
START_TIMEOUT_S, QUIET_TIMEOUT_S = 120.0, 60.0
QUIET_SHARE = 0.05
"""The worker's Spark starts beside it; nothing is measured before its JVM takes less of a core than this."""


class Cluster:
    """The two processes."""

    def __init__(self, address: str, master: psutil.Process, worker: psutil.Process) -> None:
        self.address, self.master, self.worker = address, master, worker

    def load(self, graph: JobGraph, clients: int, jobs: int, *, is_bare: bool = True) -> "Run":
        """Have a process of clients submit jobs."""
        load = Load(self.address, graph, clients, jobs, is_bare)
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
        master, worker = self.master.cpu_times(), self.worker.cpu_times()
        return master.user + master.system, worker.user + worker.system


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


def measure(rounds: int) -> Report:
    """Milliseconds of a job, jobs a second, processor time of each process a job, overviews, memory."""
    own: list[Run] = []
    alone: list[Run] = []
    together: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        graph = no_ops(Path(scratch), 1).graph
        with started(Path(scratch)) as cluster:
            cluster.load(graph, CLIENTS, WARM_UP_JOBS)
            for _ in range(rounds):
                own.append(cluster.load(graph, 1, JOBS_ALONE, is_bare=False))
                alone.append(cluster.load(graph, 1, JOBS_ALONE))
                together.append(cluster.load(graph, CLIENTS, JOBS_TOGETHER))
            small_mib = cluster.memory_mib()
            cluster.load(graph, CLIENTS, OVERVIEW_JOBS)
            overviews, overview_cpu_ms = cluster.overview_ms()
            large_mib = cluster.memory_mib()
    series = _series(own, alone, together, overviews)
    return Report(
        case="rest",
        series=series,
        verdicts=(
            Verdict("no-op over REST, our client, p50", series[0].median, "ms", at_most=P50_MS_MAX),
            Verdict(f"no-ops of {CLIENTS} clients", series[3].median, "jobs/s", at_least=JOBS_PER_SECOND_MIN),
            Verdict(f"no-op of {CLIENTS} clients, p99", percentile(series[2].values, 99), "ms", at_most=P99_MS_MAX),
            Verdict(f"overview of {OVERVIEW_JOBS:,} ended jobs", series[-1].median, "ms", at_most=OVERVIEW_MS_MAX),
            Verdict("master's processor time of an overview", overview_cpu_ms, "ms"),
            Verdict("master's memory after the rounds", small_mib, "MiB", at_most=MASTER_MIB_MAX),
            Verdict(f"master's memory, {OVERVIEW_JOBS:,} ended jobs kept", large_mib, "MiB"),
        ),
        notes=(f"the worker is a real one with {SLOTS} slots; its Spark was up and idle.",),
    )


def _series(own: list[Run], alone: list[Run], together: list[Run], overviews: list[float]) -> tuple[Series, ...]:
    jobs = [run.cpu_ms(run.master_cpu_s) for run in together]
    workers = [run.cpu_ms(run.worker_cpu_s) for run in together]
    clients = [run.cpu_ms(run.clients.cpu_seconds) for run in together]
    return (
        Series("a no-op, one client of ours", "ms", _milliseconds(own)),
        Series("a no-op, one bare client", "ms", _milliseconds(alone)),
        Series(f"a no-op, {CLIENTS} bare clients", "ms", _milliseconds(together)),
        Series(f"{CLIENTS} bare clients", "jobs/s", tuple(run.jobs_per_second for run in together)),
        Series("master's processor time a job", "ms", tuple(jobs)),
        Series("worker's processor time a job", "ms", tuple(workers)),
        Series("bare clients' processor time a job", "ms", tuple(clients)),
        Series("our client's processor time a job", "ms", tuple(run.cpu_ms(run.clients.cpu_seconds) for run in own)),
        Series("overview", "ms", tuple(overviews)),
    )


def _milliseconds(runs: list[Run]) -> tuple[float, ...]:
    return tuple(value for run in runs for value in run.clients.milliseconds)


def percentile(values: tuple[float, ...], percent: int) -> float:
    """The value that `percent` of all do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Cluster]:
    """A master and a worker on free ports, warm; their logs are in the folder."""
    settings = {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": "0",
        "rest.port": "0",
        "jobstore.max-capacity": str(OVERVIEW_JOBS),
        "taskmanager.numberOfTaskSlots": str(SLOTS),
        "cluster.work-dir": str(folder / "work"),
    }
    with contextlib.ExitStack() as processes:
        master = processes.enter_context(_process(folder, "jobmanager", settings))
        words = _first_line(master).split()
        settings["jobmanager.rpc.port"] = words[3].rstrip(",").rpartition(":")[2]
        worker = processes.enter_context(_process(folder, "taskmanager", settings))
        _first_line(worker)
        cluster = Cluster(words[-1], psutil.Process(master.pid), psutil.Process(worker.pid))
        _settle(cluster.worker)
        yield cluster


@contextlib.contextmanager
def _process(folder: Path, command: str, settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    defined = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
    program = (sys.executable, "-m", "firesteel", command, *defined)
    with (folder / f"{command}.log").open("wb") as log:
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
