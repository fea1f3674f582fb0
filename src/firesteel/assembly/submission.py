"""A job is handed in once, whatever becomes of the Dispatchers that are asked."""

import asyncio
from collections.abc import Awaitable, Callable

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.jobentry import JobStage
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.refusals import DuplicateJob
from firesteel.runtime.dispatcher import DispatcherEndpoint
from firesteel.runtime.endpoint import EndpointStopped

ASKED_AGAIN_S = 0.01
"""Time between a Dispatcher that stopped before its answer and the look for its successor."""


async def submitted(graph: JobGraph, leader: Callable[[], Awaitable[DispatcherEndpoint]]) -> JobID:
    """Ask the leading Dispatcher to take a job; returns when it is durable. Raises what that refuses it with.

    One that stopped while it stored the job may have stored it: then a successor knows it, also if it has ended since.
    """
    was_storing = False
    while True:
        dispatcher = await leader()
        try:
            return await dispatcher.ask(r.SubmitJob(graph))
        except EndpointStopped:
            was_storing = was_storing or _is_storing(dispatcher, graph)
            await asyncio.sleep(ASKED_AGAIN_S)
        except DuplicateJob:
            if not (was_storing and _may_be(dispatcher, graph)):
                raise
            return graph.job_id


def _is_storing(dispatcher: DispatcherEndpoint, graph: JobGraph) -> bool:
    job = dispatcher.core.jobs.get(graph.job_id)
    return job is not None and job.stage is JobStage.STORING and job.is_of(graph)


def _may_be(dispatcher: DispatcherEndpoint, graph: JobGraph) -> bool:
    """Whether the job that is known is this one, as far as can be told: of most that have ended no graph is kept."""
    job = dispatcher.core.jobs.get(graph.job_id)
    return job is None or job.graph is None or job.is_of(graph)
