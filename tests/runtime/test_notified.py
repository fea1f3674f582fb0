"""What a Dispatcher tells of its jobs: each state once, an end when it is stored, and again where nobody may have heard."""

import asyncio
from typing import ClassVar

import pytest

from firesteel.core.effects import DISPATCHER
from firesteel.model.failures import FailureKind
from firesteel.model.states import JobStatus
from firesteel.model.statuschange import JobStatusChange
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import FIXED_DELAY, finish, graph, mini_cluster
from tests.runtime.conftest import Do

LISTENER = {"jobmanager.job-status-listeners": f"{__name__}:Recorder"}


class Recorder:
    told: ClassVar[list[JobStatusChange]] = []

    def job_status_changed(self, change: JobStatusChange) -> None:
        self.told.append(change)


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    Recorder.told.clear()


def states() -> list[str]:
    return [change.status.value for change in Recorder.told]


def test_a_jobs_states_are_told_in_order(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        async with mini_cluster(script, options=LISTENER) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => result"), {})
            result = await finish(cluster, job_id)
        last = Recorder.told[-1]
        assert (last.result, last.time_ms, last.failure) == (result, result.end_time_ms, None)
        assert last.graph is not None
        assert {(change.job_id, change.name) for change in Recorder.told} == {(job_id, result.name)}

    do(story())
    assert states() == ["INITIALIZING", "CREATED", "RUNNING", "FINISHED"]


def test_failures_are_told_with_their_cause(do: Do, script: TaskScript) -> None:
    script.fail("lines", times=2, kind=FailureKind.USER)
    options = {**LISTENER, **FIXED_DELAY, "restart-strategy.fixed-delay.attempts": "1"}

    async def story() -> None:
        async with mini_cluster(script, options=options) as cluster:
            await finish(cluster, await cluster.client.submit_job(graph("lines => result"), {}))

    do(story())
    causes = {change.status: change.failure.message for change in Recorder.told if change.failure is not None}
    assert causes[JobStatus.FAILED] == "as the script says"
    assert set(causes.values()) == {"as the script says"}
    assert states()[-1] == "FAILED"
    assert states().count("FAILED") == 1


def test_a_new_leader_tells_the_state_again_but_no_end_before_it_is_stored(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, options=LISTENER) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => result"), {})
            await script.until_running("lines")
            cluster.revoke_leadership(DISPATCHER)
            await asyncio.sleep(0.5)
            cluster.grant_leadership(DISPATCHER)
            await asyncio.sleep(20.0)
            script.release("lines")
            await finish(cluster, job_id)

    do(story())
    assert states()[:3] == ["INITIALIZING", "CREATED", "RUNNING"]
    assert "RUNNING" in states()[3:-1]
    assert states().count("FINISHED") == 1
    assert Recorder.told[-1].result is not None
