"""Thousands of jobs through a master and two workers: all end, all results are right, nothing is left, nothing grows.

Memory is that of the processes' own (PSS, which counts a page shared by n processes as one nth), looked at after every
LOOK jobs: built-in no-ops, empty functions in processes of their own, and Spark jobs whose rows are fetched and checked.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil
from rich.console import Console

import firesteel as fs
from benchmarks.report import Report, Series, Verdict
from benchmarks.session import Cluster, started
from benchmarks.tasks import no_ops
from benchmarks.warm import empty_job
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.pipeline.build import BuildRequest, BuiltJob, build_file

CLIENTS, WORKERS, SLOTS = 16, 2, 4
NO_OPS, FUNCTIONS, SPARK_JOBS = 10_000, 10_000, 2_000
LOOK = 100
"""Jobs between two looks at the processes."""
REMEMBERED = 200
"""Ended jobs that the master keeps, with their rows, and each worker, with what they printed."""
GROWTH_MAX = 1.05
"""Memory at the end of that after the first fifth."""
SLOWER_MAX = 1.25
"""Median time to a result in the last fifth of that in the second one: the queue is as long all the time."""
SETTLE_S = 180.0
SESSION = "org.apache.spark.sql.connect.service.SessionHolder"

SOURCE = """
import firesteel as fs
from pyspark.sql import DataFrame, SparkSession, functions as F

pipeline = fs.Pipeline("soak")

@pipeline.source(share="recompute")
def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).withColumn("k", F.col("id") % 3)

@pipeline.transform
def sums(numbers: DataFrame) -> DataFrame:
    return numbers.groupBy("k").agg(F.count("*").alias("n"), F.sum("id").alias("total"))

@pipeline.result
def rows(sums: DataFrame) -> DataFrame:
    return sums.orderBy("k")

@pipeline.sink
def written(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output)
"""


class Look(msgspec.Struct, frozen=True):
    """What the processes hold."""

    master_mib: float
    workers_mib: float
    """The workers' own processes and their fork servers."""
    spark_mib: float
    """Resident memory of their JVMs."""
    files_open: int
    processes: int


class Phase(msgspec.Struct, frozen=True):
    """Jobs of one kind."""

    name: str
    milliseconds: list[float]
    """To the result of each, in the order they ended."""
    looks: list[Look]


def measure(rounds: int, *, quick: bool = False) -> Report:
    """One round, whatever is asked for: it is long enough. Stops at a job that ended otherwise than it should."""
    scale = 50 if quick else 1
    console = Console()
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        folder = Path(scratch)
        settings = {
            "taskmanager.numberOfTaskSlots": str(SLOTS),
            "taskmanager.task-process.spares": str(SLOTS),
            "jobstore.max-capacity": str(REMEMBERED),
            "taskmanager.task-process.logs-kept": str(REMEMBERED),
        }
        with started(folder, settings, WORKERS) as cluster:
            soak = Soak(cluster, folder, console)
            left = asyncio.run(soak.run(*(jobs // scale for jobs in (NO_OPS, FUNCTIONS, SPARK_JOBS))))
    return _report(soak.phases, left)


class Soak:
    """The clients, and what they have seen."""

    def __init__(self, cluster: Cluster, folder: Path, console: Console) -> None:
        self.phases: list[Phase] = []
        self._cluster, self._folder, self._console = cluster, folder, console

    async def run(self, no_ops_count: int, functions: int, spark: int) -> dict[str, int]:
        """What is left in the end, by kind."""
        nothing, empty = no_ops(self._folder, 1), empty_job(self._folder)
        counting = _spark_job(self._folder)
        async with HttpClusterClient([self._cluster.address]) as client:
            await self._jobs(client, "warm-up", counting, CLIENTS * 4)
            await self._jobs(client, "warm-up", empty, CLIENTS * 4)
            self.phases.clear()
            before = self._look()
            await self._jobs(client, "no-ops", nothing, no_ops_count)
            await self._jobs(client, "empty functions", empty, functions)
            await self._jobs(client, "Spark jobs", counting, spark)
            # The last ones whose rows are remembered leave with them.
            await self._jobs(client, "after", nothing, REMEMBERED * 2)
            self.phases.pop()
            return await self._left(client, before)

    async def _jobs(self, client: HttpClusterClient, name: str, job: BuiltJob, count: int) -> None:
        self._console.print(f"soak: {count:,} {name} ...")
        phase = Phase(name, [], [])
        self.phases.append(phase)
        numbers = iter(range(1, count + 1))

        async def work() -> None:
            for number in numbers:
                phase.milliseconds.append(await self._job(client, job, number))
                if number % LOOK == 0:
                    phase.looks.append(await asyncio.to_thread(self._look))

        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(work())

    async def _job(self, client: HttpClusterClient, job: BuiltJob, number: int) -> float:
        """Milliseconds from submission to result. Raises RuntimeError when that is not the right one."""
        job_id, output = JobID(uuid.uuid4().hex), self._folder / "output" / str(number)
        is_spark = "count" in job.graph.parameters
        parameters = {**job.graph.parameters, "count": str(number), "output": str(output)} if is_spark else {}
        graph = msgspec.structs.replace(job.graph, job_id=job_id, parameters=parameters)
        begun = time.perf_counter()
        await client.submit_job(graph, job.artifact_paths())
        result = await client.request_job_result(job_id)
        took_ms = (time.perf_counter() - begun) * 1_000
        if result.status is not JobStatus.FINISHED:
            raise RuntimeError(f"{result.name} ended {result.status.value}: {result.failure}")
        if is_spark:
            found = fs.ResultRows(await client.fetch_result(job_id, "rows")).values()
            if found != expected(number) or not (output / "_SUCCESS").exists():
                raise RuntimeError(f"job {number} gave {found}")
            await asyncio.to_thread(shutil.rmtree, output)
        return took_ms

    def _look(self) -> Look:
        workers = [process for each in self._cluster.workers for process in (each, *each.children(recursive=True))]
        pss = spark = 0
        for process in workers:
            try:
                if process.name() == "java":
                    spark += process.memory_info().rss
                else:
                    pss += process.memory_full_info().pss
            except psutil.NoSuchProcess:
                continue  # a task process that has ended meanwhile
        master = self._cluster.master
        files = sum(each.num_fds() for each in (master, *self._cluster.workers))
        master_pss = master.memory_full_info().pss
        return Look(master_pss / 2**20, pss / 2**20, spark / 2**20, files, len(workers))

    async def _left(self, client: HttpClusterClient, before: Look) -> dict[str, int]:
        """Wait until it is nothing, for a limited time."""
        until_s = time.monotonic() + SETTLE_S
        while True:
            overview = await client.request_cluster_overview()
            look = await asyncio.to_thread(self._look)
            left = {
                "slots": overview.slots_total - overview.slots_free,
                "jobs that have not ended": sum(
                    not each.status.is_terminal for each in await client.list_job_summaries()
                ),
                "blobs": len(list((self._folder / "work" / "blobs").iterdir())),
                "files of attempts": len(_files_of_jobs(self._folder / "work", but="logs")),
                "logs beyond those kept": max(0, self._logs() - WORKERS * REMEMBERED),
                "sessions": await asyncio.to_thread(self._sessions),
                "processes": look.processes - before.processes,
                "open files": max(0, look.files_open - before.files_open),
            }
            if not any(left.values()) or time.monotonic() > until_s:
                return left
            await asyncio.sleep(1.0)

    def _logs(self) -> int:
        """Jobs of which a worker has what they printed."""
        return len({path.parent for path in self._folder.glob("work/*/logs/*/*")})

    def _sessions(self) -> int:
        """Sessions that the Spark Connect servers hold; 0 where there is no `jcmd` to ask them."""
        if shutil.which("jcmd") is None:
            return 0
        total = 0
        for process in (each for worker in self._cluster.workers for each in worker.children(recursive=True)):
            if process.name() == "java":
                command = ["jcmd", str(process.pid), "GC.class_histogram"]
                asked = subprocess.run(command, capture_output=True, text=True, check=False)
                total += sum(
                    int(line.split()[1]) for line in asked.stdout.splitlines() if line.split()[-1:] == [SESSION]
                )
        return total


def expected(count: int) -> list[list[int]]:
    """Rows of the Spark job, by column."""
    groups = [range(k, count, 3) for k in range(min(3, count))]
    return [list(range(len(groups))), [len(group) for group in groups], [sum(group) for group in groups]]


def _spark_job(folder: Path) -> BuiltJob:
    (folder / "soak").mkdir()
    (folder / "output").mkdir()
    file, output = folder / "soak" / "soak.py", folder / "soak" / "artifacts"
    file.write_text(SOURCE)
    output.mkdir()
    return build_file(
        BuildRequest(
            file=str(file),
            job_id=JobID(uuid.uuid4().hex),
            parameters={"count": "1", "output": "later"},
            output_dir=str(output),
        )
    )


def _files_of_jobs(work: Path, but: str) -> list[Path]:
    """Below the workers' directories, those with a job's id in their path."""
    return [path for path in work.rglob("*") if path.is_file() and but not in path.parts and _has_id(path)]


def _has_id(path: Path) -> bool:
    return any(len(part) == 32 and set(part) <= set("0123456789abcdef") for part in path.parts)


def _report(phases: Sequence[Phase], left: dict[str, int]) -> Report:
    series: list[Series] = []
    verdicts: list[Verdict] = []
    for phase in phases:
        fifth = len(phase.milliseconds) // 5
        early, late = phase.milliseconds[fifth : 2 * fifth], phase.milliseconds[-fifth:]
        series.append(Series(f"{phase.name}, time to result", "ms", tuple(phase.milliseconds)))
        ratio = statistics.median(late) / statistics.median(early)
        verdicts.append(Verdict(f"{phase.name}: last fifth of the second, time", ratio, "times", at_most=SLOWER_MAX))
        for name in ("master_mib", "workers_mib", "spark_mib"):
            values = [getattr(look, name) for look in phase.looks]
            title = f"{phase.name}, {name.partition('_')[0]}"
            series.append(Series(title, "MiB", tuple(values)))
            fifth = max(1, len(values) // 5)
            grown = statistics.median(values[-fifth:]) / statistics.median(values[fifth : 2 * fifth] or values)
            bound = None if name == "spark_mib" else GROWTH_MAX
            verdicts.append(Verdict(f"{title}: last fifth of the second, memory", grown, "times", at_most=bound))
    verdicts += [Verdict(f"left: {what}", number, "", at_most=0) for what, number in left.items()]
    load = f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    return Report(case="soak", series=tuple(series), verdicts=tuple(verdicts), notes=(load,))
