"""The id of a job that is being forgotten: it is not free before all that was left is gone."""

import asyncio

import pytest

from firesteel.core.effects import DISPATCHER
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.runtime.client import StorageUnavailable, UnknownJob
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import finish, graph, memory, mini_cluster
from tests.runtime.conftest import Do
from tests.runtime.stores import FailingStore

KEPT_S = 100.0
SHORT = {"jobstore.expiration-time": f"{KEPT_S:g} s"}


def change(cluster: MiniCluster) -> None:
    cluster.revoke_leadership(DISPATCHER)
    cluster.grant_leadership(DISPATCHER)


async def ended_long_ago(cluster: MiniCluster) -> JobID:
    job_id = await cluster.client.submit_job(graph("lines"), {})
    await finish(cluster, job_id)
    await asyncio.sleep(KEPT_S + 1)
    with pytest.raises(UnknownJob):
        await cluster.client.request_job(job_id)
    return job_id


@pytest.mark.parametrize("changes", [0, 1])
def test_a_new_job_of_an_id_waits_for_the_end_of_the_old_one(do: Do, script: TaskScript, changes: int) -> None:
    """Also under a successor, which finds the old result and forgets it anew. Then the new one runs, and is kept its time."""

    async def story() -> None:
        store = FailingStore("forget_result", 20)
        async with mini_cluster(script, store=store, options=SHORT) as cluster:
            job_id = await ended_long_ago(cluster)
            with pytest.raises(StorageUnavailable, match="is being forgotten: submit it again"):
                await cluster.client.submit_job(graph("lines"), {})
            for _ in range(changes):
                change(cluster)
                with pytest.raises(StorageUnavailable, match="is being forgotten"):
                    await cluster.client.submit_job(graph("lines"), {})
            assert not memory(cluster)._graphs
            while job_id in memory(cluster)._results:
                await asyncio.sleep(1)
            script.attempts.clear()  # the new job's have the same ids
            assert await cluster.client.submit_job(graph("lines"), {}) == job_id
            change(cluster)
            result = await finish(cluster, job_id)
            await asyncio.sleep(KEPT_S / 2)
            assert len((await cluster.client.request_job(job_id)).vertices) == 1, "its archive is there"
            assert memory(cluster)._results == {job_id: (result, False)}
            assert result.status is JobStatus.FINISHED

    do(story())
    assert script.ends("lines") == ["FINISHED"]


def test_a_store_has_one_job_of_an_id(do: Do, script: TaskScript) -> None:
    """Whoever takes over runs the job that was submitted last, also when something was left of the one before."""

    async def story() -> None:
        script.fail("lines")
        async with mini_cluster(script, options=SHORT) as cluster:
            job_id = await cluster.client.submit_job(graph("lines"), {})
            assert (await finish(cluster, job_id)).status is JobStatus.FAILED
            script.attempts.clear()
            store, dispatcher = memory(cluster), cluster.dispatcher()
            assert list(store._kept) == [job_id]
            await store.put_graph(graph("more"), dispatcher.leader.token)
            change(cluster)
            await asyncio.sleep(1)
            assert (await cluster.client.request_job_result(job_id)).status is JobStatus.FINISHED

    do(story())
    assert script.ends("more") == ["FINISHED"]
