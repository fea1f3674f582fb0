"""Queries as their workers find them, and jobs submitted once more, by REST."""

import asyncio
from pathlib import Path

import msgspec

from firesteel.core.effects import DISPATCHER
from firesteel.model.branches import Branch, branch_text
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.options import BRANCH
from firesteel.model.states import JobStatus
from firesteel.model.streams import STREAM_FILES, QueryPosition, QuerySight, StreamOutput
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import RestCluster, graph, rest_cluster
from tests.rest.test_state import BATCH, STREAM, streaming

SIGHT = QuerySight(
    uid="counts",
    output=StreamOutput(kind=STREAM_FILES, place="/real", format="parquet"),
    positions=(QueryPosition(7, "x"),),
)
NEW = "f" * 32
NO_DISK = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the disk of the worker is full", vertex="v")


async def copied(rest: RestCluster, job_id: JobID, body: object, status: int = 202) -> object:
    answer = await rest.http.post(f"/v1/jobs/{job_id}/copy", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def cleaned(rest: RestCluster) -> None:
    while rest.cluster.master.dispatcher().cleans_up():
        await asyncio.sleep(0.01)


def test_where_queries_write_is_told_by_their_worker(tmp_path: Path) -> None:
    async def story() -> None:
        async with streaming(tmp_path, "counts") as rest:
            rest.script.sights["counts"] = SIGHT
            found = msgspec.convert(await rest.get(f"/v1/jobs/{STREAM.job_id}/queries"), list[QuerySight])
            assert found == [SIGHT], "once, though several vertices run in its region"
            refused = await rest.get(f"/v1/jobs/{BATCH.job_id}/queries", 400)
            assert "is a batch job: it has no queries" in refused["errors"][0]
            await rest.cluster.client.cancel_job(STREAM.job_id)
            await rest.cluster.client.request_job_result(STREAM.job_id)
            ended = await rest.get(f"/v1/jobs/{STREAM.job_id}/queries", 400)
            assert "it is CANCELED, and has no queries" in ended["errors"][0]

    asyncio.run(story())


def test_a_job_is_submitted_once_more(tmp_path: Path) -> None:
    note = branch_text(Branch(of=STREAM.job_id))

    async def story() -> None:
        async with streaming(tmp_path, "counts") as rest:
            body = {"jobId": NEW, "configuration": {BRANCH.key: note}}
            for _ in range(2):  # whoever has heard nothing asks again
                assert await copied(rest, STREAM.job_id, body) == {"jobUrl": f"/jobs/{NEW}"}
            view = await rest.cluster.client.request_job(JobID(NEW))
            assert (view.name, view.branch_of) == (STREAM.name, STREAM.job_id)
            assert view.configuration["execution.checkpointing.dir"] == "/c"
            lines = {line["jid"]: line["branch-of"] for line in (await rest.get("/v1/jobs/overview"))["jobs"]}
            assert lines == {STREAM.job_id: "", BATCH.job_id: "", NEW: STREAM.job_id}
            await copied(rest, STREAM.job_id, {"jobId": "x"}, 400)
            await copied(rest, STREAM.job_id, {"jobId": "e" * 32, "parameters": {"no": "1"}}, 400)
            await copied(rest, JobID("d" * 32), {"jobId": "e" * 32}, 404)
            await copied(rest, BATCH.job_id, {"jobId": NEW}, 409)

    asyncio.run(story())


def test_what_failed_is_submitted_once_more(tmp_path: Path) -> None:
    """From what is kept with its result, also by the next leader; what has finished is refused, and says so."""

    async def story() -> None:
        script = TaskScript()
        script._failures["v"] = [NO_DISK]
        options = {"jobstore.retryable.max-capacity": "1", "restart-strategy.type": "none"}
        async with rest_cluster(tmp_path, script=script, options=options) as rest:
            failing = graph("v", "failing", parameters={"input": "/x"})
            await rest.submit(failing)
            await rest.finish(failing.job_id)
            await cleaned(rest)
            rest.cluster.revoke_leadership(DISPATCHER)
            rest.cluster.grant_leadership(DISPATCHER)
            while (await rest.http.get("/v1/overview")).status_code == 503:
                await asyncio.sleep(0.01)
            assert await copied(rest, failing.job_id, {"jobId": NEW}) == {"jobUrl": f"/jobs/{NEW}"}
            await rest.finish(JobID(NEW))
            again = await rest.cluster.client.request_job(JobID(NEW))
            assert (again.name, again.status, again.parameters) == ("failing", JobStatus.FINISHED, {"input": "/x"})
            refused = await copied(rest, JobID(NEW), {"jobId": "e" * 32}, 400)
            assert "has finished, and code is kept" in str(refused)
            script._failures["v"] = [NO_DISK]
            await cleaned(rest)
            other = graph("v", "other")
            await rest.submit(other)
            assert (await rest.finish(other.job_id))["application-status"] == "FAILED"
            await cleaned(rest)
            assert "not kept any more" in str(await copied(rest, failing.job_id, {"jobId": "e" * 32}, 400))

    asyncio.run(story())


def test_a_promoted_job_is_no_branch_any_more(tmp_path: Path) -> None:
    note = branch_text(Branch(of=STREAM.job_id, promoted=True))
    graph: JobGraph = msgspec.structs.replace(STREAM, job_id=JobID(NEW), configuration={BRANCH.key: note})

    async def story() -> None:
        async with streaming(tmp_path, "counts") as rest:
            await rest.submit(graph)
            assert (await rest.cluster.client.request_job(JobID(NEW))).branch_of == ""

    asyncio.run(story())
