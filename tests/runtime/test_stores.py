"""A store that fails: nothing acknowledged is lost, and what can't go on says so."""

import asyncio

import pytest

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.core.effects import DISPATCHER
from firesteel.core.journal.journal import JobState
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.states import JobStatus
from firesteel.runtime.client import StorageUnavailable, UnknownJob
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import finish, graph, mini_cluster, virtual_loop
from tests.runtime.conftest import Do
from tests.runtime.stores import FailingStore


@pytest.mark.parametrize("durable", [False, True], ids=["lost", "durable"])
@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("times", [1, 4])
def test_a_journal_that_fails_for_a_while(do: Do, script: TaskScript, durable: bool, after: int, times: int) -> None:
    """Whether or not the write that failed was durable, at every write of a job: no attempt runs twice."""

    async def story() -> None:
        store = FailingStore("append", times, durable=durable, after=after)
        async with mini_cluster(script, store=store) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => result"), {})
            result = await finish(cluster, job_id)
            assert (result.status, result.restarts, result.failure) == (JobStatus.FINISHED, 0, None)
            assert store.left < times

    do(story())
    assert script.ends("lines") == ["FINISHED"] * 2
    assert [len(commits) for commits in script.visible.values()] == [1]


@pytest.mark.parametrize("operation", ["append", "claim_journal"])
def test_a_journal_that_fails_for_long_is_waited_for(do: Do, script: TaskScript, operation: str) -> None:
    """Somebody makes room on the disk in the end; until then the job stands still, and says why."""

    async def story() -> None:
        async with mini_cluster(script, store=FailingStore(operation, 1_000)) as cluster:
            job_id = await cluster.client.submit_job(graph("lines"), {})
            await asyncio.sleep(100)
            view, (line,) = await cluster.client.request_job(job_id), await cluster.client.list_job_summaries()
            assert view.reason == line.reason == "the job can't be led here (no space left on device)"
            result = await finish(cluster, job_id)
            assert (result.status, result.failure) == (JobStatus.FINISHED, None)
            assert virtual_loop().time() > 1_000

    do(story())
    assert script.ends("lines") == ["FINISHED"]


@pytest.mark.parametrize("operation", ["load", "put_result", "clean_up"])
def test_the_dispatcher_tries_its_store_again(do: Do, script: TaskScript, operation: str) -> None:
    async def story() -> None:
        store = FailingStore(operation, 7)
        async with mini_cluster(script, store=store) as cluster:
            job_id = await cluster.client.submit_job(graph("lines"), {})
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED
            assert store.left == 0
            assert (await cluster.client.request_job(job_id)).status is JobStatus.FINISHED

    do(story())


def test_a_submission_that_can_not_be_stored_may_be_repeated(do: Do, script: TaskScript) -> None:
    """Under its id; whether the first one was stored is not known."""

    async def story() -> None:
        async with mini_cluster(script, store=FailingStore("put_graph", 1)) as cluster:
            submitted = graph("lines")
            with pytest.raises(StorageUnavailable, match=r"submit it again .*no space left on device"):
                await cluster.client.submit_job(submitted, {})
            with pytest.raises(UnknownJob):
                await cluster.client.request_job(submitted.job_id)
            job_id = await cluster.client.submit_job(submitted, {})
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())


class UnreadableStore(InMemoryJobStore):
    """From some time on, the journal of one job can't be read."""

    bad: JobID | None = None

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> JobState:
        if job_id == self.bad:
            raise TypeError("a record of an unknown kind")
        return await super().claim_journal(job_id, token)


@pytest.mark.expects_errors
def test_a_journal_nobody_can_read_fails_its_job(do: Do, script: TaskScript) -> None:
    """A job that can't be recovered fails alone, at once."""

    async def story() -> None:
        script.hold("lines", "other")
        store = UnreadableStore()
        async with mini_cluster(script, store=store) as cluster:
            bad = await cluster.client.submit_job(graph("lines", "bad"), {})
            good = await cluster.client.submit_job(graph("other", "good"), {})
            await script.until_running("lines")
            await script.until_running("other")
            store.bad = bad
            cluster.revoke_leadership(DISPATCHER)
            cluster.grant_leadership(DISPATCHER)
            begin = virtual_loop().time()
            result = await cluster.client.request_job_result(bad)
            assert virtual_loop().time() - begin < 1
            assert result.status is JobStatus.FAILED
            assert result.failure is not None
            assert "a record of an unknown kind" in result.failure.message
            script.release("other", "lines")
            assert (await finish(cluster, good)).status is JobStatus.FINISHED

    do(story())
