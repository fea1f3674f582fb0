"""Masters as processes: killed, stopped, started again; what was acknowledged stays, and what runs goes on."""

import asyncio
import signal
from pathlib import Path

import pytest

from firesteel.adapters.ha.registers import leader_register
from firesteel.client.remote import http_client
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.states import JobStatus
from tests.durable.masters import site
from tests.durable.zookeeper import QUORUM, ZooKeeper, wire, zookeeper_options
from tests.rest.cluster import graph
from tests.runtime.cluster import FIXED_DELAY


def test_a_master_that_is_killed_and_started_again_loses_nothing(tmp_path: Path) -> None:
    """The only one there is, while a job runs, another waits and a third has ended."""

    async def story() -> None:
        async with site(tmp_path) as it:
            master = await it.start_master("master")
            await it.start_worker(master)
            ended = await master.run(graph("first", "ended"))
            it.hold("lines")
            running = await master.client.submit_job(graph("lines => result", "running"), {})
            await it.until_attempts("first", "lines")
            for _ in range(2):
                await master.kill()
                await master.start()
                await master.until_status(running, JobStatus.RUNNING)
            assert await master.client.request_job_result(ended.job_id) == ended
            late = await master.client.submit_job(graph("late", "late"), {})
            it.release("lines")
            for job_id in (running, late):
                result = await master.client.request_job_result(job_id)
                assert (result.status, result.restarts) == (JobStatus.FINISHED, 0)
            assert sorted(it.attempts()) == ["first", "late", "lines", "result"], "an attempt ran twice"
            await master.kill()
            await master.start()
            await master.until_it_leads()
            jobs = await master.client.list_job_summaries()
            assert {job.status for job in jobs} == {JobStatus.FINISHED}
            assert len(jobs) == 3

    asyncio.run(story())


def test_a_leader_that_is_stopped_finds_itself_deposed(tmp_path: Path) -> None:
    """The other master takes over, and gives back when it is killed; the worker follows, its attempt runs once."""

    async def story() -> None:
        async with site(tmp_path, **{"high-availability.leader-election.lease-duration": "2 s"}) as it:
            first, second = await it.start_master("first"), await it.start_master("second")
            await it.start_worker(first)
            it.hold("lines")
            running = await first.client.submit_job(graph("lines => result", "running"), {})
            await it.until_attempts("lines")
            first.signal(signal.SIGSTOP)
            await second.until_it_has_taken_over()
            other = await second.run(graph("other", "other"))
            assert other.status is JobStatus.FINISHED
            first.signal(signal.SIGCONT)
            await first.until_logged("leads no more")
            await second.until_status(running, JobStatus.RUNNING)
            await second.kill()
            await first.until_it_leads()
            assert await first.client.request_job_result(other.job_id) == other
            it.release("lines")
            result = await first.client.request_job_result(running)
            assert (result.status, result.restarts) == (JobStatus.FINISHED, 0)
            assert sorted(it.attempts()) == ["lines", "other", "result"], "an attempt ran twice"

    asyncio.run(story())


def test_everything_is_killed_at_once_and_started_again(tmp_path: Path) -> None:
    """What was acknowledged is there: the result of an ended job, and a job that goes on from what it has stored."""

    async def story() -> None:
        options = {**FIXED_DELAY, "jobmanager.reconciliation.timeout": "1 s"}
        async with site(tmp_path, **options) as it:
            first, second = await it.start_master("first"), await it.start_master("second")
            await it.start_worker(first)
            ended = await first.run(graph("ended", "ended"))
            it.hold("result")
            running = await first.client.submit_job(graph("lines => result", "running"), {})
            await it.until_attempts("ended", "lines", "result")
            await asyncio.gather(first.kill(), second.kill(), it.kill_workers())
            it.release("result")
            await asyncio.gather(first.start(), second.start())
            await it.start_worker(second)
            assert await second.client.request_job_result(ended.job_id) == ended
            assert (await first.client.request_job_result(running)).status is JobStatus.FINISHED
            assert it.attempts() == ["ended", "lines", "result", "result"]

    asyncio.run(story())


def test_masters_that_are_led_by_zookeeper(tmp_path: Path, zookeeper_server: ZooKeeper) -> None:
    """The leader is cut off from ZooKeeper alone, the next one told to stop, then one is killed: nothing runs twice."""

    async def story() -> None:
        options = zookeeper_options(zookeeper_server)
        address = f"zookeeper://{zookeeper_server.address}{options['high-availability.zookeeper.path.root']}"
        async with (
            wire(zookeeper_server.port) as cable,
            site(tmp_path, **options) as it,
            http_client(Configuration({"rest.address": address, "client.timeout": "200 s"})) as finding,
            asyncio.TaskGroup() as group,
        ):
            first = await it.start_master("first", **{QUORUM: f"127.0.0.1:{cable.port}"})
            second = await it.start_master("second")
            await it.start_worker(first)
            it.hold("lines")
            running = await first.client.submit_job(graph("lines => result", "running"), {})
            await it.until_attempts("lines")
            following = group.create_task(finding.request_job_result(running))
            cable.cut()
            await second.until_it_has_taken_over()
            cable.mend()
            other = await second.run(graph("other", "other"))
            assert other.status is JobStatus.FINISHED
            await second.stop()
            await first.until_it_leads()
            await first.until_status(running, JobStatus.RUNNING)
            await second.start()
            await first.kill()
            await second.until_it_leads()
            it.release("lines")
            result = await second.client.request_job_result(running)
            assert (result.status, result.restarts) == (JobStatus.FINISHED, 0)
            assert await second.client.request_job_result(other.job_id) == other
            assert await following == result, "a client that asks ZooKeeper finds each leader"
            assert sorted(it.attempts()) == ["lines", "other", "result"], "an attempt ran twice"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("high-availability", "needs high-availability.type, and that is none"),
        ("zookeeper://", "set high-availability.zookeeper.quorum too"),
    ],
)
def test_a_register_that_clients_can_not_ask(address: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        http_client(Configuration({"rest.address": address}))


def test_masters_that_are_led_by_a_class_of_the_user(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path, **{"high-availability.type": "tests.durable.ownregister:SqliteRegister"}) as it:
            first, second = await it.start_master("first"), await it.start_master("second")
            await it.start_worker(first)
            assert (await first.run(graph("before", "before"))).status is JobStatus.FINISHED
            await first.kill()
            assert (await second.run(graph("after", "after"))).status is JobStatus.FINISHED
            assert it.attempts() == ["before", "after"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("filesytem", "'filesytem' is none of none, filesystem, zookeeper, kubernetes, nor module:Class of a register"),
        ("no.such:Thing", "'no.such:Thing' can't be made: No module named 'no'"),
        ("pathlib:Path", "'pathlib:Path' can't be made"),
        ("collections:Counter", "'collections:Counter' lacks open, close, newest, claim, touch, give_up, changed"),
        ("zookeeper", "high-availability.zookeeper.quorum"),
    ],
)
def test_a_type_that_can_not_be(tmp_path: Path, kind: str, message: str) -> None:
    config = Configuration({"high-availability.type": kind, "high-availability.storageDir": str(tmp_path)})
    with pytest.raises(ConfigurationError) as caught:
        leader_register(config)
    assert message in str(caught.value)
