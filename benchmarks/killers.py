"""Everything is killed at random while jobs run: JVMs and their supervisors, task processes, fork servers, workers, leaders.

Real processes on file-system high availability, two masters and two workers, with two other loads on the machine. What was
killed is started again, as systemd would. When the time is over the killers stop, and nothing new is submitted: every job
has to end, what it says that it has written has to be there exactly once, and nothing of dead workers may be left.
"""

import asyncio
import contextlib
import random
import signal
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import psutil
import pyarrow.parquet as parquet

import firesteel as fs
from benchmarks.failover import Process, _leader
from benchmarks.loads import loads
from benchmarks.report import Report, Series, Verdict
from benchmarks.soak import expected
from firesteel.adapters.spark.worker.workdirs import LOCK
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.pipeline.build import BuildRequest, BuiltJob, build_file
from tools.standalone import Standalone, end, standalone

MASTERS, WORKERS, SLOTS = 2, 2, 4
MINUTES, MINUTES_QUICK = 30.0, 2.0
CLIENTS = 5
"""Jobs under way at a time."""
EVERY_S = {
    "task process": 20.0,
    "JVM": 90.0,
    "supervisor": 240.0,
    "fork server": 90.0,
    "worker": 120.0,
    "leader": 60.0,
}
"""Mean time between two kills of a kind."""
OF_SPARK_EVERY_S = {"executor": 40.0, "Spark Worker": 90.0, "Spark Master": 120.0}
"""The same of what is Spark's, where the workers' applications are on a cluster of it."""
DOWN_S, STARTS_MAX = 2.0, 30
"""Until something that was killed is started again, and how often that is tried."""
END_S, CLEAR_S = 900.0, 300.0
"""What jobs may take to end when the killers have stopped, and after that what is left may take to go."""
PATIENCE_S = 600.0
SETTINGS = {
    "high-availability.type": "filesystem",
    "jobmanager.rpc.address": "127.0.0.1",
    "taskmanager.numberOfTaskSlots": str(SLOTS),
}
ON_SPARK = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"}
SOURCE = """
import firesteel as fs
from pyspark.sql import DataFrame, SparkSession, functions as F

pipeline = fs.Pipeline("killed")

@pipeline.source
def numbers(spark: SparkSession, count: int) -> DataFrame:
    def slowly(parts):
        import time
        for part in parts:
            time.sleep(0.2)
            yield part
    return spark.range(0, count, 1, 6).withColumn("k", F.col("id") % 3).mapInPandas(slowly, "id long, k long")

@pipeline.transform
def sums(numbers: DataFrame) -> DataFrame:
    return numbers.groupBy("k").agg(F.count("*").alias("n"), F.sum("id").alias("total"))

@pipeline.result
def rows(sums: DataFrame) -> DataFrame:
    return sums.orderBy("k")

@pipeline.sink
def written(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output, mode="append")
"""
"""Stored results between three regions, rows that are returned, and an append: what is committed twice is seen."""


class Ended(msgspec.Struct, frozen=True):
    """A job that was followed to its end."""

    number: int
    seconds: float
    result: JobResult
    problem: str
    """What is wrong with what it has written."""


def measure(rounds: int, *, quick: bool = False, minutes: float | None = None, on_spark: bool = False) -> Report:
    """One round of so many minutes; `on_spark` on a standalone cluster of Spark's, which is killed too, without other loads."""
    return asyncio.run(_measure((minutes or (MINUTES_QUICK if quick else MINUTES)) * 60, on_spark))


async def _measure(seconds: float, on_spark: bool) -> Report:
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch, contextlib.ExitStack() as ends:
        folder, spark = Path(scratch), None
        if on_spark:
            spark = await asyncio.to_thread(ends.enter_context, standalone(folder / "spark", workers=2, cores=2))
        else:
            ends.enter_context(loads(folder))
        return await Story(folder, spark).run(seconds)


class Story:
    """The cluster, the jobs and the killers."""

    def __init__(self, folder: Path, spark: Standalone | None) -> None:
        self._folder, self._spark = folder, spark
        self._every_s = EVERY_S | (OF_SPARK_EVERY_S if spark is not None else {})
        self._masters: list[Process] = []
        self._workers: list[Process] = []
        self._kills: Counter[str] = Counter()
        self._seen: dict[int, float] = {}
        """Processes that were below a worker at any time, with the times of their starts."""
        self._numbers = iter(range(1, 1_000_000))
        self._ended: list[Ended] = []
        self._under_way: dict[int, JobID] = {}
        self._is_over = False

    async def run(self, seconds: float) -> Report:
        async with self._cluster():
            urls = [master.found.rpartition(" ")[2] for master in self._masters]
            async with HttpClusterClient(urls, patience_s=PATIENCE_S) as client:
                job = self._build()
                async with asyncio.TaskGroup() as group:
                    clients = [group.create_task(self._submit(client, job)) for _ in range(CLIENTS)]
                    until = time.monotonic() + seconds
                    async with asyncio.TaskGroup() as killers:
                        for kind in self._every_s:
                            killers.create_task(self._kill_until(until, kind, urls))
                    self._is_over, stopped = True, time.monotonic()
                    self._say("the killers have stopped")
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(END_S):
                            await asyncio.gather(*clients)
                    took_s = time.monotonic() - stopped
                    for each in clients:
                        each.cancel()
                for number, job_id in self._under_way.items():
                    self._say(f"job {number} ({job_id}) has not ended: {(await client.request_job(job_id)).reason}")
                left = await self._left(self._look)
        left |= await self._left(self._look_at_spark)
        return self._report(took_s, left)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────
    def _build(self) -> BuiltJob:
        file, output = self._folder / "killed.py", self._folder / "artifacts"
        file.write_text(SOURCE)
        output.mkdir()
        (self._folder / "output").mkdir()
        return build_file(
            BuildRequest(
                file=str(file),
                job_id=JobID(uuid.uuid4().hex),
                parameters={"count": "1", "output": "later"},
                output_dir=str(output),
                configuration={
                    "restart-strategy.type": "fixed-delay",
                    "restart-strategy.fixed-delay.attempts": "1000",
                    "restart-strategy.fixed-delay.delay": "500 ms",
                },
            )
        )

    async def _submit(self, client: HttpClusterClient, job: BuiltJob) -> None:
        """One job after another, until the killers stop."""
        while not self._is_over:
            number, job_id = next(self._numbers), JobID(uuid.uuid4().hex)
            output, count = self._folder / "output" / str(number), 100 + number
            parameters = {**job.graph.parameters, "count": str(count), "output": str(output)}
            self._under_way[number] = job_id
            begun = time.monotonic()
            graph = msgspec.structs.replace(job.graph, job_id=job_id, parameters=parameters)
            await client.submit_job(graph, job.artifact_paths())
            result = await client.request_job_result(job_id)
            took_s = time.monotonic() - begun
            problem = await self._problem(client, result, output, count)
            self._ended.append(Ended(number, took_s, result, problem))
            del self._under_way[number]
            failure = f": {result.failure.headline()}" if result.failure is not None else ""
            restarts = f"{result.restarts} restarts"
            self._say(f"job {number} {result.status.value} after {took_s:.0f} s, {restarts}{failure} {problem}")

    async def _problem(self, client: HttpClusterClient, result: JobResult, output: Path, count: int) -> str:
        """What is wrong with a job's output, as its result tells of it."""
        table = await asyncio.to_thread(lambda: parquet.read_table(output) if output.exists() else None)
        ids = sorted(table["id"].to_pylist()) if table is not None else []
        if result.status is not JobStatus.FINISHED:
            is_whole = not ids or (bool(result.sinks) and ids == list(range(count)))
            return "" if is_whole else f"it has failed, and {len(ids)} rows of it are visible"
        if ids != list(range(count)):
            return f"{len(ids)} rows instead of {count}"
        rows = fs.ResultRows(await client.fetch_result(result.job_id, "rows")).values()
        return "" if rows == expected(count) else f"returned {rows}"

    # ── killers ──────────────────────────────────────────────────────────────────────────────
    async def _kill_until(self, until: float, kind: str, urls: list[str]) -> None:
        while (pause_s := random.expovariate(1 / self._every_s[kind])) < until - time.monotonic():
            await asyncio.sleep(pause_s)
            if kind == "leader":
                place = await _leader(urls)
                await self._end_and_start(self._masters[place], kind, *_ports(self._masters[place]))
            elif kind == "worker":
                await asyncio.to_thread(self._note_processes)
                await self._end_and_start(random.choice(self._workers), kind)
            elif kind in OF_SPARK_EVERY_S:
                await asyncio.to_thread(self._kill_of_spark, kind)
            else:
                await asyncio.to_thread(self._kill, kind)

    async def _end_and_start(self, process: Process, kind: str, *options: str) -> None:
        self._kills[kind] += 1
        self._say(f"kill {kind} {process.process.pid}")
        await process.end(signal.SIGKILL)
        for again in range(STARTS_MAX):
            await asyncio.sleep(DOWN_S)
            try:
                await process.start(*options)
                return
            except AssertionError as error:  # its port may be another's for a moment: systemd would try again, too
                self._say(f"start {again + 1} of the {kind} has failed: {error}: {process.last_words}")
        raise RuntimeError(f"a {kind} could not be started again")

    def _kill(self, kind: str) -> None:
        victims = [process for process, known in self._note_processes() if known == kind]
        if victims:
            victim = random.choice(victims)
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()  # by its id, and never another process that has it by now
                self._kills[kind] += 1
                self._say(f"kill {kind} {victim.pid}")

    def _kill_of_spark(self, kind: str) -> None:
        """A Worker goes with its executors, and is followed by another one; a Master comes back where it was."""
        spark = self._spark
        assert spark is not None
        assert spark.master is not None
        if kind == "executor":
            if executors := spark.executors():
                with contextlib.suppress(psutil.NoSuchProcess):
                    random.choice(executors).kill()
                    self._note_kill(kind)
            return
        victim = spark.master if kind == "Spark Master" else spark.workers.pop(random.randrange(len(spark.workers)))
        end(victim)
        self._note_kill(kind)
        time.sleep(DOWN_S)
        if kind == "Spark Master":
            spark.start_master()
        else:
            spark.start_worker()

    def _note_kill(self, kind: str) -> None:
        self._kills[kind] += 1
        self._say(f"kill {kind}")

    def _note_processes(self) -> list[tuple[psutil.Process, str]]:
        """All that is below the workers now, with what it is."""
        found: list[tuple[psutil.Process, str]] = []
        for worker in self._workers:
            if worker.process.returncode is not None:
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                own = psutil.Process(worker.process.pid)
                for each in own.children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        self._seen[each.pid] = each.create_time()
                        found.append((each, _kind(each)))
        return found

    # ── what is left ─────────────────────────────────────────────────────────────────────────
    async def _left(self, look: Callable[[], dict[str, list[str]]]) -> dict[str, int]:
        """Wait until it is nothing, for a limited time."""
        until = time.monotonic() + CLEAR_S
        while True:
            found = await asyncio.to_thread(look)
            if not any(found.values()) or time.monotonic() > until:
                for what, paths in found.items():
                    if paths:
                        self._say(f"left, {what}: {paths[:5]}")
                        inside = await asyncio.to_thread(_inside, paths[0])
                        self._say(f"  in the first: {inside[:20]}")
                return {what: len(paths) for what, paths in found.items()}
            await asyncio.sleep(1.0)

    def _look(self) -> dict[str, list[str]]:
        work = self._folder / "work"
        now = {process.pid for process, _ in self._note_processes()}
        living = {worker.found.split()[0] for worker in self._workers}
        directories = [path.parent for path in work.glob(f"*/{LOCK}")]
        return {
            "staging": [str(path) for path in self._folder.glob("output/**/.firesteel-staging*")]
            + [str(path) for path in self._folder.glob("output/.firesteel-staging*")],
            "partitions": [str(path) for path in work.glob("*/partitions/*")],
            "directories of attempts": [str(path) for path in work.glob("*/attempts/*")],
            "directories of dead workers": [str(path) for path in directories if path.name not in living],
            "processes": [str(pid) for pid, begun in self._seen.items() if pid not in now and _lives(pid, begun)],
        }

    def _look_at_spark(self) -> dict[str, list[str]]:
        """Once the workers have ended, whose applications they were."""
        return {"executors": [str(each.pid) for each in self._spark.executors()]} if self._spark is not None else {}

    # ── the cluster ──────────────────────────────────────────────────────────────────────────
    @contextlib.asynccontextmanager
    async def _cluster(self) -> AsyncIterator[None]:
        places = {"high-availability.storageDir": self._folder / "shared", "cluster.work-dir": self._folder / "work"}
        options = {**SETTINGS, **{key: str(path) for key, path in places.items()}}
        if self._spark is not None:
            options |= {"taskmanager.spark.master": self._spark.url, **ON_SPARK}
        arguments = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        async with contextlib.AsyncExitStack() as ends:
            for kind, processes, count in (
                ("jobmanager", self._masters, MASTERS),
                ("taskmanager", self._workers, WORKERS),
            ):
                for number in range(count):
                    process = Process(self._folder, kind, f"{kind}{number}", *arguments)
                    ends.push_async_callback(process.end, signal.SIGTERM)
                    more = ("-D", "jobmanager.rpc.port=0", "-D", "rest.port=0") if kind == "jobmanager" else ()
                    await process.start(*more)
                    processes.append(process)
            yield

    def _say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    def _report(self, end_s: float, left: dict[str, int]) -> Report:
        failed = [each for each in self._ended if each.result.status is not JobStatus.FINISHED]
        wrong = [each for each in self._ended if each.problem]
        kills = ", ".join(f"{count} × {kind}" for kind, count in self._kills.most_common())
        return Report(
            case="killers",
            series=(Series("job, to its result", "s", tuple(each.seconds for each in self._ended) or (0.0,)),),
            verdicts=(
                Verdict("kills", self._kills.total(), ""),
                Verdict("jobs that have ended", len(self._ended), "", at_least=1),
                Verdict("restarts of regions", sum(each.result.restarts for each in self._ended), ""),
                Verdict("jobs that have not ended", len(self._under_way), "", at_most=0),
                Verdict("last job ended, after the killers stopped", end_s, "s", at_most=END_S),
                Verdict("jobs that have failed", len(failed), ""),
                Verdict("outputs that are not exact", len(wrong), "", at_most=0),
                *(Verdict(f"left: {what}", count, "", at_most=0) for what, count in left.items()),
            ),
            notes=(f"killed: {kills}.",),
        )


def _kind(process: psutil.Process) -> str:
    """What a process below a worker is; empty where that is nothing to kill."""
    command = process.cmdline()
    if process.name() == "java":
        return "JVM"
    if any(part.endswith("jvm/supervisor.py") for part in command):
        return "supervisor"
    if "firesteel.adapters.spark.task.forkserver" in command:
        parent = process.parent()
        is_forked = parent is not None and "firesteel.adapters.spark.task.forkserver" in parent.cmdline()
        return "task process" if is_forked else "fork server"
    return ""


def _lives(pid: int, begun: float) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return process.create_time() == begun and process.status() != psutil.STATUS_ZOMBIE
    return False


def _ports(master: Process) -> tuple[str, ...]:
    """Options that have it listen where it did."""
    rpc = master.found.split(",")[0].rpartition(":")[2]
    rest = master.found.rpartition(":")[2]
    return "-D", f"jobmanager.rpc.port={rpc}", "-D", f"rest.port={rest}"


def _inside(path: str) -> list[str]:
    return sorted(str(each) for each in Path(path).rglob("*"))
