"""Masters led by ZooKeeper while one thing after another is stopped, cut off, or killed: nothing is lost or doubled."""

import asyncio
import signal
from pathlib import Path

from firesteel.model.states import JobStatus
from tests.durable.masters import Site, site
from tests.durable.test_standby import leader
from tests.durable.zookeeper import QUORUM, ZooKeeper, wire, zookeeper, zookeeper_options
from tests.network.processes import until
from tests.rest.cluster import graph
from tests.runtime.cluster import FIXED_DELAY

SESSION = "high-availability.zookeeper.client.session-timeout"

PATIENT = {
    "high-availability.type": "tests.durable.zookeeper:PatientRegister",
    "high-availability.leader-election.lease-duration": "300 s",
    "jobmanager.reconciliation.timeout": "1 s",
}


def stored(it: Site) -> dict[str, bytes]:
    """All that the cluster keeps."""
    shared = it.directory / "shared"
    return {str(file): file.read_bytes() for file in sorted(shared.rglob("*")) if file.is_file()}


def test_the_leader_is_stopped_then_zookeeper_then_everything_is_killed(tmp_path: Path) -> None:
    """A job runs all the while; others are submitted at each of the wrong moments, and run once."""

    async def story(server: ZooKeeper) -> None:
        options = {**zookeeper_options(server), **FIXED_DELAY, **PATIENT}
        async with wire(server.port) as cable, site(tmp_path, **options) as it, asyncio.TaskGroup() as group:
            it.options[QUORUM] = f"127.0.0.1:{cable.port}"
            first = await it.start_master("first", **{SESSION: "4 s"})
            second = await it.start_master("second")
            await it.start_worker(first)
            it.hold("lines")
            it.hold("result")
            running = await first.client.submit_job(graph("lines => result", "running"), {})
            await it.until_attempts("lines")

            first.signal(signal.SIGSTOP)
            waking = group.create_task(first.client.submit_job(graph("waking", "waking"), {}))
            await second.until_it_has_taken_over()
            ended = await second.run(graph("ended", "ended"))
            first.signal(signal.SIGCONT)
            await first.until_logged("leads no more")
            waked = await second.client.request_job_result(await waking)
            assert waked.status is ended.status is JobStatus.FINISHED
            epoch = (await leader(second))["epoch"]
            assert (await leader(first))["epoch"] == epoch

            cable.drop()
            server.kill()
            await second.until_logged("register of the leader can't be used")  # it leads until it has looked in vain
            before = stored(it)
            held_back = group.create_task(second.client.submit_job(graph("held", "held"), {}))
            it.release("lines")
            await asyncio.wait([held_back], timeout=1.0)
            assert (await second.client.request_job(running)).status is JobStatus.RUNNING
            assert not held_back.done(), "nobody knows who leads"
            assert stored(it) == before
            assert it.attempts() == ["lines", "ended", "waking"]
            server.start()
            cable.mend()
            held = await second.client.request_job_result(await held_back)
            assert (held.status, held.restarts) == (JobStatus.FINISHED, 0)
            assert (await leader(second))["epoch"] == epoch, "it has led all the time"

            async def all_began() -> bool:
                return sorted(it.attempts()[3:]) == ["held", "result"]

            await until(all_began)
            await asyncio.gather(first.kill(), second.kill(), it.kill_workers())
            server.kill()
            it.release("result")
            server.start()
            await asyncio.gather(first.start(), second.start())
            await it.start_worker(second)
            results = [await first.client.request_job_result(each.job_id) for each in (ended, waked, held)]
            assert results == [ended, waked, held]
            assert (await second.client.request_job_result(running)).status is JobStatus.FINISHED
            assert it.attempts()[5:] == ["result"], "it goes on from what is stored"

    with zookeeper(tmp_path / "server") as server:
        asyncio.run(story(server))


def test_a_worker_that_is_cut_off_from_the_leader_alone(tmp_path: Path, zookeeper_server: ZooKeeper) -> None:
    """Its attempt runs to its end where nobody hears of it, and counts for nothing; the other worker's does."""

    async def story() -> None:
        options = {
            **zookeeper_options(zookeeper_server),
            **FIXED_DELAY,
            "jobmanager.rpc.address": "127.0.0.2",
            "jobmanager.bind-host": "127.0.0.1",
            "rpc.keep-alive.interval": "500 ms",
            "rpc.keep-alive.timeout": "12 s",
        }
        async with site(tmp_path, **options) as it:
            master = await it.start_master("first")
            port = int(master.options["jobmanager.rpc.port"])
            async with wire(port, host="127.0.0.2", listen_port=port) as cable:
                await it.start_master("second")
                epoch = (await leader(master))["epoch"]
                for name in ("one", "two"):
                    await it.start_worker(master, name)
                it.hold("lines")
                running = await master.client.submit_job(graph("lines => result", "running"), {})
                await it.until_attempts("lines")
                ((_, cut_off),) = it.begun()
                other = {"one": "two", "two": "one"}[cut_off]
                cable.cut(f"taskmanager {cut_off}")
                await it.until_attempts("lines", "lines")
                it.release("lines")
                result = await master.client.request_job_result(running)
                assert (result.status, result.restarts) == (JobStatus.FINISHED, 1)
                cable.mend()

                async def is_back_and_idle() -> bool:
                    overview = await master.client.request_cluster_overview()
                    return overview.slots_free == overview.slots_total == 4

                await until(is_back_and_idle)
                assert it.begun() == [("lines", cut_off), ("lines", other), ("result", other)]
                assert await master.client.request_job_result(running) == result
                assert (await leader(master))["epoch"] == epoch

    asyncio.run(story())
