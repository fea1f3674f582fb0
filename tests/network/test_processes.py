"""Workers as processes of their own: they come, go and are killed, and jobs end all the same."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import httpx
import msgspec
import psutil
import pytest

from firesteel.client.http import HttpClusterClient
from firesteel.model.jobgraph import InvalidJobGraph, RuntimeEnvironment
from firesteel.model.states import JobStatus
from tests.network.processes import LIMIT_S, cluster, on_own_host, until
from tests.rest.cluster import graph as graph_of_clients
from tests.runtime.cluster import FIXED_DELAY, graph

NO_HEARTBEATS = {"heartbeat.timeout": "2 h"}
"""Whoever is found to be gone is so without one that was waited for."""


def test_slots_come_and_go_with_their_workers(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, NO_HEARTBEATS) as it:
            first = await it.start_worker("first")
            await it.until_slots(2)
            second = await it.start_worker("late")
            await it.until_slots(4)
            first.send_signal(signal.SIGTERM)
            await it.until_slots(2)
            assert await first.wait() == 0
            second.send_signal(signal.SIGKILL)
            await it.until_slots(0)
        assert "Traceback" not in it.log("first")
        assert "ERROR" not in it.log("first")

    asyncio.run(story())


def test_a_worker_that_is_frozen_is_lost_and_comes_back(tmp_path: Path) -> None:
    """Its connection is open all the time: only its silence tells."""

    async def story() -> None:
        options = {"rpc.keep-alive.interval": "200 ms", "rpc.keep-alive.timeout": "3 s", **FIXED_DELAY}
        options["restart-strategy.fixed-delay.attempts"] = "100"
        async with cluster(tmp_path, options) as it:
            worker = await it.start_worker("worker")
            await it.until_slots(2)
            it.hold("lines")
            job_id = await it.client.submit_job(graph("lines"), {})

            async def runs() -> bool:
                return bool(it.attempts())

            await until(runs)
            worker.send_signal(signal.SIGSTOP)
            await it.until_slots(0)
            worker.send_signal(signal.SIGCONT)
            await it.until_slots(2)
            it.release("lines")
            result = await it.client.request_job_result(job_id)
            assert result.status is JobStatus.FINISHED
            assert result.restarts >= 1, "on a busy machine it may be silent for so long by itself, too"

    asyncio.run(story())


def test_a_job_goes_on_at_another_worker_when_its_own_is_killed(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, FIXED_DELAY) as it:
            workers = {name: await it.start_worker(name) for name in ("one", "two")}
            await it.until_slots(4)
            it.hold("lines")
            job_id = await it.client.submit_job(graph("lines => result"), {})

            async def runs() -> bool:
                return bool(it.attempts())

            await until(runs)
            (name,) = [line.split()[1] for line in it.attempts()]
            workers[name].send_signal(signal.SIGKILL)
            it.release("lines")
            result = await it.client.request_job_result(job_id)
            assert (result.status, result.restarts) == (JobStatus.FINISHED, 1)
            other = {"one": "two", "two": "one"}[name]
            assert it.attempts() == [f"lines {name}", f"lines {other}", f"result {other}"]

    asyncio.run(story())


def test_a_master_that_is_started_anew_is_found(tmp_path: Path) -> None:
    """Its jobs are lost, since nothing keeps them; its workers are not, and free their slots before long."""

    async def story() -> None:
        options = {"heartbeat.interval": "200 ms", "heartbeat.timeout": "2 s"}
        async with cluster(tmp_path, options) as it:
            await it.start_worker("worker")
            await it.until_slots(2)
            it.hold("lines")
            await it.client.submit_job(graph("lines"), {})

            async def runs() -> bool:
                return bool(it.attempts())

            await until(runs)
            await it.master.stop()
            await it.start_master()
            await it.until_slots(2)

            async def is_free() -> bool:
                return (await it.overview()).slots_free == 2

            await until(is_free)
            it.release("lines")
            result = await it.client.request_job_result(await it.client.submit_job(graph("lines", "next"), {}))
            assert result.status is JobStatus.FINISHED

    asyncio.run(story())


def test_many_jobs_on_workers_that_are_killed_and_replaced(tmp_path: Path) -> None:
    """Every job ends, and nothing is held in the end."""

    async def story() -> None:
        async with cluster(tmp_path, {**FIXED_DELAY, "restart-strategy.fixed-delay.attempts": "100"}) as it:
            workers = [await it.start_worker(f"w{number}") for number in range(2)]
            await it.until_slots(4)

            async def run(number: int) -> JobStatus:
                text = ("lines*2 => counts*2 -> result*2", "lines", "noop*4")[number % 3]
                job_id = await it.client.submit_job(graph(text, f"job {number}"), {})
                return (await it.client.request_job_result(job_id)).status

            async with asyncio.TaskGroup() as jobs:
                running = [jobs.create_task(run(number)) for number in range(60)]
                for number in range(2, 5):
                    workers.pop(0).send_signal(signal.SIGKILL)
                    workers.append(await it.start_worker(f"w{number}"))
                    await asyncio.sleep(0.2)
            assert {job.result() for job in running} == {JobStatus.FINISHED}

            async def is_free() -> bool:
                overview = await it.overview()
                return overview.slots_free == overview.slots_total == 4

            await until(is_free)

    asyncio.run(story())


def test_a_worker_of_another_cluster_ends_and_says_why(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as it:
            worker = await it.start_worker("stray", **{"high-availability.cluster-id": "another"})
            async with asyncio.timeout(300):
                assert await worker.wait() == 3
            assert "belongs to cluster" in it.log("stray").splitlines()[-1]
            assert (await it.overview()).task_managers == 0

    asyncio.run(story())


def test_of_two_workers_with_one_name_the_older_ends_and_says_why(tmp_path: Path) -> None:
    """Else each would take the messages of the other; and one that is started anew has the name of the one before."""

    async def story() -> None:
        async with cluster(tmp_path) as it:
            older = await it.start_worker("same")
            await it.until_slots(2)
            newer = await it.start_worker("same")
            async with asyncio.timeout(LIMIT_S):
                assert await older.wait() == 3
            await it.until_slots(2)
            result = await it.client.request_job_result(await it.client.submit_job(graph("lines"), {}))
            assert (result.status, newer.returncode) == (JobStatus.FINISHED, None)
            assert "taskmanager same has come later, under the same name: give each another one" in it.log("same")

    asyncio.run(story())


def test_the_master_serves_rest_and_ends_when_told_to(tmp_path: Path) -> None:
    """A real `firesteel jobmanager`: its numbers are those of its workers, and DELETE /cluster is a clean stop."""

    async def story() -> None:
        options = {
            "rest.port": "0",
            "jobmanager.rpc.port": "0",
            "jobmanager.rpc.address": "127.0.0.1",
            "cluster.work-dir": str(tmp_path / "work"),
        }
        defined = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        few_files = ("sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh")
        master = await asyncio.create_subprocess_exec(
            *few_files, sys.executable, "-m", "firesteel", "jobmanager", *defined, stdout=asyncio.subprocess.PIPE
        )
        assert master.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            line = (await master.stdout.readline()).decode()
            found = re.search(r"jobmanager at 127\.0\.0\.1:(\d+), REST at (\S+)", line)
            assert found is not None, line
            assert psutil.Process(master.pid).rlimit(psutil.RLIMIT_NOFILE)[0] > 256, "it has asked for more"
            async with httpx.AsyncClient(base_url=found[2], timeout=LIMIT_S) as http:
                while (overview := await http.get("/overview")).status_code == 503:
                    await asyncio.sleep(0.05)
                assert overview.json()["taskmanagers"] == 0
                fake = ("-m", "tests.network.fakeworker", str(tmp_path), "-D", f"jobmanager.rpc.port={found[1]}")
                more = ("-D", "jobmanager.rpc.address=127.0.0.1", "-D", f"cluster.work-dir={tmp_path / 'worker'}")
                worker = await asyncio.create_subprocess_exec(sys.executable, *fake, *more)
                while (await http.get("/overview")).json()["slots-available"] != 2:
                    await asyncio.sleep(0.05)
                (shown,) = (await http.get("/taskmanagers")).json()["taskmanagers"]
                assert (shown["slotsNumber"], shown["freeSlots"]) == (2, 2)
                worker.terminate()
                assert await worker.wait() == 0
                while (await http.get("/overview")).json()["slots-total"] != 0:
                    await asyncio.sleep(0.05)
                assert (await http.delete("/cluster")).json() == {}
            assert await master.wait() == 0

    asyncio.run(story())


def test_a_worker_that_stores_results_elsewhere_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as it:
            await it.start_worker("one")
            await it.until_slots(2)
            for name, own in (
                ("other", {"cluster.work-dir": str(tmp_path / "other")}),
                ("none", {"cluster.results-dir": "s3://absent/x", "s3.endpoint": "http://127.0.0.1:1"}),
            ):
                worker = await it.start_worker(name, **own)
                assert await worker.wait() == 3, it.log(name)
            assert "it can't go on" not in it.log("other")
            told = f"worker other stores results in {tmp_path}/other, and one in {tmp_path}/work: neither could read"
            assert told in it.log("other")
            assert "taskmanager none can't use s3a://absent/x (cluster.results-dir) for stored results" in it.log(
                "none"
            )
            assert not (tmp_path / "work" / "none" / "logs").exists()
            assert (await it.overview()).task_managers == 1

    asyncio.run(story())


def test_one_path_on_two_hosts_is_not_one_storage(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as it:
            await it.start_worker("one", within=on_own_host(tmp_path / "work", "one"))
            await it.until_slots(2)
            worker = await it.start_worker("two", within=on_own_host(tmp_path / "work", "two"))
            assert await worker.wait() == 3, it.log("two")
            told = (
                f"worker two stores results in {tmp_path}/work, which is not what one has by that name: neither could"
            )
            assert told in it.log("two")
            assert (await it.overview()).task_managers == 1

    asyncio.run(story())


def test_a_master_refuses_jobs_that_were_built_with_another_python(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as it, HttpClusterClient([it.master.rest.address]) as client:
            job = msgspec.structs.replace(
                graph_of_clients("lines", "old"), environment=RuntimeEnvironment(python="2.7", pyspark="")
            )
            with pytest.raises(InvalidJobGraph, match=r"built with Python 2\.7, this cluster runs Python 3\."):
                await client.submit_job(job, {})

    asyncio.run(story())
