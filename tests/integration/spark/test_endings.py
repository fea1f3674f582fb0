"""How things end: cancelled attempts, dead JVMs, dead workers. Each test has a backend of its own."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.clusters.sessions import session_of
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.failures import FailureKind
from firesteel.model.options import Configuration
from firesteel.runtime.ports import TaskFailedError
from tests.integration.spark.conftest import CONFIGURATION
from tests.integration.spark.jobs import JobMaker, deployment, function, run
from tests.processes import descendants, jvms, listening_ports

pytestmark = pytest.mark.spark

SLOW = """
from firesteel.adapters.spark.sinks.files import write_parquet
from pyspark.sql import functions as F
import os, pathlib, time

def slow(spark, mark, output):
    print("pid", os.getpid())
    def nap(x):
        pathlib.Path(mark + ".task").touch()
        time.sleep(60)
        return x

    slowly = F.udf(nap, "long")
    rows = spark.range(100).select(slowly("id").alias("x"))
    pathlib.Path(mark).write_text(str(os.getpid()))
    write_parquet(rows, output)

def quick(spark, output):
    write_parquet(spark.range(3), output)
"""
LATE = """
from firesteel.adapters.spark.sinks.files import write_parquet
import pathlib, signal, time

def late(spark, mark, output):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rows = spark.range(3)
    pathlib.Path(mark).write_text("here")
    while not pathlib.Path(mark + ".go").exists():
        time.sleep(0.005)
    write_parquet(rows, output)
"""
LATE_SINK = (function("late", "sink", wants_session=True, parameters=("mark", "output")),)
ENDLESS = """
from firesteel.adapters.spark.sinks.files import write_parquet
from pyspark.sql import functions as F
import pathlib

def endless(spark, mark, output):
    rows = spark.range(10**13).select((F.rand() + F.col("id")).alias("x"))
    pathlib.Path(mark).write_text("now")
    write_parquet(rows.groupBy((F.col("x") % 7).alias("k")).count(), output)
"""
ENDLESS_SINK = (function("endless", "sink", wants_session=True, parameters=("mark", "output")),)
SLOW_SINK = (function("slow", "sink", wants_session=True, parameters=("mark", "output")),)
QUICK_SINK = (function("quick", "sink", wants_session=True, parameters=("output",)),)


def open_session(payload: bytes) -> bytes:
    """Called in a child: the error of opening a session by name, or nothing."""
    from firesteel.adapters.spark.session.attempt import AttemptSession
    from firesteel.adapters.spark.wire import SessionName, SparkAddress

    port, token, user, name = payload.decode().split()
    session = AttemptSession(lambda: SparkAddress(int(port), token, 1), SessionName(user, name), "probe", {})
    try:
        session.get().range(1).count()
    except Exception as error:
        return str(error).encode()
    return b""


async def appears(path: Path) -> str:
    """What the user's code writes to `path`: the only event it can send to a test."""
    async with asyncio.timeout(300):
        while not (path.exists() and path.read_text()):
            await asyncio.sleep(0.02)
    return path.read_text()


async def until_gone(pid: int) -> None:
    """Who was killed is there for a moment, at least until that is taken note of."""
    async with asyncio.timeout(300):
        while psutil.pid_exists(pid):
            await asyncio.sleep(0.02)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "work"
    left = [process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])]
    assert not psutil.wait_procs(left, timeout=300)[1], "what was killed takes a moment to end; nothing else ends"


def running_jobs(work: Path) -> list[int]:
    """Ids of the jobs that run in the JVM that works in this directory, as Spark's own web interface says."""
    found: list[int] = []
    for jvm in (each for each in jvms() if str(work) in " ".join(each.cmdline())):
        for port in listening_ports(jvm):
            base = f"http://127.0.0.1:{port}/api/v1/applications"
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):  # a port of another kind
                (application,) = json.load(urllib.request.urlopen(base, timeout=300))
                jobs = json.load(urllib.request.urlopen(f"{base}/{application['id']}/jobs?status=running", timeout=300))
                found += [job["jobId"] for job in jobs]
    return found


def new_backend(work: Path, blobs: LocalBlobStore) -> SparkTaskBackend:
    return SparkTaskBackend(Configuration(CONFIGURATION), work, blobs)


def test_a_cancelled_attempt_leaves_no_process_session_or_file(
    work: Path, tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker
) -> None:
    async def story() -> None:
        backend = new_backend(work, blobs)
        await backend.start()
        parameters = {"mark": str(tmp_path / "mark"), "output": str(tmp_path / "out")}
        job = jobs.job(SLOW, SLOW_SINK, parameters=parameters)
        running = asyncio.get_running_loop().create_task(run(backend, job))
        pid = int(await appears(tmp_path / "mark"))
        while not (tmp_path / "mark.task").exists():  # Spark can lose an interrupt that meets a job being submitted
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until_gone(pid)
        assert not (work / "attempts" / job.graph.job_id / "0-0").exists()
        assert not (tmp_path / ".firesteel-staging").exists()
        endpoint = await backend.endpoint()
        name = session_of(deployment(job).attempt, "tester").session_id
        probe = f"{endpoint.port} {endpoint.token} tester {name}".encode()
        sys_path = str(Path(__file__).parents[3])
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), sys_path)))
        answer = await backend.call("tests.integration.spark.test_endings:open_session", probe)
        assert b"SESSION_CLOSED" in answer
        quick = jobs.job(SLOW, QUICK_SINK, parameters={"output": str(tmp_path / "out")})
        assert (await run(backend, quick)).sinks[0].rows == 3
        await backend.close()

    asyncio.run(story())


def test_what_a_cancelled_attempt_begins_to_write_before_it_is_dead_goes_too(
    work: Path, tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker
) -> None:
    """Nobody listens any more when it says where: the target would be claimed for good."""

    async def story() -> None:
        backend = new_backend(work, blobs)
        await backend.start()
        mark, staging = tmp_path / "mark", tmp_path / ".firesteel-staging"
        parameters = {"mark": str(mark), "output": str(tmp_path / "out")}
        running = asyncio.get_running_loop().create_task(run(backend, jobs.job(LATE, LATE_SINK, parameters=parameters)))
        await appears(mark)
        running.cancel()
        (tmp_path / "mark.go").touch()
        with pytest.raises(asyncio.CancelledError):
            await running
        await backend.close()
        assert not staging.exists()

    asyncio.run(story())


def test_attempts_that_are_cancelled_while_they_submit_leave_no_spark_job(
    work: Path, tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker
) -> None:
    async def cancel_one(backend: SparkTaskBackend, number: int, delay_s: float) -> None:
        mark = tmp_path / f"mark{number}"
        job = jobs.job(ENDLESS, ENDLESS_SINK, parameters={"mark": str(mark), "output": str(tmp_path / "out")})
        running = asyncio.get_running_loop().create_task(run(backend, job))
        await appears(mark)
        await asyncio.sleep(delay_s)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def story() -> None:
        config = Configuration({**CONFIGURATION, "spark.ui.enabled": "true", "spark.ui.port": "0"})
        backend = SparkTaskBackend(config, work, blobs)
        await backend.start()
        for number in range(4):
            await cancel_one(backend, number, 0.1 * number)
        quiet = 0
        async with asyncio.timeout(400):
            while quiet < 3:
                quiet = 0 if await asyncio.to_thread(running_jobs, work) else quiet + 1
                await asyncio.sleep(1)
        quick = jobs.job(SLOW, QUICK_SINK, parameters={"output": str(tmp_path / "out")})
        assert (await run(backend, quick)).sinks[0].rows == 3
        await backend.close()

    asyncio.run(story())


def test_attempts_fail_at_once_when_the_jvm_dies_and_the_next_one_runs(
    work: Path, tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker
) -> None:
    async def story() -> None:
        others = set(jvms())
        backend = new_backend(work, blobs)
        await backend.start()
        parameters = {"mark": str(tmp_path / "mark"), "output": str(tmp_path / "out")}
        running = asyncio.get_running_loop().create_task(run(backend, jobs.job(SLOW, SLOW_SINK, parameters=parameters)))
        pid = int(await appears(tmp_path / "mark"))
        (jvm,) = set(jvms()) - others
        jvm.kill()
        with pytest.raises(TaskFailedError) as caught:
            async with asyncio.timeout(300):
                await running
        assert caught.value.failure.kind is FailureKind.ENVIRONMENT
        assert "the Spark backend was killed (SIGKILL)" in caught.value.failure.message
        quick = jobs.job(SLOW, QUICK_SINK, parameters={"output": str(tmp_path / "out")})
        assert (await run(backend, quick)).sinks[0].rows == 3
        await until_gone(pid)
        await backend.close()

    asyncio.run(story())


def is_fork_server(process: psutil.Process) -> bool:
    """Whether it is one, not a task process that one has made."""
    return process.ppid() == os.getpid() and any("forkserver" in part for part in process.cmdline())


def test_a_dead_fork_server_is_replaced(work: Path, tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker) -> None:
    async def story() -> None:
        others = set(descendants(is_fork_server))
        backend = new_backend(work, blobs)
        await backend.start()
        parameters = {"mark": str(tmp_path / "mark"), "output": str(tmp_path / "out")}
        running = asyncio.get_running_loop().create_task(run(backend, jobs.job(SLOW, SLOW_SINK, parameters=parameters)))
        pid = int(await appears(tmp_path / "mark"))
        (forks,) = set(descendants(is_fork_server)) - others
        forks.kill()
        with pytest.raises(TaskFailedError) as caught:
            await running
        assert caught.value.failure.kind is FailureKind.ENVIRONMENT
        quick = jobs.job(SLOW, QUICK_SINK, parameters={"output": str(tmp_path / "out")})
        assert (await run(backend, quick)).sinks[0].rows == 3
        await until_gone(pid)
        await backend.close()

    asyncio.run(story())


WORKER = """
import asyncio, sys
from pathlib import Path
from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from tests.integration.spark.conftest import CONFIGURATION
from tests.integration.spark.jobs import JobMaker, run
from tests.integration.spark.test_endings import SLOW, SLOW_SINK

async def main(root):
    blobs = LocalBlobStore(root / "blobs")
    backend = SparkTaskBackend(Configuration(CONFIGURATION), root / "work", blobs)
    await backend.start()
    parameters = {"mark": str(root / "mark"), "output": str(root / "out")}
    await run(backend, JobMaker(blobs, root).job(SLOW, SLOW_SINK, parameters=parameters))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_everything_dies_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)], env=environment)
    try:
        asyncio.run(appears(tmp_path / "mark"))
        family = psutil.Process(worker.pid).children(recursive=True)
        assert {"java"} <= {process.name() for process in family}
        assert len(family) >= 5
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    _, alive = psutil.wait_procs(family, timeout=300)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
