"""Jobs that wait for slots: their order, their places, and the limits of queues."""

import asyncio
from collections.abc import Mapping

import msgspec
import pytest

from firesteel.assembly.queueplaces import with_place
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.model.states import JobStatus
from firesteel.model.views import JobView, QueuePlace
from firesteel.runtime.client import TooManyJobs
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import finish, graph, mini_cluster
from tests.runtime.conftest import Do


async def submit(cluster: MiniCluster, name: str, options: Mapping[str, str] | None = None) -> JobID:
    """A job of one function, which has the job's name."""
    job = msgspec.structs.replace(graph(name, name), name=name, configuration=dict(options or {}))
    return await cluster.client.submit_job(job, {})


async def waiting(cluster: MiniCluster) -> list[str]:
    """The jobs that stand in the line, in its order."""
    views = [view for view in await cluster.client.list_jobs() if view.queue is not None]
    assert all(view.status is JobStatus.CREATED for view in views)
    return [view.name for view in sorted(views, key=lambda view: view.queue.place if view.queue else 0)]


def test_jobs_wait_in_the_order_of_priority_and_age(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("first", "low", "later", "high")
        async with mini_cluster(script, options={"taskmanager.numberOfTaskSlots": "1"}) as cluster:
            jobs = {"first": await submit(cluster, "first")}
            await script.until_running("first")
            for name, priority in (("low", "-1"), ("later", "0"), ("high", "7")):
                jobs[name] = await submit(cluster, name, {"job.priority": priority})
                while len(await waiting(cluster)) < len(jobs) - 1:
                    await asyncio.sleep(0.01)
            assert await waiting(cluster) == ["high", "later", "low"]
            view = await cluster.client.request_job(jobs["later"])
            assert view.reason == "place 2 in queue default: the only slot is taken"
            for name in ("first", "high", "later", "low"):
                await script.until_running(name)
                script.release(name)
                assert (await finish(cluster, jobs[name])).status is JobStatus.FINISHED
            assert await waiting(cluster) == []

    do(story())


def test_a_job_that_has_ended_waits_in_no_line() -> None:
    place = QueuePlace(place=1, queue="default", priority=0, slots_missing=1, reason="the only slot is taken")
    waits = JobView(job_id=JobID("a"), name="a", status=JobStatus.RUNNING)
    line = {waits.job_id: place}
    assert with_place(waits, line).queue == place
    ended = msgspec.structs.replace(waits, status=JobStatus.FINISHED)
    assert with_place(ended, line) == ended, "the line may be a moment old"


def test_a_queue_leaves_slots_to_others_and_others_are_refused(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("a", "b", "c")
        limits = {"jobmanager.queues": "etl=1", "jobmanager.max-unfinished-jobs": "3"}
        async with mini_cluster(script, options={"taskmanager.numberOfTaskSlots": "2", **limits}) as cluster:
            jobs = [await submit(cluster, name, {"job.queue": "etl"}) for name in ("a", "b")]
            jobs.append(await submit(cluster, "c"))
            await script.until_running("a")
            await script.until_running("c")
            assert await waiting(cluster) == ["b"]
            with pytest.raises(InvalidJobGraph, match="no queue 'adhoc' here"):
                await submit(cluster, "d", {"job.queue": "adhoc"})
            with pytest.raises(TooManyJobs):
                await submit(cluster, "d")
            script.release("a", "b", "c")
            assert [(await finish(cluster, job)).status for job in jobs] == [JobStatus.FINISHED] * 3

    do(story())


def test_a_job_that_waits_too_long_fails_and_leaves_the_line(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("busy")
        async with mini_cluster(script, options={"taskmanager.numberOfTaskSlots": "1"}) as cluster:
            busy = await submit(cluster, "busy")
            await script.until_running("busy")
            late = await submit(cluster, "late", {"job.timeout": "30 s"})
            result = await finish(cluster, late)
            assert result.failure is not None
            assert "job.timeout of 30 s" in result.failure.message
            assert result.duration_ms == 30_000
            assert await waiting(cluster) == []
            script.release("busy")
            await finish(cluster, busy)

    do(story())


def test_a_job_waits_some_time_for_a_first_worker(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        options = {"slot.request.timeout": "1 min", "heartbeat.interval": "1 s"}
        async with mini_cluster(script, workers=0, options=options) as cluster:
            result = await finish(cluster, await submit(cluster, "early"))
            assert result.status is JobStatus.FAILED
            assert result.failure is not None
            assert "no worker was registered for 1 min, which is slot.request.timeout" in result.failure.message
            assert 60_000 <= result.duration_ms <= 61_000
            patient = await submit(cluster, "patient")
            await asyncio.sleep(50)
            await cluster.start_task_executor()
            assert (await finish(cluster, patient)).status is JobStatus.FINISHED

    do(story())


def test_a_job_outlives_the_loss_of_all_workers(do: Do, script: TaskScript) -> None:
    """That none comes for longer than `slot.request.timeout` is a failure which the restart strategy decides about."""

    async def story() -> None:
        script.hold("v")
        restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "9"}
        async with mini_cluster(script, options={"slot.request.timeout": "1 min", **restarts}) as cluster:
            job = await cluster.client.submit_job(graph("v"), {})
            await script.until_running("v")
            await cluster.terminate_task_executor(next(iter(cluster.workers)))
            script.release("v")
            await asyncio.sleep(200)
            view = await cluster.client.request_job(job)
            assert view.status is JobStatus.RUNNING
            lost, *missed = [entry.failure.exception for entry in reversed(view.exceptions)]
            assert lost == "TaskManagerLost"
            assert missed == ["NoResourceAvailableException"] * len(missed)
            assert 2 <= len(missed) <= 3, "each request has all of the time"
            await cluster.start_task_executor()
            assert (await finish(cluster, job)).status is JobStatus.FINISHED

    do(story())
