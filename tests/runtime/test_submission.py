"""Submissions while Dispatchers change: what is acknowledged is the job that was handed in, and no other."""

import asyncio

import pytest

from firesteel.assembly.submission import submitted
from firesteel.core.effects import DISPATCHER
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.runtime.client import DuplicateJob
from firesteel.runtime.dispatcher import DispatcherEndpoint
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import finish, graph, mini_cluster
from tests.runtime.conftest import Do
from tests.runtime.stores import SlowStore


def change(cluster: MiniCluster) -> None:
    cluster.revoke_leadership(DISPATCHER)
    cluster.grant_leadership(DISPATCHER)


@pytest.mark.parametrize("has_ended", [False, True], ids=["runs", "ended"])
def test_a_job_that_was_never_taken_is_not_acknowledged(do: Do, script: TaskScript, has_ended: bool) -> None:
    """The Dispatcher that was asked went before it looked at it, and another job of that id is known."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script) as cluster:
            asked: list[DispatcherEndpoint] = []

            async def leader() -> DispatcherEndpoint:
                asked.append(await cluster.client._dispatcher())
                if len(asked) == 1:
                    asyncio.get_running_loop().call_soon(asked[0]._halt)
                    change(cluster)
                return asked[-1]

            job_id = await cluster.client.submit_job(graph("lines"), {})
            await script.until_running("lines")
            if has_ended:
                script.release("lines")
                await finish(cluster, job_id)
            with pytest.raises(DuplicateJob, match="has ended already" if has_ended else "another job"):
                await submitted(graph("lines; more"), leader)
            assert asked[-1] is not asked[0]
            script.release("lines")
            await finish(cluster, job_id)

    do(story())
    assert script.of("more") == []


def test_a_job_that_was_taken_is_acknowledged_also_when_it_has_ended_since(do: Do, script: TaskScript) -> None:
    """Its Dispatcher went as it stored it, and the next one that is asked has its result alone."""

    async def story() -> None:
        async with mini_cluster(script, store=SlowStore()) as cluster:
            job, asked = graph("lines"), 0

            async def leader() -> DispatcherEndpoint:
                nonlocal asked
                asked += 1
                if asked > 1:
                    await finish(cluster, job.job_id)
                return await cluster.client._dispatcher()

            await cluster.client.list_jobs()
            async with asyncio.TaskGroup() as clients:
                handed_in = clients.create_task(submitted(job, leader))
                await asyncio.sleep(0.001)
                change(cluster)
            assert (handed_in.result(), asked) == (job.job_id, 2)
            assert (await cluster.client.request_job(job.job_id)).status is JobStatus.FINISHED

    do(story())
    assert script.ends("lines") == ["FINISHED"]
