"""A job whose regions store results where workers share them, and what is done to it; for all storages."""

import asyncio
import re
import signal
from collections.abc import Mapping
from pathlib import Path

import psutil

from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobView
from tests.integration.cluster.files import HEADER
from tests.integration.cluster.test_jobs import rows_of
from tests.integration.cluster.test_session_cluster import LIMIT_S, Session, wait_for

BODY = """
import os, time

def noted(directory, what):
    with open(f"{directory}/{what}", "a") as file:
        file.write(f"{os.getpid()}\\n")

@pipeline.source(parallelism=2, splits=fs.range_splits("n", 0, 4_000, 40))
def numbers(spark: SparkSession, splits: fs.RangeSplits, directory: str, context) -> DataFrame:
    noted(directory, f"numbers-{context.subtask}-{context.attempt}")
    return splits.read(spark).withColumn("k", F.col("n") % 7)

@pipeline.transform(parallelism=3, inputs={"numbers": fs.hash_by("k")})
def counts(numbers: DataFrame, directory: str, context) -> DataFrame:
    if context.subtask == 0:
        noted(directory, "counts")
        while os.path.exists(f"{directory}/hold"):
            time.sleep(0.05)
    return numbers.groupBy("k").count()

@pipeline.sink
def result(counts: DataFrame, output: str) -> None:
    fs.write_parquet(counts, output)
"""
OUTAGE_LIMIT_S = 900.0
EXPECTED = {k: len(range(k, 4_000, 7)) for k in range(7)}
RETRY = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"}


def found(output: Path) -> dict[int, int]:
    return {row["k"]: row["count"] for row in rows_of(output)}


def kill_a_worker(directory: Path, options: Mapping[str, str]) -> None:
    """Of two, the one whose consumer runs: its rows are right, and no producer runs again."""
    session = Session(directory)
    (directory / "job.py").write_text(HEADER + BODY)
    (directory / "hold").touch()
    given = [*_arguments({**options, "jobmanager.rpc.port": "0", "rest.port": "0"})]
    code, _, err = session.command("cluster", "start", "--taskmanagers", "2", *given)
    assert (code, err) == (0, "")
    try:
        parameters = ("-p", f"directory={directory}", "-p", f"output={directory / 'out'}")
        job = session.start("run", "--master", session.master(), "job.py", *parameters, *_arguments(RETRY))
        (attempt, *_) = wait_for(directory / "counts", 1)
        workers = session.pids("taskmanager")
        (mine,) = [parent for parent in psutil.Process(int(attempt)).parents() if parent.pid in workers]
        mine.send_signal(signal.SIGKILL)
        (directory / "hold").unlink()
        out, err = job.communicate(timeout=LIMIT_S)
        assert job.returncode == 0, out + err
        assert found(directory / "out") == EXPECTED
        assert len((directory / "counts").read_text().splitlines()) == 2
        assert sorted(path.name for path in directory.glob("numbers-*")) == ["numbers-0-0", "numbers-1-0"]
    finally:
        session.command("cluster", "stop")


async def reason_told(cluster: MiniCluster, job_id: JobID, pattern: str, status: JobStatus) -> JobView:
    """The first view in this status that gives such a reason."""
    async with asyncio.timeout(OUTAGE_LIMIT_S):
        while True:
            view = await cluster.client.request_job(job_id)
            if view.status is status and re.search(pattern, view.reason):
                return view
            assert not view.status.is_globally_terminal, view.exceptions
            await asyncio.sleep(0.05)


def _arguments(options: Mapping[str, str]) -> list[str]:
    return [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
