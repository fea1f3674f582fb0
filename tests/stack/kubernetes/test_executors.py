"""Workers whose Spark is an application on Kubernetes: a real API server and scheduler, and a node without containers."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet
import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.runtime.ports import TaskFailedError
from tests.integration.cluster.files import HEADER, Files
from tests.stack.conftest import Do, says, started, until
from tests.stack.kubernetes.apiserver import NAMESPACE, RealApiServer, created, manifests, scheduler
from tests.stack.kubernetes.kubelet import HERE, MERGE, Kubelet
from tools.standalone import free_port

LIMIT_S = 300.0
PODS = f"api/v1/namespaces/{NAMESPACE}/pods"
ROWS = 40
COUNTED = """
import time

@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(ROWS).repartition(4)

@pipeline.transform
def slowly(rows: DataFrame) -> DataFrame:
    @F.udf("long")
    def slow(number):
        time.sleep(SECONDS)
        return number % 7

    return rows.select(slow("id").alias("key"))

@pipeline.sink
def result(slowly: DataFrame, output: str) -> None:
    fs.write_parquet(slowly.groupBy("key").count(), output)
"""


@dataclass(frozen=True)
class Cloud:
    server: RealApiServer
    node: Kubelet

    def pods(self) -> list[str]:
        with self.server.admin() as admin:
            return [each["metadata"]["name"] for each in admin.get(PODS).raise_for_status().json()["items"]]


@pytest.fixture(scope="module")
def cloud(api_server: RealApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with scheduler(api_server), api_server.admin() as admin:
        api_server.admit("executors")
        created(admin, {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}})
        for manifest in manifests("executors.yaml"):
            created(admin, manifest)
        created(admin, {"kind": "Namespace", "metadata": {"name": "elsewhere"}})
        node = Kubelet(api_server.admin, tmp_path_factory.mktemp("node") / "pods")
        node.start()
        try:
            yield Cloud(api_server, node)
        finally:
            node.stop()
            assert node.problems == []


@pytest.fixture(autouse=True)
def worker_account(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers and their drivers are the manifests' service account of workers."""
    monkeypatch.setenv("KUBECONFIG", str(cloud.server.kubeconfig("reader")))


def options(cloud: Cloud, directory: Path) -> dict[str, str]:
    return {
        "cluster.work-dir": str(directory / "work"),
        "cluster.results-dir": str(directory / "results"),
        "taskmanager.spark.master": f"k8s://https://127.0.0.1:{cloud.server.port}",
        "taskmanager.spark.heap": "700m",
        "taskmanager.spark.class-data-archive": "false",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "spark.kubernetes.container.image": "firesteel",
        "spark.executor.memory": "512m",
        "spark.dynamicAllocation.maxExecutors": "2",
    }


def submitted(files: Files, directory: Path, seconds: float) -> JobID:
    body = COUNTED.replace("SECONDS", str(seconds)).replace("ROWS", str(ROWS))
    output = {"output": str(directory / "out")}
    job_id: JobID = files.do(files.submit(files.write(body), output))
    return job_id


def is_right(directory: Path) -> bool:
    rows = pyarrow.parquet.read_table(directory / "out").to_pylist()
    return {row["key"]: row["count"] for row in rows} == {key: len(range(key, ROWS, 7)) for key in range(7)}


def test_an_executor_that_is_killed_costs_its_tasks(cloud: Cloud, do: Do, tmp_path: Path) -> None:
    """And a worker that ends leaves no pod."""
    cluster = do(started(options(cloud, tmp_path)))
    try:
        job_id = submitted(Files(cluster, do, tmp_path), tmp_path, seconds=0.5)
        do(runs(cluster, job_id))
        next(iter(cloud.node.processes.values())).kill()
        result = do(cluster.client.request_job_result(job_id))
        assert (result.status, result.restarts) == (JobStatus.FINISHED, 0)
        assert is_right(tmp_path)
        (worker,) = cluster.workers.values()
        (application,) = worker.backend.applications()
        assert application.application.startswith("spark-"), "as its pods have it"
    finally:
        do(cluster.close())
    do(until(lambda: not cloud.pods() and not cloud.node.processes))
    assert (cloud.pods(), cloud.node.processes) == ([], {})


def test_a_driver_that_is_killed_is_followed_by_another(cloud: Cloud, do: Do, tmp_path: Path) -> None:
    cluster = do(started(options(cloud, tmp_path)))
    try:
        job_id = submitted(Files(cluster, do, tmp_path), tmp_path, seconds=0.5)
        do(runs(cluster, job_id))
        first = {*cloud.pods()}
        driver().kill()
        result = do(cluster.client.request_job_result(job_id))
        assert (result.status, result.restarts) == (JobStatus.FINISHED, 1)
        assert is_right(tmp_path)
        assert first.isdisjoint(cloud.pods()), "pods of the first driver are deleted"
    finally:
        do(cluster.close())


def test_a_worker_that_is_killed_leaves_no_pod(cloud: Cloud, do: Do, tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(HEADER + COUNTED.replace("SECONDS", "5").replace("ROWS", str(ROWS)))
    settings = [text for key, value in options(cloud, tmp_path).items() for text in ("-D", f"{key}={value}")]
    program = str(Path(sys.executable).with_name("firesteel"))
    command = [program, "run", str(file), *settings, "-p", f"output={tmp_path / 'out'}"]
    with open(tmp_path / "said", "wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        do(until(lambda: bool(cloud.node.processes) or process.poll() is not None, LIMIT_S))
        assert cloud.node.processes, (tmp_path / "said").read_text()
    finally:
        process.kill()
        process.wait()
    do(until(lambda: not cloud.pods() and not cloud.node.processes))
    assert (cloud.pods(), cloud.node.processes) == ([], {})


def test_a_cluster_without_room_is_waited_for_with_its_reason(cloud: Cloud, do: Do, tmp_path: Path) -> None:
    cloud.node.grow("100m")
    cluster = do(started(options(cloud, tmp_path)))
    try:
        job_id = submitted(Files(cluster, do, tmp_path), tmp_path, seconds=0)
        do(says(cluster, job_id, "waits for executors of k8s://", "(Unschedulable: ", "Insufficient cpu"))
        cloud.node.grow("4")
        assert do(cluster.client.request_job_result(job_id)).status is JobStatus.FINISHED
        assert is_right(tmp_path)
    finally:
        cloud.node.grow("4")
        do(cluster.close())


def test_a_full_quota_is_waited_for_with_its_reason(cloud: Cloud, do: Do, tmp_path: Path) -> None:
    quota = f"api/v1/namespaces/{NAMESPACE}/resourcequotas"
    full = {
        "metadata": {"name": "full"},
        "spec": {"hard": {"pods": "0"}},
        "status": {"hard": {"pods": "0"}, "used": {"pods": "0"}},
    }
    with cloud.server.admin() as admin:
        admin.post(quota, json=full).raise_for_status()
        admin.patch(f"{quota}/full/status", json={"status": full["status"]}, headers=MERGE).raise_for_status()
        cluster = do(started(options(cloud, tmp_path)))
        try:
            job_id = submitted(Files(cluster, do, tmp_path), tmp_path, seconds=0)
            do(
                says(
                    cluster,
                    job_id,
                    "waits for executors of k8s://",
                    "Kubernetes refuses pods: ",
                    "exceeded quota: full",
                )
            )
            admin.delete(f"{quota}/full").raise_for_status()
            assert do(cluster.client.request_job_result(job_id)).status is JobStatus.FINISHED
            assert is_right(tmp_path)
        finally:
            admin.delete(f"{quota}/full")
            do(cluster.close())


def test_executors_that_can_not_begin_are_told(
    cloud: Cloud, do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(HERE, "FIRESTEEL_HOME", str(tmp_path / "no installation"))
    with pytest.raises(TaskFailedError, match=r"executors of k8s://.* start and end before they reach the driver on "):
        do(started(options(cloud, tmp_path)))


@pytest.mark.parametrize(
    ("changed", "user", "told"),
    [
        ({"taskmanager.spark.master": f"k8s://https://127.0.0.1:{free_port()}"}, "reader", "can't be reached from"),
        ({}, "nobody", "Unauthorized"),
        ({"spark.kubernetes.namespace": "elsewhere"}, "reader", "a Role must allow that"),
        ({"spark.kubernetes.namespace": "nowhere"}, "admin", "has no namespace 'nowhere'"),
        ({"spark.kubernetes.container.image": ""}, "reader", "set spark.kubernetes.container.image"),
    ],
    ids=["unreachable", "unknown account", "another namespace", "no namespace", "no image"],
)
def test_what_can_not_be_used_is_told(
    cloud: Cloud, do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], user: str, told: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cloud.server.kubeconfig(user)))
    with pytest.raises(TaskFailedError) as failed:
        do(started({**options(cloud, tmp_path), **changed}))
    assert told in str(failed.value)


def driver() -> psutil.Process:
    """The JVM of this process's worker."""
    children = psutil.Process().children(recursive=True)
    (found,) = (each for each in children if each.name() == "java" and "SparkSubmit" in " ".join(each.cmdline()))
    return found


async def runs(cluster: MiniCluster, job_id: JobID) -> None:
    """Some tasks of the job are done, and others are not."""
    async with asyncio.timeout(LIMIT_S):
        while not any(vertex.progress for vertex in (await cluster.client.request_job(job_id)).vertices):
            await asyncio.sleep(0.2)
