"""What a job's journal says has happened, by REST; also by the next leader."""

from pathlib import Path

from firesteel.core.effects import DISPATCHER
from firesteel.model.failures import FailureKind
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import graph, rest_cluster
from tests.rest.conftest import Do

OPTIONS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "20 ms"}


def test_what_has_happened(do: Do, tmp_path: Path) -> None:
    script = TaskScript()
    script.fail("counts", times=1, kind=FailureKind.ENVIRONMENT)
    job = graph("lines*2 => counts", "job")

    async def story() -> None:
        script.hold("counts")
        async with rest_cluster(tmp_path, script=script, options=OPTIONS) as rest:
            await rest.submit(job)
            await script.until_running("counts")
            early = (await rest.get(f"/jobs/{job.job_id}/journal"))["events"]
            assert ("finished", "lines: FINISHED") in [(each["kind"], each["words"]) for each in early]
            assert "failure" not in [each["kind"] for each in early]
            script.release("counts")
            await rest.finish(job.job_id)
            before = await rest.get(f"/jobs/{job.job_id}/journal")
            told = [(each["kind"], each["words"]) for each in before["events"]]
            assert [words for kind, words in told if kind == "state"][-1] == "FINISHED"
            (failure,) = [words for kind, words in told if kind == "failure"]
            assert failure.startswith("counts (1/1) #0 failed on ")
            assert told.index(("finished", "lines: FINISHED")) < told.index(("failure", failure))
            times = [each["time"] for each in before["events"]]
            assert times == sorted(times)
            assert not before["truncated"]
            rest.cluster.revoke_leadership(DISPATCHER)
            rest.cluster.grant_leadership(DISPATCHER)
            while (await rest.http.get("/v1/overview")).status_code == 503:
                pass
            assert await rest.get(f"/jobs/{job.job_id}/journal") == before

    do(story())
