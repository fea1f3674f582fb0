"""Jobs and functions that run on workers with certain labels only."""

import asyncio
import contextlib

import msgspec
import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.resources import UNSPECIFIED
from firesteel.model.states import JobStatus
from firesteel.runtime.admission import admission
from firesteel.runtime.client import DuplicateJob, NoLeader
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import finish, graph, mini_cluster
from tests.runtime.conftest import Do

BIG = {"taskmanager.labels": "big"}


def wanting(text: str, labels: dict[str, str], **options: str) -> JobGraph:
    """A job whose functions with these names ask for a label; options with `__` for points."""
    made = graph(text, text)
    vertices = tuple(
        msgspec.structs.replace(each, resources=UNSPECIFIED.labelled((labels[each.name],)))
        if each.name in labels
        else each
        for each in made.vertices
    )
    configuration = {key.replace("__", "."): value for key, value in options.items()}
    return msgspec.structs.replace(made, vertices=vertices, configuration=configuration)


async def workers_of(cluster: MiniCluster, job_id: JobID) -> dict[str, set[ResourceID | None]]:
    """Workers on which each vertex has run."""
    assert (await finish(cluster, job_id)).status is JobStatus.FINISHED
    view = await cluster.client.request_job(job_id)
    return {vertex.name: {each.task_manager for each in vertex.subtasks} for vertex in view.vertices}


async def until_waiting(cluster: MiniCluster, job_id: JobID, reason: str) -> None:
    told: str | None = None
    while told is None or reason not in told:
        await asyncio.sleep(0.01)
        with contextlib.suppress(NoLeader):
            told = (await cluster.client.request_job(job_id)).reason


def test_a_region_waits_for_a_worker_with_its_label_also_under_other_masters(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        async with mini_cluster(script) as cluster:
            (plain,) = cluster.workers
            job_id = await cluster.client.submit_job(wanting("a |> b; c", {"b": "big"}), {})
            await until_waiting(cluster, job_id, "no registered worker has the label big")
            for component in ("resource_manager", "dispatcher"):
                cluster.revoke_leadership(component)
                await asyncio.sleep(1)
                cluster.grant_leadership(component)
            await until_waiting(cluster, job_id, "no registered worker has the label big")
            big = await cluster.start_task_executor(BIG)
            assert await workers_of(cluster, job_id) == {"a": {plain}, "b": {big}, "c": {plain}}
            assert [worker.profile.labels for worker in await cluster.client.list_task_managers()] == [(), ("big",)]

    do(story())


def test_jobs_and_queues_ask_for_labels(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        options = {"jobmanager.queue-labels": "etl=gpu"}
        async with mini_cluster(script, options=options, workers=0) as cluster:
            gpu = await cluster.start_task_executor({"taskmanager.labels": "gpu"})
            both = await cluster.start_task_executor({"taskmanager.labels": "gpu, big"})
            on_job = wanting("a; b", {"b": "gpu"}, execution__on="big")
            assert await workers_of(cluster, await cluster.client.submit_job(on_job, {})) == {"a": {both}, "b": {gpu}}
            queued = wanting("c |> d", {"d": "big"}, job__queue="etl")
            job_id = await cluster.client.submit_job(queued, {})
            assert await cluster.client.submit_job(queued, {}) == job_id, "the same words again"
            with pytest.raises(DuplicateJob):
                await cluster.client.submit_job(msgspec.structs.replace(queued, configuration={}), {})
            assert await workers_of(cluster, job_id) == {"c": {gpu}, "d": {both}}

    do(story())


def test_a_label_that_nobody_has_fails_its_job_in_time_and_says_so(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        options = {"slot.request.timeout": "1 min", "heartbeat.interval": "1 s"}
        async with mini_cluster(script, options=options) as cluster:
            result = await finish(cluster, await cluster.client.submit_job(wanting("a", {"a": "bgi"}), {}))
            assert result.failure is not None
            message = "no registered worker had the label bgi for 1 min, which is slot.request.timeout"
            assert message in result.failure.message

    do(story())


def test_labels_of_a_queue_that_there_is_not_are_refused() -> None:
    labels = {"jobmanager.queue-labels": "elt=big, default=small"}
    assert admission(Configuration(labels)).queue_labels == {"elt": ("big",), "default": ("small",)}, "any name will do"
    with pytest.raises(
        ConfigurationError, match=r"queue-labels: there is no queue elt: jobmanager.queues has etl, default"
    ):
        admission(Configuration({**labels, "jobmanager.queues": "etl=1"}))
