"""What a master logs of its jobs: a line for each thing that happened, with the job's id."""

import asyncio
import logging

import pytest

from firesteel.core.effects import DISPATCHER
from firesteel.core.execution.topology import Topology
from firesteel.core.journal.records import FailureRecorded, RegionsDeployed, SinkCommitted
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.views import ExceptionEntry
from firesteel.runtime.narration import lines_of, subject_of
from firesteel.testing.backend import TaskScript
from tests.core.graphs import job
from tests.runtime.cluster import FIXED_DELAY, finish, graph, mini_cluster
from tests.runtime.conftest import Do


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("firesteel.runtime")]


def test_the_story_of_a_job(do: Do, script: TaskScript, caplog: pytest.LogCaptureFixture) -> None:
    """Submission, states, placement, a failure with its cause, a takeover, commits, the end."""

    async def story() -> None:
        script.fail("a")
        script.hold("b")
        async with mini_cluster(script, options=FIXED_DELAY) as cluster:
            (worker,) = cluster.workers
            job_id = await cluster.client.submit_job(graph("a => b => <s>".replace("<s>", "sink"), "it"), {})
            await script.until_running("b")
            cluster.revoke_leadership(DISPATCHER)
            cluster.grant_leadership(DISPATCHER)
            while not any("taken over" in line for line in logged(caplog)):
                await asyncio.sleep(0.01)
            script.release("b")
            await finish(cluster, job_id)
            lines = logged(caplog)
            told = [line.partition("): ")[2] for line in lines if line.startswith(f"job {job_id} (")]
            assert told == [
                "submitted",
                "RUNNING",
                f"deployed a (1/1) #0 on {worker}",
                f"a (1/1) #0 failed on {worker}: a: as the script says; 1 region runs again in 50 ms (restart 1)",
                "RESTARTING",
                "RUNNING",
                f"deployed a (1/1) #1 on {worker}",
                f"deployed b (1/1) #0 on {worker}",
                "SUSPENDED, after RUNNING: this master does not lead it any more",
                "taken over, RUNNING, with 1 attempts that may run",
                f"deployed sink (1/1) #0 on {worker}",
                f"commits sink -> {job_id}/sink/0 (append)",
                f"committed sink -> {job_id}/sink/0 (append)",
                "FINISHED",
            ]
            assert [line for line in lines if line.startswith("worker ")] == [f"worker {worker} is here: 1 in all"]
            leads = [line.partition(": ")[2] for line in lines if line.startswith("leading: ")]
            assert leads == ["0 stored jobs go on, 0 have ended", "1 stored jobs go on, 0 have ended"]

    with caplog.at_level(logging.INFO, "firesteel"):
        do(story())


def test_a_worker_that_goes_and_a_job_that_fails(do: Do, script: TaskScript, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        script.hold("a")
        async with mini_cluster(script, workers=2) as cluster:
            job_id = await cluster.client.submit_job(graph("a", "it"), {})
            (running,) = await script.until_running("a")
            await cluster.terminate_task_executor(ResourceID(running.worker))
            await finish(cluster, job_id)
            lines = logged(caplog)
            (failed,) = (line for line in lines if "nothing runs again" in line)
            assert failed.startswith(f"job {job_id} (the {job_id}): a (1/1) #0 failed on {running.worker}: worker ")
            assert any(f"): FAILING: worker {running.worker} is lost: " in line for line in lines)
            assert any(line.endswith("): FAILED") for line in lines)
            assert f"worker {running.worker} is gone: 1 are left" in lines

    with caplog.at_level(logging.INFO, "firesteel"):
        do(story())


def test_what_a_line_is_about() -> None:
    """The one attempt of which it tells, if it is one."""
    topology = Topology(job("a => v*2"))
    failure = FailureInfo(kind=FailureKind.USER, message="no")
    one, two = ((RegionIndex(region), region, ResourceID("w")) for region in (1, 2))
    assert subject_of(RegionsDeployed(at_ms=1, deployed=(two,)), topology) == ("v", 2)
    assert subject_of(RegionsDeployed(at_ms=1, deployed=(one, two)), topology) == ("", None)
    assert subject_of(SinkCommitted(at_ms=1, commit_id="c"), topology) == ("", None)
    for region, subject in ((1, ("v", 3)), (-1, ("", None))):
        entry = ExceptionEntry(timestamp_ms=1, failure=failure, region=region, attempt=3)
        assert subject_of(FailureRecorded(at_ms=1, entry=entry), topology) == subject


def test_many_at_once_are_counted() -> None:
    topology = Topology(job("v*9"))
    deployed = tuple((RegionIndex(region), 0, ResourceID(f"w{region % 2}")) for region in range(9))
    assert list(lines_of(RegionsDeployed(at_ms=1, deployed=deployed), topology)) == [
        "deployed 9 regions: 5 on w0, 4 on w1"
    ]
    many = tuple((RegionIndex(region), 0, ResourceID(f"w{region}")) for region in range(9))
    (line,) = lines_of(RegionsDeployed(at_ms=1, deployed=many), topology)
    assert line.endswith("1 on w3 and 5 more")
    assert list(lines_of(SinkCommitted(at_ms=1, commit_id="unknown"), topology)) == ["committed unknown"]
