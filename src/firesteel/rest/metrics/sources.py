"""What there is to tell of a master: its process, and, while it leads, its cluster, workers and jobs."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from firesteel.adapters.metrics.figures import Figures
from firesteel.model import metrics, options
from firesteel.model.ids import JobID
from firesteel.model.messages import DEFAULT_QUEUE
from firesteel.model.metric import MetricValue, Scope
from firesteel.model.views import ClusterView, JobView
from firesteel.rest.call import Services
from firesteel.rest.metrics.figures import cluster_values, job_values, worker_values
from firesteel.runtime.client import ClusterGateway, ClusterLost, NoLeader, UnknownJob

JOBS_A_TURN = 8
"""Views of jobs that are made before others get their turn on the loop."""


async def master_values(services: Services) -> list[MetricValue]:
    """Figures of the cluster and of this process; of a history server only the latter. Raises NoLeader."""
    if services.read_only:
        return list(services.registry.values())
    return _master_values(services, await services.gateway.request_cluster_view())


def _master_values(services: Services, cluster: ClusterView) -> list[MetricValue]:
    queues = (DEFAULT_QUEUE, *services.config.get_option(options.QUEUES))
    now_ms = services.clock.now_ms()
    return [
        metrics.LEADS.of(1),
        *cluster_values(cluster, queues=queues, now_ms=now_ms),
        *services.registry.values(),
    ]


async def scraped(services: Services) -> list[Figures]:
    """All that a scrape of this master takes."""
    if services.read_only:
        return [Figures(Scope.JOBMANAGER, services.registry.values())]
    try:
        cluster = await services.gateway.request_cluster_view()
    except (NoLeader, ClusterLost):
        return [Figures(Scope.JOBMANAGER, [metrics.LEADS.of(0), *services.registry.values()])]
    now_ms = services.clock.now_ms()
    workers = [
        Figures(Scope.TASKMANAGER, worker_values(each, now_ms), {"tm_id": each.resource_id})
        for each in cluster.task_managers
    ]
    master = Figures(Scope.JOBMANAGER, _master_values(services, cluster))
    return [master, *workers, *await _jobs(services, cluster)]


async def _jobs(services: Services, cluster: ClusterView) -> list[Figures]:
    """The oldest jobs that have not ended, as many as are told one by one."""
    limit = services.config.get_option(options.PROMETHEUS_MAX_JOBS)
    oldest = cluster.jobs[: -limit - 1 : -1]
    found: list[Figures] = []
    async for view in job_views(services.gateway, (job.job_id for job in oldest)):
        labels = {"job_id": view.job_id, "job_name": view.name}
        found.append(Figures(Scope.JOB, job_values(view, services.clock.now_ms()), labels))
    return found


async def job_views(gateway: ClusterGateway, job_ids: Iterable[JobID]) -> AsyncIterator[JobView]:
    """Views of the jobs that are known; others get their turn on the loop between them."""
    for number, job_id in enumerate(job_ids, start=1):
        if number % JOBS_A_TURN == 0:
            await asyncio.sleep(0)
        try:
            view = await gateway.request_job(job_id)
        except UnknownJob:
            continue  # it was forgotten meanwhile
        yield view
