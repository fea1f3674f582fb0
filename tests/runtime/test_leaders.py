"""Leaders change while attempts run: nothing is restarted, nobody waits in vain."""

import asyncio
import contextlib
import logging

import pytest

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.runtime.client import UnknownJob
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import finish, graph, job_master, mini_cluster
from tests.runtime.conftest import Do
from tests.runtime.stores import SlowStore, StallingStore

GAPS_S = [0.0, 0.001, 1.0, 45.0]
"""Time between revoke and grant: none, next to none, some, and nearly the heartbeat's timeout."""


async def change(cluster: MiniCluster, component: str, gap_s: float) -> None:
    cluster.revoke_leadership(component)
    await asyncio.sleep(gap_s)
    with contextlib.suppress(LookupError):  # The job may have ended meanwhile.
        cluster.grant_leadership(component)


@pytest.mark.parametrize("gap_s", GAPS_S)
@pytest.mark.parametrize("component", [DISPATCHER, RESOURCE_MANAGER, "job"])
def test_attempts_go_on(do: Do, script: TaskScript, component: str, gap_s: float) -> None:
    async def story() -> None:
        script.hold("lines", "counts")
        async with mini_cluster(script, workers=2) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => counts*2 -> result*2"), {})
            async with asyncio.TaskGroup() as clients:
                results = [clients.create_task(cluster.client.request_job_result(job_id)) for _ in range(3)]
                await script.until_running("lines", 2)
                await change(cluster, job_id if component == "job" else component, gap_s)
                await asyncio.sleep(0.5)
                script.release("lines")
                await script.until_running("counts", 2)
                await change(cluster, job_id if component == "job" else component, gap_s)
                script.release("counts")
            assert {task.result().status for task in results} == {JobStatus.FINISHED}
            assert (await finish(cluster, job_id)).restarts == 0

    do(story())
    assert script.ends("lines") == script.ends("counts") == ["FINISHED"] * 2
    assert [len(commits) for commits in script.visible.values()] == [1, 1]


def test_attempts_that_end_while_nobody_leads(do: Do, script: TaskScript) -> None:
    """What they made is reported to the next JobMaster."""

    async def story() -> None:
        script.hold("lines", "result")
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => result"), {})
            await script.until_running("lines", 2)
            cluster.revoke_leadership(DISPATCHER)
            await asyncio.sleep(1)
            script.release("lines")
            await asyncio.sleep(1)
            cluster.grant_leadership(DISPATCHER)
            await script.until_running("result")
            script.release("result")
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())
    assert (script.ends("lines"), script.ends("result")) == (["FINISHED"] * 2, ["FINISHED"])


@pytest.mark.parametrize(("reading_s", "vertices"), [(1.0, ["lines", "result"]), (60.0, [])])
def test_what_a_former_leader_saw_end_is_shown_when_its_journal_is_read(
    do: Do, script: TaskScript, reading_s: float, vertices: list[str]
) -> None:
    """Or without its vertices, when that takes long."""

    async def story() -> None:
        store = StallingStore(reading_s)
        async with mini_cluster(script, store=store) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => result"), {})
            await store.stalls.wait()
            await change(cluster, DISPATCHER, 0.0)
            assert (await cluster.client.request_job_result(job_id)).status is JobStatus.FINISHED
            shown = await cluster.client.request_job(job_id)
            assert (shown.status, [each.name for each in shown.vertices]) == (JobStatus.FINISHED, vertices)
            await finish(cluster, job_id)

    do(story())


def test_the_dispatcher_changes_at_every_moment_of_a_job(do: Do, script: TaskScript) -> None:
    """Submission, too: a client whose Dispatcher went before it answered gets its job, once."""

    async def story() -> None:
        async with mini_cluster(script) as cluster:
            await asyncio.sleep(0.1)
            for steps in range(60):
                async with asyncio.TaskGroup() as clients:
                    submitted = clients.create_task(cluster.client.submit_job(graph("a => b", f"job{steps}"), {}))
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    if DISPATCHER in cluster.election.components():
                        await change(cluster, DISPATCHER, 0.0)
                result = await finish(cluster, submitted.result())
                assert result.status is JobStatus.FINISHED, (steps, result)

    do(story())
    assert len(script.attempts) == 120
    assert all(len(commits) == 1 for commits in script.visible.values())


@pytest.mark.parametrize("store", [InMemoryJobStore, SlowStore])
@pytest.mark.parametrize("component", [DISPATCHER, RESOURCE_MANAGER, "job"])
def test_cancel_survives_a_change_of_leader(
    do: Do, script: TaskScript, component: str, store: type[InMemoryJobStore]
) -> None:
    """A cancellation that was acknowledged is never lost."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, store=store()) as cluster:
            for steps in range(20):
                job_id = await cluster.client.submit_job(graph("lines", f"job{steps}"), {})
                await script.until_running("lines")
                await cluster.client.cancel_job(job_id)
                for _ in range(steps):
                    await asyncio.sleep(0)
                name = job_id if component == "job" else component
                if name in cluster.election.components():
                    await change(cluster, name, 0.0)
                assert (await finish(cluster, job_id)).status is JobStatus.CANCELED, steps

    do(story())


def test_a_submission_that_was_stored_but_not_answered(do: Do, script: TaskScript) -> None:
    """The Dispatcher went in between: its successor has the job, and the client its answer."""

    async def story() -> None:
        async with mini_cluster(script, store=SlowStore()) as cluster:
            await cluster.client.list_jobs()
            async with asyncio.TaskGroup() as clients:
                submitted = clients.create_task(cluster.client.submit_job(graph("lines"), {}))
                await asyncio.sleep(0.001)
                await change(cluster, DISPATCHER, 0.0)
            assert (await finish(cluster, submitted.result())).status is JobStatus.FINISHED

    do(story())
    assert script.ends("lines") == ["FINISHED"]


def test_known_jobs_stay_known(do: Do, script: TaskScript) -> None:
    """A Dispatcher that has just come up does not deny a job it has not read yet."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, store=SlowStore()) as cluster:
            running = await cluster.client.submit_job(graph("lines"), {})
            ended = await cluster.client.submit_job(graph("other", "ended"), {})
            await finish(cluster, ended)
            cluster.revoke_leadership(DISPATCHER)
            cluster.grant_leadership(DISPATCHER)
            for _ in range(200):
                await asyncio.sleep(0)
                try:
                    await cluster.client.request_job(running)
                    assert (await cluster.client.request_job(ended)).status is JobStatus.FINISHED
                except UnknownJob:
                    pytest.fail("a known job was denied")
            script.release("lines")
            await finish(cluster, running)

    do(story())


@pytest.mark.parametrize("store", [InMemoryJobStore, SlowStore])
def test_a_job_that_has_ended_never_seems_to_run_again(
    do: Do, script: TaskScript, store: type[InMemoryJobStore]
) -> None:
    """The next Dispatcher starts a JobMaster to clean up after it."""

    async def story() -> None:
        script.discard_s = 1.0
        async with mini_cluster(script, store=store()) as cluster:
            for steps in range(10):
                job_id = await cluster.client.submit_job(graph("a => b", f"job{steps}"), {})
                await cluster.client.request_job_result(job_id)
                for _ in range(steps):
                    await asyncio.sleep(0)
                cluster.revoke_leadership(DISPATCHER)
                cluster.grant_leadership(DISPATCHER)
                for moment in range(100):
                    await asyncio.sleep(0 if moment < 50 else 0.002)
                    assert (await cluster.client.request_job(job_id)).status is JobStatus.FINISHED, steps
                    (line,) = [each for each in await cluster.client.list_jobs() if each.job_id == job_id]
                    assert line.status is JobStatus.FINISHED, steps

    do(story())


def test_nobody_leads_for_long(do: Do, script: TaskScript) -> None:
    """Clients are told, in time; and jobs go on when somebody leads again."""

    async def story() -> None:
        async with mini_cluster(script) as cluster:
            await cluster.client.list_jobs()
            cluster.revoke_leadership(DISPATCHER)
            await asyncio.sleep(0.1)
            with pytest.raises(ConnectionError, match="no dispatcher leads"):
                await cluster.client.list_jobs()
            cluster.grant_leadership(DISPATCHER)
            job_id = await cluster.client.submit_job(graph("lines"), {})
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())


def test_an_ended_job_is_shown_whole_by_the_next_leader(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => result"), {})
            await finish(cluster, job_id)
            before = await cluster.client.request_job(job_id)
            subtasks = await cluster.client.request_subtasks(job_id, before.vertices[0])
            assert (len(before.vertices), len(subtasks)) == (2, 2)
            cluster.revoke_leadership(DISPATCHER)
            cluster.grant_leadership(DISPATCHER)
            assert await cluster.client.request_job(job_id) == before
            assert await cluster.client.request_subtasks(job_id, before.vertices[0]) == subtasks

    do(story())


@pytest.mark.parametrize("component", ["job", DISPATCHER])
def test_a_job_is_suspended_while_nobody_leads_it(
    do: Do, script: TaskScript, component: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its attempts go on, and it is shown as what the next JobMaster makes of it."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines"), {})
            await script.until_running("lines")
            former = job_master(cluster, job_id).core
            component_id = job_id if component == "job" else component
            cluster.revoke_leadership(component_id)
            await asyncio.sleep(5)
            assert former.status is JobStatus.SUSPENDED
            if component == "job":
                assert (await cluster.client.request_job(job_id)).status is JobStatus.SUSPENDED
                assert [view.status for view in await cluster.client.list_jobs()] == [JobStatus.SUSPENDED]
            cluster.grant_leadership(component_id)
            await asyncio.sleep(5)
            assert (await cluster.client.request_job(job_id)).status is JobStatus.RUNNING
            script.release("lines")
            assert (await finish(cluster, job_id)).restarts == 0

    caplog.set_level(logging.INFO)
    do(story())
    assert script.ends("lines") == ["FINISHED"]
    assert caplog.text.count("SUSPENDED, after RUNNING") == 1
