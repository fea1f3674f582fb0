"""State of streaming queries by REST: which query is meant, which worker is asked, and what is refused."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from firesteel.model.ids import ResourceID
from firesteel.model.jobgraph import JobType
from firesteel.model.resources import ResourceProfile
from firesteel.model.streams import QueryProgress, QueryState, StateOperator, StateQuestion
from firesteel.model.views import TaskManagerView
from firesteel.rest.handlers.state import one_of_each_kind
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import RestCluster, graph, rest_cluster

STREAM = graph(
    "lines -> counts", "stream", job_type=JobType.STREAMING, configuration={"execution.checkpointing.dir": "/c"}
)
BATCH = graph("other", "batch")
OPERATOR = StateOperator(number=0, name="stateStoreSave", stores=(), partitions=2)
STATE = QueryState(
    uid="counts",
    batch_id=7,
    operators=(OPERATOR,),
    rows=({"key": {"k": "a"}, "value": {"count": 3}, "partition_id": 0},),
    is_complete=True,
)


@contextlib.asynccontextmanager
async def streaming(tmp_path: Path, *uids: str) -> AsyncIterator[RestCluster]:
    """A cluster with a stream that has queries with these uids, and a batch job."""
    script = TaskScript(state=STATE, queries=tuple(QueryProgress(uid=uid, batch_id=7) for uid in uids))
    script.hold("lines", "counts", "other")
    async with rest_cluster(tmp_path, script=script) as rest:
        for each in (STREAM, BATCH):
            await rest.submit(each)
        await script.until_running("counts")
        await script.until_running("other")
        while uids and not any(
            vertex.progress for vertex in (await rest.cluster.client.request_job(STREAM.job_id)).vertices
        ):
            await asyncio.sleep(0.01)
        yield rest


def test_the_worker_of_the_query_is_asked(tmp_path: Path) -> None:
    async def story() -> None:
        async with streaming(tmp_path, "counts") as rest:
            query = 'vertex=counts&keys={"k": "a"}&operator=2&store=left&limit=9'
            answer = await rest.get(f"/v1/jobs/{STREAM.job_id}/state?{query}")
            assert msgspec.convert(answer, QueryState) == STATE
            (order,) = rest.script.state_orders
            assert (order.uid, order.job_id, order.checkpoints_dir) == ("counts", STREAM.job_id, "/c")
            assert order.question == StateQuestion(keys={"k": "a"}, operator=2, store="left", limit=9)
            await rest.get(f"/v1/jobs/{STREAM.job_id}/state?vertex=lines")
            assert rest.script.state_orders[-1].uid == "counts", "the only query that has the function"
            await rest.get("/v1/savepoint-state?path=/saved/one")
            assert rest.script.state_orders[-1].savepoint == "/saved/one"

    asyncio.run(story())


def test_what_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with streaming(tmp_path, "counts", "raw") as rest:
            for path, status, words in (
                (f"/jobs/{STREAM.job_id}/state?vertex=lines", 400, "name one of counts, raw"),
                (f"/jobs/{STREAM.job_id}/state?vertex=nobody", 404, "has no query, vertex or function 'nobody'"),
                (f"/jobs/{STREAM.job_id}/state?vertex=raw&keys=3", 400, "Cannot resolve query parameter (keys)"),
                (f"/jobs/{BATCH.job_id}/state?vertex=other", 400, "is a batch job: it keeps no state"),
                ("/savepoint-state", 400, "Say which savepoint"),
            ):
                assert words in (await rest.get(path, status))["errors"][0], path
            rest.script.state = None
            refused = await rest.get(f"/jobs/{STREAM.job_id}/state?vertex=raw", 400)
            assert refused["errors"] == ["no state is kept here"]
            await rest.cluster.client.cancel_job(STREAM.job_id)
            await rest.cluster.client.request_job_result(STREAM.job_id)
            ended = await rest.get(f"/jobs/{STREAM.job_id}/state?vertex=raw", 400)
            assert "has ended: its state is in its savepoints" in ended["errors"][0]
            for worker in tuple(rest.cluster.workers):
                await rest.cluster.terminate_task_executor(worker)
            while (await rest.get("/taskmanagers"))["taskmanagers"]:
                await asyncio.sleep(0.01)
            refused = await rest.get("/savepoint-state?path=/saved/one", 400)
            assert "No worker is registered" in refused["errors"][0], "a client would ask again where nobody leads"

    asyncio.run(story())


def test_a_query_of_which_nothing_is_known_yet(tmp_path: Path) -> None:
    async def story() -> None:
        async with streaming(tmp_path) as rest:
            refused = await rest.get(f"/jobs/{STREAM.job_id}/state?vertex=counts", 400)
            assert "Nothing is known of the queries of counts yet" in refused["errors"][0]

    asyncio.run(story())


def test_a_savepoint_may_be_read_by_workers_with_certain_labels_only() -> None:
    def worker(name: str, free_slots: int, *labels: str) -> TaskManagerView:
        return TaskManagerView(
            resource_id=ResourceID(name),
            address=name,
            slots=4,
            free_slots=free_slots,
            profile=ResourceProfile(labels=labels),
            since_ms=0,
            last_heartbeat_ms=0,
        )

    workers = [worker("a", 1, "small"), worker("b", 2, "big"), worker("c", 3, "small"), worker("d", 0, "big", "gpu")]
    assert [each.resource_id for each in one_of_each_kind(workers)] == ["c", "b", "d"]
