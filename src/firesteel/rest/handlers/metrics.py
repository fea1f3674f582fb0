"""Flink's metric routes: names without `get`, figures with it. What was not measured is in neither."""

import asyncio

from starlette.responses import Response

from firesteel.model.metric import MetricValue
from firesteel.rest.call import Call
from firesteel.rest.handlers.taskmanagers import found_worker
from firesteel.rest.handlers.vertices import found_subtask
from firesteel.rest.metrics.figures import job_values, task_values, watermark_values, worker_values
from firesteel.rest.metrics.selection import aggregated, number_text, told
from firesteel.rest.metrics.sources import job_views, master_values, scraped
from firesteel.rest.readers import readers
from firesteel.rest.schema.cluster import AggregatedMetric, Metric
from firesteel.rest.subtasks import subtasks_in_turns

JOBS_MAX = 1_000
"""Jobs that one request aggregates over, where it names none: the newest."""


async def scrape(call: Call) -> Response:
    """For Prometheus: this master, and all that it leads. What writes it is loaded for the first scrape."""
    from firesteel.adapters.metrics.exposition import CONTENT_TYPE, exposition

    things = await scraped(call.services)
    return Response(await asyncio.to_thread(exposition, things), headers={"Content-Type": CONTENT_TYPE})


async def of_master(call: Call) -> list[Metric]:
    return told(await master_values(call.services), call.query["get"])


async def of_worker(call: Call) -> list[Metric]:
    return told(worker_values(await found_worker(call), call.now_ms), call.query["get"])


async def of_workers(call: Call) -> list[AggregatedMetric]:
    wanted = call.query["taskmanagers"]
    workers = await call.gateway.list_task_managers()
    values = [worker_values(each, call.now_ms) for each in workers if wanted is None or each.resource_id in wanted]
    return aggregated(values, call.query["get"], call.query["agg"])


async def of_job(call: Call) -> list[Metric]:
    return told(job_values(await call.job(), call.now_ms), call.query["get"])


async def of_jobs(call: Call) -> list[AggregatedMetric]:
    """Those that are named and known; without a name the newest."""
    wanted = call.query["jobs"]
    known = [line.job_id for line in await call.gateway.list_job_summaries()]
    chosen = known[:JOBS_MAX] if wanted is None else [job_id for job_id in known if job_id in wanted]
    values = [job_values(view, call.now_ms) async for view in job_views(call.gateway, chosen)]
    return aggregated(values, call.query["get"], call.query["agg"])


async def of_vertex(call: Call) -> list[Metric]:
    """Of all its subtasks: each name with the subtask's index before it."""
    vertex, wanted = await call.vertex(), call.query["get"]
    is_reader, lines = vertex.id in readers(await call.job()), list[Metric]()
    async for subtasks in subtasks_in_turns(call, vertex):
        for each in subtasks:
            lines += told(task_values(vertex, each, is_reader=is_reader), wanted, f"{each.subtask}.")
    return lines


async def of_subtask(call: Call) -> list[Metric]:
    vertex, subtask = await found_subtask(call)
    is_reader = vertex.id in readers(await call.job())
    return told(task_values(vertex, subtask, is_reader=is_reader), call.query["get"])


async def of_subtasks(call: Call) -> list[AggregatedMetric]:
    vertex, values = await call.vertex(), list[list[MetricValue]]()
    is_reader = vertex.id in readers(await call.job())
    async for subtasks in subtasks_in_turns(call, vertex, call.query["subtasks"]):
        values += [task_values(vertex, each, is_reader=is_reader) for each in subtasks]
    return aggregated(values, call.query["get"], call.query["agg"])


async def of_coordinators(call: Call) -> list[Metric]:
    """Nothing is measured of what the master does for one function."""
    await call.vertex()
    return []


async def watermarks(call: Call) -> list[Metric]:
    """Lowest watermark of each subtask that has one; a batch job has none."""
    vertex = await call.vertex()
    return [
        Metric(f"{each.attempt.region - vertex.first_region}.{value.id}", number_text(value.value))
        for each in vertex.progress
        for value in watermark_values(each)
    ]
