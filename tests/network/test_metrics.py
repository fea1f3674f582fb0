"""Real processes measure themselves: a master at its REST endpoint, a worker at one of its own."""

import asyncio
import re
import socket
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.network.processes import LIMIT_S, Cluster, cluster, until
from tests.rest.cluster import graph

Samples = dict[str, dict[str, float]]
OPTIONS = {"heartbeat.interval": "200 ms", "metrics.fetcher.update-interval": "100 ms"}


def samples(text: str) -> Samples:
    """Figures by name, and by worker where there is one."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("tm_id", "")] = sample.value
    return found


def port_of(made: Cluster, name: str) -> int:
    found = re.search(r"metrics for Prometheus at port (\d+)", worker_log(made, name))
    return int(found[1]) if found else 0


def worker_log(made: Cluster, name: str) -> str:
    file = made.directory / "work" / name / "logs" / "taskmanager.log"
    return file.read_text() if file.exists() else ""


async def scrape(url: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=LIMIT_S) as client:
        return await client.get(f"{url}/metrics", headers=headers)


def test_masters_and_workers_measure_themselves(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, OPTIONS) as made:
            await made.start_worker("w1", **{"metrics.reporter.prom.port": "0"})
            await made.start_worker("w2")
            await made.until_slots(4)
            job_id = await made.client.submit_job(graph("lines => counts", "it"), {})
            await made.client.request_job_result(job_id)
            rest = made.master.rest.address

            async def both_have_told() -> bool:
                told = samples((await scrape(rest)).text)
                return len(told.get("firesteel_taskmanager_process_resident_memory_bytes", {})) == 2

            await until(both_have_told)
            found = samples((await scrape(rest)).text)
            assert found["firesteel_jobmanager_journal_writes_total"][""] > 0
            assert found["firesteel_jobmanager_journal_write_time_seconds_total"][""] > 0
            assert found["firesteel_jobmanager_rpc_frames_in_total"][""] > 0
            assert found["firesteel_jobmanager_rpc_frames_out_total"][""] > 0
            assert found["firesteel_jobmanager_rpc_connections"][""] == 2
            assert 0 <= found["firesteel_jobmanager_event_loop_lag_seconds"][""] < 60
            assert 10 << 20 < found["firesteel_jobmanager_process_resident_memory_bytes"][""] < 10 << 30
            assert found["firesteel_jobmanager_process_open_files"][""] > 5
            assert found["firesteel_jobmanager_mailbox_length"][""] >= 0
            assert found["firesteel_taskmanager_slots"] == {"w1": 2, "w2": 2}
            own = samples((await scrape(f"http://127.0.0.1:{port_of(made, 'w1')}")).text)
            assert own["firesteel_taskmanager_process_cpu_time_seconds_total"]["w1"] > 0
            assert port_of(made, "w2") == 0, "a worker that is not told to serves none"

    asyncio.run(story())


def test_a_worker_takes_the_first_free_port_of_a_range_and_asks_for_a_token(tmp_path: Path) -> None:
    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text("users: [{name: prometheus, roles: [view], token: the-token}]")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            first = taken.getsockname()[1]
            options = {"metrics.reporter.prom.port": f"{first}-{first + 20}", "rest.users-file": str(users)}
            async with cluster(tmp_path, OPTIONS) as made:
                await made.start_worker("w1", **options)
                await made.until_slots(2)
                port = port_of(made, "w1")
                assert first < port <= first + 20
                url = f"http://127.0.0.1:{port}"
                refused = await scrape(url)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
                assert (await scrape(url, Authorization="Bearer the-token")).status_code == 200
                assert (await scrape(url, Host="elsewhere.example")).status_code == 401

    asyncio.run(story())
