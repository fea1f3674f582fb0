"""A mini cluster without Spark, in virtual time, that is looked over when it has closed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID, derived_id
from firesteel.model.jobgraph import JobGraph
from firesteel.model.options import Configuration
from firesteel.model.views import JobResult
from firesteel.runtime.dispatcher import DispatcherEndpoint
from firesteel.runtime.jobmaster import JobMasterEndpoint
from firesteel.testing.backend import TaskScript
from firesteel.testing.virtualtime import VirtualTimeLoop
from tests.core.graphs import job

FIXED_DELAY = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "50 ms"}


def graph(text: str, name: str = "job") -> JobGraph:
    """A graph in the language of `tests.core.graphs.job`; its id comes from its name."""
    return job(text, derived_id(name))


def virtual_loop() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop


@contextlib.asynccontextmanager
async def mini_cluster(
    script: TaskScript,
    *,
    workers: int = 1,
    store: InMemoryJobStore | None = None,
    options: Mapping[str, str] | None = None,
) -> AsyncIterator[MiniCluster]:
    """Open it, and see that nothing is left of it in the end."""
    before = asyncio.all_tasks()
    config = Configuration({"taskmanager.numberOfTaskSlots": "2", **(options or {})})
    cluster = MiniCluster(config, workers=workers, backend=script.backend, clock=virtual_loop(), store=store)
    async with cluster:
        yield cluster
    assert asyncio.all_tasks() == before, "tasks are left behind"
    assert not cluster._work_dir.exists(), "the directory is left behind"
    assert all(backend.closed for backend in script.backends), "a backend is left open"
    assert not cluster.rpc._mailboxes, "endpoints are left registered"
    assert not cluster.election._contenders, "contenders are left"
    assert not cluster.election._listeners, "listeners are left"


async def finish(cluster: MiniCluster, job_id: JobID) -> JobResult:
    """Await a job's end and its clean-up."""
    result = await cluster.client.request_job_result(job_id)
    while job_id in memory(cluster)._graphs:
        await asyncio.sleep(0.01)
    return result


def memory(cluster: MiniCluster) -> InMemoryJobStore:
    assert isinstance(cluster.store, InMemoryJobStore)
    return cluster.store


def job_master(cluster: MiniCluster, job_id: JobID) -> JobMasterEndpoint:
    dispatcher = cluster.dispatcher()
    assert isinstance(dispatcher, DispatcherEndpoint)
    runner = dispatcher._sessions.of(job_id)
    assert runner is not None
    service = runner.service
    assert isinstance(service, JobMasterEndpoint)
    return service
