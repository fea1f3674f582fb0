"""Workers whose Spark is an application on a real YARN, from Hadoop's own servers."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from firesteel.adapters.spark.jvm.launch import find_installation
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, says, started
from tests.stack.hadoop import Yarn, yarn
from tools import standalone

LIMIT_S = 300.0
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SLOW = """
import time

@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(20).repartition(4)

@pipeline.sink
def result(rows: DataFrame, output: str) -> None:
    @F.udf("long")
    def slow(number):
        time.sleep(SECONDS)
        return number

    fs.write_parquet(rows.select(slow("id").alias("id")), output)
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn") / "servers") as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(made.servers.configuration))
        yield made


def options(directory: Path, queue: str = "default") -> dict[str, str]:
    return {
        "cluster.work-dir": str(directory / "work"),
        "cluster.results-dir": str(directory / "results"),
        "taskmanager.spark.master": "yarn",
        "taskmanager.spark.heap": "700m",
        "taskmanager.spark.class-data-archive": "false",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "spark.yarn.queue": queue,
        "spark.yarn.am.memory": "512m",
        "spark.yarn.jars": f"local:{find_installation().home}/jars/*",
        "spark.executor.memory": "512m",
        "spark.dynamicAllocation.maxExecutors": "2",
    }


def rows_of(output: Path) -> list[int]:
    return sorted(row["id"] for row in pyarrow.parquet.read_table(output).to_pylist())


def test_an_application_that_is_killed_is_told_and_followed_by_another(cloud: Yarn, do: Do, tmp_path: Path) -> None:
    cluster = do(started(options(tmp_path)))
    try:
        files = Files(cluster, do, tmp_path)
        job_id = do(files.submit(files.write(SLOW.replace("SECONDS", "2")), {"output": str(tmp_path / "out")}))
        (first,) = cloud.applications("RUNNING")

        async def begins() -> None:
            async with asyncio.timeout(LIMIT_S):
                while not (await cluster.client.request_job(job_id)).vertices[0].progress:
                    await asyncio.sleep(0.2)

        do(begins())
        cloud.kill(first)
        result = do(cluster.client.request_job_result(job_id))
        assert (result.status, result.restarts) == (JobStatus.FINISHED, 1)
        assert rows_of(tmp_path / "out") == list(range(20))
        (failed,) = do(cluster.client.request_job(job_id)).exceptions
        assert failed.failure.message.startswith(f"the application {first} was ended by yarn: its state is KILLED (")
        (second,) = cloud.applications("RUNNING")
        assert second != first
    finally:
        do(cluster.close())


def test_a_full_queue_is_waited_for_with_its_reason(cloud: Yarn, do: Do, tmp_path: Path) -> None:
    """And what waits there is withdrawn by a worker that ends."""
    holder = do(started(options(tmp_path / "holder", "tight")))
    clusters = [holder]
    try:
        (held,) = cloud.applications("RUNNING")
        short = {**options(tmp_path / "waits", "tight"), "taskmanager.spark.start-timeout": "5 s"}
        waits = do(started(short))
        clusters.append(waits)
        files = Files(waits, do, tmp_path)
        file = files.write(SLOW.replace("SECONDS", "0"))
        job_id = do(files.submit(file, {"output": str(tmp_path / "out")}))
        (queued,) = cloud.applications("ACCEPTED")
        do(says(waits, job_id, f"yarn has not begun {queued} yet, which waits in the queue root.tight: ", "limit"))
        cloud.kill(held)
        assert do(waits.client.request_job_result(job_id)).status is JobStatus.FINISHED
        assert rows_of(tmp_path / "out") == list(range(20))
        third = do(started({**short, "cluster.work-dir": str(tmp_path / "third")}))
        clusters.append(third)
        newest = max(cloud.applications("ACCEPTED"))  # the holder's next one waits, too
        do(third.close())
        assert newest not in cloud.applications("ACCEPTED", "RUNNING"), "withdrawn"
    finally:
        for each in clusters:
            do(each.close())


def test_a_connect_server_in_yarns_cluster_mode_is_attached_to(cloud: Yarn, do: Do, tmp_path: Path) -> None:
    """As `docs/spark-clusters.md` says: the driver is in a container of YARN's, and is YARN's to start and stop."""
    with connect_server(cloud, tmp_path) as url:
        cluster = do(started({"cluster.work-dir": str(tmp_path / "work"), "taskmanager.spark.master": url}))
        try:
            files = Files(cluster, do, tmp_path)
            job_id = do(files.submit(files.write(SLOW.replace("SECONDS", "0")), {"output": str(tmp_path / "out")}))
            assert do(cluster.client.request_job_result(job_id)).status is JobStatus.FINISHED
            assert rows_of(tmp_path / "out") == list(range(20))
        finally:
            do(cluster.close())
        assert [*cloud.applications("RUNNING").values()] == ["RUNNING"], "it is not ours to stop"


@contextlib.contextmanager
def connect_server(cloud: Yarn, directory: Path) -> Iterator[str]:
    """The URL of a Connect server whose driver is the application master of a YARN application of its own."""
    installation = find_installation()
    port = standalone.free_port()
    settings = {
        "spark.yarn.jars": f"local:{installation.home}/jars/*",
        "spark.yarn.stagingDir": str(directory / "staging"),
        "spark.driver.memory": "700m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
        "spark.pyspark.python": sys.executable,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.yarn.submit.waitAppCompletion": "false",
    }
    (connect,) = installation.home.glob("jars/spark-connect_2.13-*.jar")
    command = [str(installation.home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster"]
    command += [part for key, text in settings.items() for part in ("--conf", f"{key}={text}")]
    command += ["--class", CONNECT_SERVER, f"local:{connect}"]
    environment = {**os.environ, "JAVA_HOME": str(Path(installation.java).parents[1]), "PYSPARK_PYTHON": sys.executable}
    before = {*cloud.applications("RUNNING")}
    subprocess.run(command, env=environment, check=True, timeout=LIMIT_S)
    try:
        cloud.servers.wait_until(lambda: answers(port))
        yield f"sc://127.0.0.1:{port}"
    finally:
        for application in {*cloud.applications("ACCEPTED", "RUNNING")} - before:
            cloud.kill(application)


def answers(port: int) -> bool:
    """Raises OSError where nobody listens."""
    socket.create_connection(("127.0.0.1", port), timeout=1).close()
    return True
