"""The leader of three masters is killed again and again, while jobs run and clients follow them.

Real processes at default settings: ZooKeeper, three masters, two workers with Spark; batch jobs and long Spark queries.
Where there is a Flink (see `flinkfailover`), its leader is killed then, on the same machine and a ZooKeeper alike.
"""

import asyncio
import contextlib
import dataclasses
import random
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from pyspark.sql import DataFrame, SparkSession

import firesteel as fs
from benchmarks.flinkfailover import KILLS as FLINK_KILLS
from benchmarks.flinkfailover import KILLS_QUICK as FLINK_KILLS_QUICK
from benchmarks.flinkfailover import TASKS, Failovers, flink_failovers, flink_jars
from benchmarks.report import Report, Series, Verdict
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus

KILLS, KILLS_QUICK = 20, 3
MASTERS, WORKERS, SLOTS = 3, 2, 8
BATCH_JOBS, QUERIES = 20, 3
PAUSE_MAX_S = 3.0
ANSWER_S_MAX = 5.0
LIMIT_S = 240.0
NOT_IN_HAND = ("INITIALIZING", "RECONCILING", "SUSPENDED")

batch = fs.Pipeline("batch")
query = fs.Pipeline("query")


def note(notes: str, spark: SparkSession) -> None:
    """A line for each attempt that begins, with its Spark session: those of one job are never two."""
    with open(notes, "a") as file:
        file.write(f"{spark.session_id}\n")  # type: ignore[attr-defined]


@batch.source
def slow(spark: SparkSession, notes: str, seconds: float) -> DataFrame:
    note(notes, spark)
    time.sleep(seconds)
    return spark.range(0)


@batch.sink
def nothing(slow: DataFrame) -> None:
    """It has taken its time."""


@query.source
def waiting(spark: SparkSession, notes: str, release: str) -> DataFrame:
    """One Spark query that runs until there is a file `release`."""
    note(notes, spark)

    def wait(parts: Iterator[Any]) -> Iterator[Any]:
        import os
        import time

        while not os.path.exists(release):
            time.sleep(0.1)
        yield from parts

    return spark.range(0, 1000, 1, 1).mapInPandas(wait, "id long")


@query.sink
def stored(waiting: DataFrame, output: str) -> None:
    fs.write_parquet(waiting, output, mode="overwrite")


class Process:
    """`firesteel ROLE ...`, which may be started again; `found` is what it said when it was started first."""

    def __init__(self, folder: Path, role: str, name: str, *arguments: str) -> None:
        self._log, self._command = folder / f"{name}.log", [sys.executable, "-m", "firesteel", role, *arguments]
        self._mark = f"started {role} "
        self.found = ""

    async def start(self, *more: str) -> None:
        begin = self._log.stat().st_size if self._log.exists() else 0
        with open(self._log, "ab") as log:  # noqa: ASYNC230 - a local file, once per start
            self.process = await asyncio.create_subprocess_exec(*self._command, *more, stdout=log, stderr=log)
        async with asyncio.timeout(LIMIT_S):
            while self._mark not in (text := self._log.read_text()[begin:]):
                assert self.process.returncode is None, f"it has ended: {self._log}"
                await asyncio.sleep(0.02)
        self.found = text.partition(self._mark)[2].splitlines()[0]

    @property
    def last_words(self) -> str:
        """The end of what it has printed."""
        return self._log.read_text(errors="replace")[-300:].strip()

    async def end(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        await self.process.wait()


def measure(rounds: int, *, quick: bool = False) -> Report:
    """Seconds from the SIGKILL of a leader to an answer of the next one, and to its jobs being in hand again; attempts
    that were begun again."""
    ours = asyncio.run(_measure(KILLS_QUICK if quick else KILLS))
    jars = flink_jars()
    if jars is None:
        return dataclasses.replace(ours, notes=("no Flink beside it: see benchmarks/flinkfailover.py",))
    try:
        flink = asyncio.run(_measure_flink(jars, FLINK_KILLS_QUICK if quick else FLINK_KILLS))
    except (AssertionError, TimeoutError) as error:
        return dataclasses.replace(ours, notes=(f"Flink could not be measured: {error!r}",))
    return _beside(ours, flink)


async def _measure_flink(jars: Path, kills: int) -> Failovers:
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        async with _zookeeper(Path(scratch)) as quorum:
            return await flink_failovers(jars, Path(scratch) / "flink", quorum, kills)


def _beside(ours: Report, flink: Failovers) -> Report:
    taken = ours.series[-1]
    runs = Series("Flink's leader killed to its job RUNNING", "s", tuple(flink.runs))
    return dataclasses.replace(
        ours,
        series=(
            *ours.series,
            Series("Flink's leader killed to the next one's answer", "s", tuple(flink.answers)),
            runs,
        ),
        verdicts=(
            *ours.verdicts,
            Verdict("Flink, slowest until its job was RUNNING", max(runs.values), "s"),
            Verdict("until jobs are in hand, Flink's median of ours", runs.median / taken.median, "times"),
            Verdict(f"Flink, tasks begun again by {len(flink.runs)} kills", flink.tasks_begun_again, ""),
        ),
        notes=(f"Flink ran one job of {TASKS} tasks.",),
    )


async def _measure(kills: int) -> Report:
    answers: list[float] = []
    in_hand: list[float] = []
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        folder = Path(scratch)
        notes = [folder / f"notes-{number}" for number in range(BATCH_JOBS + QUERIES)]
        async with _cluster(folder) as masters, asyncio.TaskGroup() as followers:
            urls = [master.found.rpartition(" ")[2] for master in masters]
            ports = [master.found.split(",")[0].rpartition(":")[2] for master in masters]
            client = HttpClusterClient(urls, patience_s=LIMIT_S)
            jobs = [await _submit(client, folder, number) for number in range(BATCH_JOBS + QUERIES)]
            followed = [followers.create_task(_follow(client, job)) for job in jobs]
            while not all(each.exists() for each in notes[BATCH_JOBS:]):  # noqa: ASYNC110 - other processes make them
                await asyncio.sleep(0.1)
            for number in range(kills):
                await asyncio.sleep(random.uniform(0, PAUSE_MAX_S))
                leader = await _leader(urls)
                begin = time.perf_counter()
                await masters[leader].end(signal.SIGKILL)
                left = [url for place, url in enumerate(urls) if place != leader]
                await _until(left, "/v1/overview", lambda answer: True)
                answers.append(time.perf_counter() - begin)
                await _until(left, "/v1/jobs", _are_in_hand)
                in_hand.append(time.perf_counter() - begin)
                figures = f"answered after {answers[-1]:.2f} s, all jobs in hand after {in_hand[-1]:.2f} s"
                print(f"kill {number + 1}: {figures}", flush=True)
                rest = urls[leader].rpartition(":")[2]
                await masters[leader].start("-D", f"jobmanager.rpc.port={ports[leader]}", "-D", f"rest.port={rest}")
            (folder / "release").touch()
            ended = [await each for each in followed]
            results = [await client.request_job_result(job) for job in jobs]
            await client.close()
        begun = [len(each.read_text().splitlines()) for each in notes]
    wrong = [result for result in results if result.status is not JobStatus.FINISHED]
    lost = sum(status is not JobStatus.FINISHED for status in ended)
    again = sum(begun) - len(jobs) + sum(result.restarts for result in results)
    return Report(
        "failover",
        (
            Series("leader killed to the next one's answer", "s", tuple(answers)),
            Series("leader killed to all jobs in hand", "s", tuple(in_hand)),
        ),
        (
            Verdict("slowest answer", max(answers), "s", at_most=ANSWER_S_MAX),
            Verdict("slowest until all jobs were in hand", max(in_hand), "s"),
            Verdict("attempts begun again", again, "", at_most=0),
            Verdict("jobs that did not finish", len(wrong), "", at_most=0),
            Verdict("followers that were lost", lost, "", at_most=0),
        ),
    )


@contextlib.asynccontextmanager
async def _zookeeper(folder: Path) -> AsyncIterator[str]:
    """HOST:PORT of a server."""
    server = Process(folder, "zookeeper", "zookeeper", "--port", "0")
    await server.start()
    try:
        yield server.found.rpartition(" ")[2]
    finally:
        await server.end(signal.SIGTERM)


@contextlib.asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[list[Process]]:
    async with contextlib.AsyncExitStack() as ends:
        quorum = await ends.enter_async_context(_zookeeper(folder))
        options = _options(folder, quorum)
        arguments = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        masters = [Process(folder, "jobmanager", f"master{number}", *arguments) for number in range(MASTERS)]
        workers = [Process(folder, "taskmanager", f"worker{number}", *arguments) for number in range(WORKERS)]
        for each in masters:
            await each.start("-D", "jobmanager.rpc.port=0", "-D", "rest.port=0")
            ends.push_async_callback(each.end, signal.SIGTERM)
        for each in workers:
            await each.start()
            ends.push_async_callback(each.end, signal.SIGTERM)
        yield masters


def _options(folder: Path, quorum: str) -> dict[str, str]:
    return {
        "jobmanager.rpc.address": "127.0.0.1",
        "high-availability.type": "zookeeper",
        "high-availability.storageDir": str(folder / "shared"),
        "high-availability.zookeeper.quorum": quorum,
        "cluster.work-dir": str(folder / "work"),
        "taskmanager.numberOfTaskSlots": str(SLOTS),
    }


async def _submit(client: HttpClusterClient, folder: Path, number: int) -> JobID:
    files = folder / "artifacts"
    files.mkdir(exist_ok=True)
    job_id = JobID(uuid.uuid4().hex)
    is_query = number >= BATCH_JOBS
    own = {"release": str(folder / "release"), "output": str(folder / f"out-{number}")}
    parameters = {"notes": str(folder / f"notes-{number}"), **(own if is_query else {"seconds": str(2.0 + 3 * number)})}
    built = fs.build_job(query if is_query else batch, job_id=job_id, parameters=parameters, output_dir=files)
    await client.submit_job(built.graph, built.artifact_paths())
    return job_id


async def _follow(client: HttpClusterClient, job_id: JobID) -> JobStatus:
    status = JobStatus.CREATED
    async for view in client.follow_job(job_id):
        status = view.status
    return status


async def _leader(urls: list[str]) -> int:
    async with httpx.AsyncClient() as http:
        while True:
            for place, url in enumerate(urls):
                with contextlib.suppress(httpx.TransportError):
                    if (await http.get(f"{url}/v1/cluster/leader")).json()["leads"]:
                        return place
            await asyncio.sleep(0.02)


async def _until(urls: list[str], path: str, holds: Callable[[httpx.Response], bool]) -> None:
    """Until a master that is left says so."""
    async with httpx.AsyncClient() as http, asyncio.timeout(LIMIT_S):
        while True:
            for url in urls:
                with contextlib.suppress(httpx.TransportError):
                    answer = await http.get(f"{url}{path}")
                    if answer.status_code == httpx.codes.OK and holds(answer):
                        return
            await asyncio.sleep(0.02)


def _are_in_hand(answer: httpx.Response) -> bool:
    """Whether no job is looked for any more."""
    return not any(job["status"] in NOT_IN_HAND for job in answer.json()["jobs"])
