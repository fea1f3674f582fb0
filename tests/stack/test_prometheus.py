"""A real Prometheus scrapes a master with workers of their own, and its alerts fire when something is wrong."""

import asyncio
import contextlib
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from firesteel.model.jobgraph import JobType
from tests.network.processes import Cluster, cluster, until
from tests.rest.cluster import graph
from tests.tidy.source import ROOT

DEPLOYED = ROOT / "deploy" / "metrics"

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="no Prometheus: make prometheus"
)


def promtool(*arguments: str, text: str = "") -> str:
    """What it says; it must be content."""
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_files_are_ones_that_prometheus_takes() -> None:
    assert "SUCCESS" in promtool("check", "config", str(DEPLOYED / "prometheus.yml"))
    assert "SUCCESS" in promtool("check", "rules", str(DEPLOYED / "alerts.yml"))


@contextlib.asynccontextmanager
async def prometheus(directory: Path, target: str) -> AsyncIterator[httpx.AsyncClient]:
    """The configuration that is deployed, with times for a test."""
    config = yaml.safe_load((DEPLOYED / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    rules = (DEPLOYED / "alerts.yml").read_text()
    (directory / "alerts.yml").write_text(re.sub(r"oldest_wait_seconds > 600", "oldest_wait_seconds > 1", rules))
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    with open(directory / "prometheus.log", "ab") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            "--web.listen-address=127.0.0.1:0",
            stdout=log,
            stderr=log,
        )
    try:
        address = await listens_at(directory / "prometheus.log")
        async with httpx.AsyncClient(base_url=f"http://{address}") as client:
            yield client
    finally:
        process.terminate()
        await process.wait()


async def listens_at(log: Path) -> str:
    found: list[str] = []

    async def is_known() -> bool:
        found[:] = re.findall(r'Listening on" address=(\S+)', log.read_text())
        return bool(found)

    await until(is_known)
    return found[0]


async def query(client: httpx.AsyncClient, text: str) -> list[Any]:
    answer = await client.get("/api/v1/query", params={"query": text})
    result: list[Any] = answer.json().get("data", {}).get("result", [])
    return result


async def firing(client: httpx.AsyncClient) -> set[str]:
    alerts = (await client.get("/api/v1/alerts")).json()["data"]["alerts"]
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def test_a_dead_worker_and_a_job_that_waits_too_long_are_noticed(tmp_path: Path) -> None:
    async def story() -> None:
        options = {"taskmanager.numberOfTaskSlots": "1", "heartbeat.interval": "200 ms"}
        async with cluster(tmp_path, options) as made:
            worker = await made.start_worker("w1")
            await made.start_worker("w2")
            await made.until_slots(2)
            host, port = made.master.rest.host_port
            (tmp_path / "prometheus").mkdir()
            async with prometheus(tmp_path / "prometheus", f"{host}:{port}") as client:
                await until(lambda: has_both_workers(client))
                assert await firing(client) == set()
                await fill(made)
                await until(lambda: fires(client, "FiresteelJobWaitsTooLong"))
                assert "FiresteelWorkerLost" not in await firing(client)
                worker.kill()
                await until(lambda: fires(client, "FiresteelWorkerLost"))
                exposition = (await client.get(f"http://{host}:{port}/metrics")).text
                promtool("check", "metrics", text=exposition)

    asyncio.run(story())


def test_checkpoints_that_fail_are_noticed(tmp_path: Path) -> None:
    stream = graph("clicks -> counts", "stream", job_type=JobType.STREAMING)

    async def story() -> None:
        options = {
            "taskmanager.numberOfTaskSlots": "1",
            "heartbeat.interval": "200 ms",
            "execution.checkpointing.interval": "200 ms",
            "execution.checkpointing.tolerable-failed-checkpoints": "1000",
        }
        async with cluster(tmp_path, options) as made:
            made.hold("clicks")
            await made.start_worker("w1")
            await made.until_slots(1)
            host, port = made.master.rest.host_port
            (tmp_path / "prometheus").mkdir()
            async with prometheus(tmp_path / "prometheus", f"{host}:{port}") as client:
                await made.client.submit_job(stream, {})
                await until(lambda: has_completed_checkpoints(client))
                assert await firing(client) == set()
                (tmp_path / "checkpoint-error").write_text("the disk is away")
                await until(lambda: fires(client, "FiresteelCheckpointsFail"))
                (alert,) = (await client.get("/api/v1/alerts")).json()["data"]["alerts"]
                assert alert["annotations"]["summary"] == "Checkpoints of job stream fail"

    asyncio.run(story())


async def has_completed_checkpoints(client: httpx.AsyncClient) -> bool:
    return bool(await query(client, "firesteel_job_number_of_completed_checkpoints_total > 1"))


async def has_both_workers(client: httpx.AsyncClient) -> bool:
    return len(await query(client, "firesteel_taskmanager_process_resident_memory_bytes")) == 2


async def fires(client: httpx.AsyncClient, alert: str) -> bool:
    return alert in await firing(client)


async def fill(made: Cluster) -> None:
    """Jobs for both slots, and one that waits."""
    made.hold("lines")
    for number in range(3):
        await made.client.submit_job(graph("lines", f"job-{number}"), {})
