"""Jobs from submission to their end, on a cluster without Spark."""

import asyncio

import msgspec
import pytest

from firesteel.core.scheduler.backoff import NoRestart
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID, derived_id
from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.states import JobStatus
from firesteel.runtime.client import DuplicateJob, UnknownJob
from firesteel.runtime.jobmaster import job_master_settings
from firesteel.testing.backend import TaskScript
from tests.core.graphs import job
from tests.runtime.cluster import FIXED_DELAY, finish, graph, job_master, memory, mini_cluster
from tests.runtime.conftest import Do


def test_a_job_finishes(do: Do, script: TaskScript, journals_fold_to_live_states: list[str]) -> None:
    async def story() -> None:
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => counts*2 -> result*2"), {})
            result = await finish(cluster, job_id)
            assert (result.status, result.failure, result.restarts) == (JobStatus.FINISHED, None, 0)
            assert len(result.sinks) == 2
            view = await cluster.client.request_job(job_id)
            assert view.status is JobStatus.FINISHED
            assert [vertex.tasks for vertex in view.vertices] == [{"FINISHED": 2}] * 3
            overview = await cluster.client.request_cluster_overview()
            assert (overview.slots_total, overview.slots_free, overview.jobs) == (2, 2, {"FINISHED": 1})
            assert memory(cluster).journal(job_id) == ()
            assert [seen.job_id for seen in await cluster.client.list_jobs()] == [job_id]
            assert script.stored == {}

    do(story())
    assert script.ends("lines") == ["FINISHED"] * 2
    assert [len(commits) for commits in script.visible.values()] == [1, 1]
    assert len(script.released) == 1
    assert len(journals_fold_to_live_states) == 1


def test_a_failing_job_fails_with_its_cause(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.fail("counts")
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => counts => result"), {})
            result = await finish(cluster, job_id)
            assert result.status is JobStatus.FAILED
            assert result.failure is not None
            assert result.failure.headline() == "counts: as the script says"

    do(story())
    assert script.ends("result") == []
    assert script.stored == {}


def test_what_is_refused(do: Do, script: TaskScript) -> None:
    """Another job of an id that is known, any after its end; and jobs nobody has submitted. The same again is one."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script) as cluster:
            client = cluster.client
            job_id = await client.submit_job(graph("lines"), {})
            with pytest.raises(DuplicateJob, match="another job"):
                await client.submit_job(graph("lines; more"), {})
            assert await client.submit_job(graph("lines"), {}) == job_id
            script.release("lines")
            await finish(cluster, job_id)
            assert len(script.of("lines")) == 1
            with pytest.raises(DuplicateJob):
                await client.submit_job(graph("lines"), {})
            for ask in (client.request_job, client.request_job_result, client.cancel_job):
                with pytest.raises(UnknownJob):
                    await ask(JobID("0" * 32))

    do(story())


def test_cancel_while_it_runs_and_after_its_end(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => result"), {})
            await script.until_running("lines", 2)
            await cluster.client.cancel_job(job_id)
            await cluster.client.cancel_job(job_id)
            assert (await finish(cluster, job_id)).status is JobStatus.CANCELED
            await cluster.client.cancel_job(job_id)
            assert (await cluster.client.request_job(job_id)).status is JobStatus.CANCELED

    do(story())
    assert script.ends("lines") == ["CANCELED"] * 2
    assert script.ends("result") == []


def test_cancel_while_it_waits_for_a_slot(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        async with mini_cluster(script, workers=0) as cluster:
            job_id = await cluster.client.submit_job(graph("lines"), {})
            await asyncio.sleep(5)
            assert (
                await cluster.client.request_job(job_id)
            ).reason == "place 1 in queue default: no worker is registered"
            await cluster.client.cancel_job(job_id)
            assert (await finish(cluster, job_id)).status is JobStatus.CANCELED

    do(story())
    assert script.attempts == []


def test_cancel_at_once_after_submission(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*4"), {})
            await cluster.client.cancel_job(job_id)
            assert (await finish(cluster, job_id)).status is JobStatus.CANCELED

    do(story())


@pytest.mark.parametrize("failures", [2, 3])
def test_fixed_delay_restarts(do: Do, script: TaskScript, failures: int) -> None:
    """Two restarts are allowed: a third failure is the job's."""

    async def story() -> None:
        script.fail("lines", times=failures)
        options = {**FIXED_DELAY, "restart-strategy.fixed-delay.attempts": "2"}
        async with mini_cluster(script, options=options) as cluster:
            begin = asyncio.get_running_loop().time()
            result = await finish(cluster, await cluster.client.submit_job(graph("lines => result"), {}))
            assert result.status is (JobStatus.FINISHED if failures == 2 else JobStatus.FAILED)
            assert result.restarts == 2
            assert 0.1 <= asyncio.get_running_loop().time() - begin < 1.0

    do(story())
    assert script.ends("lines") == ["FAILED"] * failures + ["FINISHED"] * (failures == 2)


@pytest.mark.parametrize("retries", [0, 2, 3])
def test_retries_need_no_restart_strategy(do: Do, script: TaskScript, retries: int) -> None:
    """As many attempts as the plan says, and no more: of a function that fails three times."""

    async def story() -> None:
        script.fail("lines", times=3)
        async with mini_cluster(script) as cluster:
            wanted = job("lines => result", derived_id("retried"), attempts=retries + 1)
            result = await finish(cluster, await cluster.client.submit_job(wanted, {}))
            assert result.status is (JobStatus.FINISHED if retries == 3 else JobStatus.FAILED)
            assert result.restarts == retries
            if result.failure is not None and retries:
                final = "lines: as the script says (failed for good: all 3 attempts of lines are used up)"
                assert result.failure.headline() == final

    do(story())
    assert script.ends("lines") == ["FAILED"] * min(3, retries + 1) + ["FINISHED"] * (retries == 3)


def test_a_strategy_that_does_not_fit_together_is_refused(do: Do, script: TaskScript) -> None:
    """What the job says and what the cluster says are right, each by itself."""

    async def story() -> None:
        own = {
            "restart-strategy.type": "exponential-delay",
            "restart-strategy.exponential-delay.initial-backoff": "9 s",
        }
        async with mini_cluster(script, options={"restart-strategy.exponential-delay.max-backoff": "3 s"}) as cluster:
            wanted = msgspec.structs.replace(graph("lines"), configuration=own)
            with pytest.raises(InvalidJobGraph, match=r"exponential-delay\.max-backoff: it has to be at least"):
                await cluster.client.submit_job(wanted, {})

    do(story())
    with pytest.raises(ConfigurationError, match="attempts: it has to be at least 0"):
        MiniCluster(Configuration({**FIXED_DELAY, "restart-strategy.fixed-delay.attempts": "-1"}))


def test_a_job_whose_strategy_fits_no_more_restarts_nothing() -> None:
    """The cluster has other options since its submission."""
    own = {"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.initial-backoff": "9 s"}
    wanted = msgspec.structs.replace(graph("lines"), configuration=own)
    changed = Configuration({"restart-strategy.exponential-delay.max-backoff": "3 s"})
    assert job_master_settings(changed, wanted).scheduler.strategy == NoRestart()


def test_only_the_failed_region_runs_again(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.fail("counts")
        async with mini_cluster(script, options=FIXED_DELAY) as cluster:
            result = await finish(cluster, await cluster.client.submit_job(graph("lines*2 => counts*2 => result"), {}))
            assert (result.status, result.restarts) == (JobStatus.FINISHED, 1)

    do(story())
    assert script.ends("lines") == ["FINISHED"] * 2
    assert sorted(script.ends("counts")) == ["FAILED", "FINISHED", "FINISHED"]
    assert [len(commits) for commits in script.visible.values()] == [1]


def test_a_lost_result_is_made_again(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("counts")
        async with mini_cluster(script, options=FIXED_DELAY) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => counts"), {})
            await script.until_running("counts")
            script.stored.clear()
            script.release("counts")
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())
    assert (script.ends("lines"), script.ends("counts")) == (["FINISHED"] * 2, ["FAILED", "FINISHED"])


def test_two_jobs_share_the_slots(do: Do, script: TaskScript) -> None:
    """One slot each: the first job does not keep what the second could use, and both end."""

    async def story() -> None:
        script.hold("a", "b")
        async with mini_cluster(script) as cluster:
            ids = [await cluster.client.submit_job(graph(f"{name} => {name}2", name), {}) for name in "ab"]
            await script.until_running("a")
            await script.until_running("b")
            script.release("a", "b")
            assert [(await finish(cluster, job_id)).status for job_id in ids] == [JobStatus.FINISHED] * 2

    do(story())


def test_more_jobs_than_slots_queue(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        async with mini_cluster(script) as cluster:
            ids = [await cluster.client.submit_job(graph("x*3 => y*3", f"j{i}"), {}) for i in range(12)]
            assert {(await finish(cluster, job_id)).status for job_id in ids} == {JobStatus.FINISHED}

    do(story())
    assert len(script.attempts) == 72


def test_a_worker_that_ends_in_mid_job(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, workers=2, options=FIXED_DELAY) as cluster:
            job_id = await cluster.client.submit_job(graph("lines"), {})
            (lost,) = await script.until_running("lines")
            (worker,) = [name for name in cluster.workers if name == lost.worker]
            await cluster.terminate_task_executor(worker)
            (again,) = await script.until_running("lines")
            assert again.worker != lost.worker
            assert again.attempt.attempt == 1
            script.release("lines")
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())
    assert script.ends("lines") == ["CANCELED", "FINISHED"]


def test_a_job_waits_for_a_late_worker(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        async with mini_cluster(script, workers=0) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*3 => result"), {})
            await asyncio.sleep(30)
            assert script.attempts == []
            await cluster.start_task_executor()
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())


@pytest.mark.parametrize("failures", [1, 2])
def test_commits_are_tried_again(do: Do, script: TaskScript, failures: int) -> None:
    async def story() -> None:
        script.fail_commits("result", failures)
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => result"), {})
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())
    assert [len(commits) for commits in script.visible.values()] == [1]


def test_commits_that_never_succeed_fail_the_job(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.fail_commits("result", 1_000)
        async with mini_cluster(script) as cluster:
            result = await finish(cluster, await cluster.client.submit_job(graph("lines => result"), {}))
            assert result.status is JobStatus.FAILED
            assert result.failure is not None
            assert "the disk is full" in result.failure.message

    do(story())
    assert script.visible == {}


def test_closing_in_mid_job(do: Do, script: TaskScript) -> None:
    """Attempts end, and who waits for a result is told."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2"), {})
            await script.until_running("lines", 2)
            job_master(cluster, job_id).core.validate()

    do(story())
    assert script.ends("lines") == ["CANCELED"] * 2
