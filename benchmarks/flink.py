"""The control plane beside a Flink session cluster on the same machine, taking turns.

FIRESTEEL_FLINK_SH names a script that has Flink: `start SLOTS`, `stop`, and `bench NAME JOBS PARALLELISM STAGES CLIENTS`,
which prints a line with jobs/s, tasks/s and percentiles from submission to result. Its tasks do nothing; ours are built-in
no-ops, which the worker finishes itself, and empty functions, each in a process of its own.
"""

import asyncio
import contextlib
import os
import re
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from benchmarks.report import Report, Series, Verdict
from benchmarks.rest import percentile
from benchmarks.session import Cluster, Run, started
from benchmarks.tasks import no_ops
from benchmarks.warm import FUNCTION_MS_MAX, empty_job
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.pipeline.build import BuildRequest, BuiltJob, build_file

SCRIPT = "FIRESTEEL_FLINK_SH"
SLOTS, CLIENTS = 256, 16
TASKS = 200
"""Of a job of many tasks; all of them have a slot."""
FUNCTIONS = 20
"""Of a job of many functions, each in a process of its own."""
KEPT, RUNNING, ARCHIVED = 1_000, 100, 10_000
FASTER_MIN, JOBS_RATIO_MIN, TASKS_RATIO_MIN = 8, 10, 20
P50_MS_MAX, P99_MS_MAX, OVERVIEW_MS_MAX, MASTER_MB_MAX, FUNCTIONS_PER_SECOND_MIN = 15, 300, 50, 200, 50
SLOTS_OF_RUNS = {"taskmanager.numberOfTaskSlots": str(SLOTS)}
LINE = re.compile(r": ([\d.]+) jobs/s, ([\d.]+) tasks/s; .*submit->result ms p50 ([\d.]+) p99 ([\d.]+)")
LIMIT_S = 600.0
FLINK_MASTER = "StandaloneSessionClusterEntrypoint"

PAIR = """
@pipeline.source
def origin{n}(spark: SparkSession) -> DataFrame:
    return spark.range(0)

@pipeline.sink
def nothing{n}(origin{n}: DataFrame) -> None:
    {body}
"""
HEADER = """
import time

import firesteel as fs
from pyspark.sql import DataFrame, SparkSession

pipeline = fs.Pipeline("functions")
"""


class Line(msgspec.Struct, frozen=True):
    """What Flink's side prints of a run."""

    jobs_per_second: float
    tasks_per_second: float
    p50_ms: float
    p99_ms: float


def measure(rounds: int, *, quick: bool = False) -> Report:
    """Both sides in each round; then what a master keeps, on clusters of their own."""
    script = os.environ.get(SCRIPT)
    if not script:
        raise SystemExit(f"set {SCRIPT} to a script that has Flink: see {__name__}")
    scale = 10 if quick else 1
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch, _flink(script):
        folder = Path(scratch)
        sides = _rounds(folder, script, rounds, scale)
        flink_mb = _flink_master_mb()
        master_mb = _memory_mb(_below(folder, "memory"), KEPT // scale, RUNNING // scale)
        overviews, overview_cpu_ms = _overviews(_below(folder, "archive"), ARCHIVED // scale)
    return _report(sides, overviews, {"ours": master_mb, "flink": flink_mb, "overview": overview_cpu_ms})


class Sides(msgspec.Struct):
    """What each round has measured, of both."""

    alone: list[Line] = []
    together: list[Line] = []
    many: list[Line] = []
    our_alone: list[Run] = []
    our_together: list[Run] = []
    our_many: list[Run] = []
    functions_alone: list[Run] = []
    functions_together: list[Run] = []
    functions_many: list[Run] = []


def _rounds(folder: Path, script: str, rounds: int, scale: int) -> Sides:
    sides = Sides()
    one, many = no_ops(folder, 1).graph, no_ops(folder, TASKS).graph
    empty, several = empty_job(folder), _functions(folder, "several", FUNCTIONS, "pass")
    with started(_below(folder, "rounds"), SLOTS_OF_RUNS) as cluster:
        cluster.load(one, CLIENTS, 320)
        cluster.load(empty.graph, CLIENTS, 32, artifacts=empty.artifact_paths())
        for _ in range(rounds):
            sides.alone.append(_bench(script, "latency", 100 // scale, 1, 1))
            sides.our_alone.append(cluster.load(one, 1, 200 // scale, is_bare=False))
            sides.functions_alone.append(_load(cluster, empty, 1, 50 // scale))
            sides.together.append(_bench(script, "throughput", 480 // scale, 1, CLIENTS))
            sides.our_together.append(cluster.load(one, CLIENTS, 960))
            sides.functions_together.append(_load(cluster, empty, CLIENTS, 320 // scale))
            sides.many.append(_bench(script, "tasks", 5, TASKS, 1))
            sides.our_many.append(cluster.load(many, 1, 25))
            sides.functions_many.append(_load(cluster, several, 1, 5))
    return sides


def _memory_mb(folder: Path, kept: int, running: int) -> float:
    """Resident memory of a master that keeps so many ended jobs, and runs so many."""
    one, sleeping = no_ops(folder, 1).graph, _functions(folder, "sleeping", 1, "time.sleep(3_600)")
    with started(folder, SLOTS_OF_RUNS) as cluster:
        cluster.load(one, CLIENTS, kept // CLIENTS * CLIENTS)
        return asyncio.run(_while_running(cluster, sleeping, running))


async def _while_running(cluster: Cluster, job: BuiltJob, count: int) -> float:
    ids = [JobID(uuid.uuid4().hex) for _ in range(count)]
    async with asyncio.timeout(LIMIT_S), HttpClusterClient([cluster.address]) as client:
        for job_id in ids:
            await client.submit_job(msgspec.structs.replace(job.graph, job_id=job_id), job.artifact_paths())
        for job_id in ids:
            await _until_running(client, job_id)
        memory_mb = cluster.memory_mib() * (1 << 20) / 1e6
        for job_id in ids:
            await client.cancel_job(job_id)
        for job_id in ids:
            await client.request_job_result(job_id)
    return memory_mb


async def _until_running(client: HttpClusterClient, job_id: JobID) -> None:
    async for view in client.follow_job(job_id):
        if view.status is JobStatus.RUNNING:
            return
        if view.status.is_terminal:
            raise RuntimeError(f"{job_id} ended {view.status.value}: {view.exceptions}")


def _overviews(folder: Path, archived: int) -> tuple[list[float], float]:
    settings = {"jobstore.max-capacity": str(archived), "taskmanager.numberOfTaskSlots": "32"}
    with started(folder, settings) as cluster:
        cluster.load(no_ops(folder, 1).graph, CLIENTS, archived // CLIENTS * CLIENTS)
        return cluster.overview_ms()


def _report(sides: Sides, overviews: list[float], figures: dict[str, float]) -> Report:
    series = (
        _series("Flink, a no-op, p50", "ms", [each.p50_ms for each in sides.alone]),
        _series("a no-op, p50", "ms", [_p(each, 50) for each in sides.our_alone]),
        _series("an empty function, p50", "ms", [_p(each, 50) for each in sides.functions_alone]),
        _series(f"Flink, {CLIENTS} clients", "jobs/s", [each.jobs_per_second for each in sides.together]),
        _series(f"no-ops of {CLIENTS} clients", "jobs/s", [each.jobs_per_second for each in sides.our_together]),
        _series(
            f"empty functions of {CLIENTS} clients", "jobs/s", [r.jobs_per_second for r in sides.functions_together]
        ),
        _series(f"Flink, {CLIENTS} clients, p99", "ms", [each.p99_ms for each in sides.together]),
        _series(f"no-ops of {CLIENTS} clients, p99", "ms", [_p(each, 99) for each in sides.our_together]),
        _series(
            f"empty functions of {CLIENTS} clients, p99", "ms", [_p(each, 99) for each in sides.functions_together]
        ),
        _series(f"Flink, jobs of {TASKS} tasks", "tasks/s", [each.tasks_per_second for each in sides.many]),
        _series(f"jobs of {TASKS} no-ops", "tasks/s", [each.jobs_per_second * TASKS for each in sides.our_many]),
        _series(
            f"jobs of {FUNCTIONS} empty functions",
            "tasks/s",
            [each.jobs_per_second * FUNCTIONS for each in sides.functions_many],
        ),
        _series(f"overview of {ARCHIVED:,} ended jobs", "ms", overviews),
    )
    flink_ms, ours_ms, function_ms, flink_jobs, our_jobs, functions, _, p99, _, flink_tasks, our_tasks, _, overview = (
        each.median for each in series
    )
    return Report(
        case="flink",
        series=series,
        verdicts=(
            Verdict("no-op, p50", ours_ms, "ms", at_most=P50_MS_MAX),
            Verdict("no-op, p50, Flink's of ours", flink_ms / ours_ms, "times", at_least=FASTER_MIN),
            Verdict(
                f"no-ops of {CLIENTS} clients, ours of Flink's", our_jobs / flink_jobs, "times", at_least=JOBS_RATIO_MIN
            ),
            Verdict(f"no-ops of {CLIENTS} clients, p99", p99, "ms", at_most=P99_MS_MAX),
            Verdict("tasks/s, ours of Flink's", our_tasks / flink_tasks, "times", at_least=TASKS_RATIO_MIN),
            Verdict(f"master, {KEPT:,} jobs kept and {RUNNING} running", figures["ours"], "MB", at_most=MASTER_MB_MAX),
            Verdict("Flink's master after its rounds", figures["flink"], "MB"),
            Verdict(f"overview of {ARCHIVED:,} ended jobs", overview, "ms", at_most=OVERVIEW_MS_MAX),
            Verdict("master's processor time of an overview", figures["overview"], "ms"),
            Verdict("empty function, p50", function_ms, "ms", at_most=FUNCTION_MS_MAX),
            Verdict(f"empty functions of {CLIENTS} clients", functions, "jobs/s", at_least=FUNCTIONS_PER_SECOND_MIN),
            Verdict("empty function, p50, Flink's no-op of it", flink_ms / function_ms, "times"),
            Verdict("empty functions/s of Flink's no-ops/s", functions / flink_jobs, "times"),
        ),
        notes=(
            f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.",
            "single jobs go through each side's own client; many of ours come from clients that cost less than theirs.",
        ),
    )


def _p(run: Run, percent: int) -> float:
    return percentile(tuple(run.clients.milliseconds), percent)


def _series(name: str, unit: str, values: list[float]) -> Series:
    return Series(name, unit, tuple(values))


def _load(cluster: Cluster, job: BuiltJob, clients: int, jobs: int) -> Run:
    return cluster.load(job.graph, clients, jobs // clients * clients, artifacts=job.artifact_paths())


def _functions(folder: Path, name: str, count: int, body: str) -> BuiltJob:
    """A job of so many regions, each a source and a sink with that body."""
    file = _below(folder, name) / "functions.py"
    file.write_text(HEADER + "".join(PAIR.format(n=n, body=body) for n in range(count)))
    output = str(_below(file.parent, "artifacts"))
    return build_file(BuildRequest(file=str(file), job_id=JobID(uuid.uuid4().hex), parameters={}, output_dir=output))


def _below(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


@contextlib.contextmanager
def _flink(script: str) -> Iterator[None]:
    subprocess.run([script, "start", str(SLOTS)], check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
    try:
        _bench(script, "warm", 20, 2, CLIENTS)
        yield
    finally:
        subprocess.run([script, "stop"], check=True, timeout=LIMIT_S)


def _bench(script: str, name: str, jobs: int, parallelism: int, clients: int) -> Line:
    command = [script, "bench", name, str(jobs), str(parallelism), "1", str(clients)]
    done = subprocess.run(command, check=True, timeout=LIMIT_S, capture_output=True, text=True)
    found = LINE.search(done.stdout)
    if found is None:
        raise RuntimeError(f"{command!r} printed {done.stdout!r}")
    return Line(*map(float, found.groups()))


def _flink_master_mb() -> float:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(FLINK_MASTER in word for word in process.cmdline()):
                return float(process.memory_info().rss) / 1e6
    raise RuntimeError(f"no {FLINK_MASTER} runs")
