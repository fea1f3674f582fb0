"""Jobs as they are: overviews, details, plan, configuration, failures."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from firesteel.model import options
from firesteel.model.failures import failure_labels
from firesteel.model.ids import JobID, derived_id
from firesteel.model.secrets import redacted
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import IOMetrics
from firesteel.model.views import ExceptionEntry, JobView, VertexView
from firesteel.rest.call import Call, EndedLine
from firesteel.rest.codecs import json_response, stack_text
from firesteel.rest.handlers import cluster
from firesteel.rest.joblines import elapsed_ms, job_details
from firesteel.rest.plans import plan_of_view
from firesteel.rest.readers import readers
from firesteel.rest.schema import jobs as j
from firesteel.rest.schema.cluster import ConfigurationInfoEntry, Empty, EnvironmentInfo
from firesteel.rest.sparkapplications import applications_of_job


async def job_ids(call: Call) -> j.JobIdsWithStatusOverview:
    found = await call.gateway.list_job_summaries()
    return j.JobIdsWithStatusOverview([j.JobIdWithStatus(job.job_id, job.status.value) for job in found])


async def jobs_overview(call: Call) -> Response:
    """A MultipleJobsDetails, of lines that are encoded already where they can't change."""
    now_ms, known = call.now_ms, call.services.ended_lines
    lines: list[j.JobDetails | msgspec.Raw] = []
    ended: dict[JobID, EndedLine] = {}
    for job in await call.gateway.list_job_summaries():
        line = known.get(job.job_id)
        if line is not None and line[0] is job:
            ended[job.job_id] = line
            lines.append(line[1])
        elif job.status.is_globally_terminal:
            line = ended[job.job_id] = (job, msgspec.Raw(msgspec.json.encode(job_details(job, now_ms))))
            lines.append(line[1])
        else:
            lines.append(job_details(job, now_ms))
    known.clear()
    known.update(ended)
    return json_response({"jobs": lines})


async def job(call: Call) -> j.JobDetailsInfo:
    view, now_ms = await call.job(), call.now_ms
    reading = readers(view)
    counts = dict.fromkeys(_STATE_NAMES, 0)
    for vertex in view.vertices:
        counts[vertex.status.name] += 1
    return j.JobDetailsInfo(
        jid=view.job_id,
        name=view.name,
        state=view.status.value,
        job_type=view.job_type.name,
        start_time=view.start_time_ms,
        end_time=view.end_time_ms,
        duration=elapsed_ms(view.start_time_ms, view.end_time_ms, now_ms),
        application_id=view.job_id,
        now=now_ms,
        timestamps={status.value: view.timestamps_ms.get(status.value, 0) for status in JobStatus},
        vertices=[_vertex_details(vertex, now_ms, is_reader=vertex.id in reading) for vertex in view.vertices],
        status_counts=counts,
        plan=plan_of_view(view),
        owner=view.owner,
        reason=view.reason,
        restarts=view.restarts,
        spark_applications=applications_of_job(view),
    )


async def job_status(call: Call) -> j.JobStatusInfo:
    return j.JobStatusInfo((await call.gateway.request_job_summary(call.job_id)).status.value)


async def job_view(call: Call) -> JobView:
    """Ours: the view whole, as firesteel's own clients read it; secrets are hidden."""
    return shown(await call.job())


async def job_plan(call: Call) -> j.JobPlanInfo:
    return j.JobPlanInfo(plan_of_view(await call.job()))


async def job_config(call: Call) -> j.JobConfigInfo:
    view = await call.job()
    strategy = view.configuration.get(options.RESTART_STRATEGY.key)
    return j.JobConfigInfo(
        jid=view.job_id,
        name=view.name,
        execution_config=j.ExecutionConfigInfo(
            restart_strategy=strategy or "Cluster level default restart strategy",
            job_parallelism=max((vertex.parallelism for vertex in view.vertices), default=1),
            user_config=redacted({**view.configuration, **view.parameters}),
        ),
    )


async def job_exceptions(call: Call) -> j.JobExceptionsInfoWithHistory:
    view = await call.job()
    limit, wanted = call.query["maxExceptions"], call.query["failureLabelFilter"]
    found = [entry for entry in view.exceptions if wanted <= failure_labels(entry.failure).items()]
    entries = [_root_exception(view, entry) for entry in found[:limit]]
    return j.JobExceptionsInfoWithHistory(j.ExceptionHistory(entries, truncated=len(found) > limit))


async def job_accumulators(call: Call) -> j.JobAccumulatorsInfo:
    await call.gateway.request_job_summary(call.job_id)
    return j.JobAccumulatorsInfo()


async def resource_requirements(call: Call) -> dict[str, j.JobVertexResourceRequirements]:
    """A vertex's parallelism is what its author has said, or what was decided when its inputs were there."""
    vertices = (await call.job()).vertices
    return {
        vertex.id: j.JobVertexResourceRequirements(j.JobResourceBounds(vertex.parallelism, vertex.parallelism))
        for vertex in vertices
    }


async def master_configuration(call: Call) -> list[ConfigurationInfoEntry]:
    await call.gateway.request_job_summary(call.job_id)
    return await cluster.configuration(call)


async def master_environment(call: Call) -> EnvironmentInfo:
    await call.gateway.request_job_summary(call.job_id)
    return await cluster.environment(call)


async def client_heartbeat(call: Call) -> Empty:
    """Take a sign of life: it counts from when it comes, whatever time a client names as its end; clocks differ."""
    await call.gateway.report_client_heartbeat(call.job_id)
    return Empty()


# ── parts that others use ────────────────────────────────────────────────────────────────────
_STATE_NAMES = tuple(state.name for state in ExecutionState)
_SHARING_GROUP = derived_id("slot sharing group", "default")


def all_states(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by upper-case state, with the states that nothing is in."""
    return {name: counts.get(name, 0) for name in _STATE_NAMES}


def io_metrics(vertex: VertexView, *, is_reader: bool) -> j.IOMetricsInfo:
    """Figures of the subtasks that have finished, and of running ones as far as they have told; what their regions read
    is that of a reader."""
    running = vertex.progress if is_reader else ()
    return io_info(
        msgspec.structs.replace(
            vertex.io,
            rows_read=vertex.io.rows_read + sum(each.rows_read for each in running),
            bytes_read=vertex.io.bytes_read + sum(each.bytes_read for each in running),
        ),
        vertex.io_lacking,
    )


def io_info(io: IOMetrics, lacking: Collection[str] = ()) -> j.IOMetricsInfo:
    """Figures for the body: what is not known is 0 and not complete."""

    def known(name: str) -> tuple[int, bool]:
        value: int = getattr(io, name)
        return max(0, value), value >= 0 and name not in lacking

    (read_bytes, has_read_bytes), (read_rows, has_read_rows) = known("bytes_read"), known("rows_read")
    (written_bytes, has_written_bytes), (written_rows, has_written_rows) = known("bytes_written"), known("rows_written")
    return j.IOMetricsInfo(
        read_bytes=read_bytes,
        read_bytes_complete=has_read_bytes,
        write_bytes=written_bytes,
        write_bytes_complete=has_written_bytes,
        read_records=read_rows,
        read_records_complete=has_read_rows,
        write_records=written_rows,
        write_records_complete=has_written_rows,
        spark_time=-1 if "spark_ms" in lacking and not io.spark_ms else io.spark_ms,
        memory_peak=io.memory_peak_bytes or -1,
    )


def shown(view: JobView) -> JobView:
    """A view without secrets; parameters as texts, since JSON has no infinite numbers."""
    texts = {"configuration": redacted(view.configuration), "parameters": redacted(view.parameters)}
    return msgspec.structs.replace(view.redacted(), **texts)


def task_name(view: JobView, entry: ExceptionEntry) -> str | None:
    """The attempt that failed, as Flink words it; None for a failure of the whole job."""
    names = [
        f"{vertex.name} ({entry.region - vertex.first_region + 1}/{vertex.parallelism})"
        for vertex in view.vertices
        if vertex.first_region <= entry.region < vertex.first_region + vertex.parallelism
    ]
    return f"{', '.join(names)} - execution #{entry.attempt}" if names else None


def _vertex_details(vertex: VertexView, now_ms: int, *, is_reader: bool) -> j.JobVertexDetails:
    return j.JobVertexDetails(
        id=vertex.id,
        slot_sharing_group_id=_SHARING_GROUP,
        name=vertex.name,
        max_parallelism=max(vertex.max_parallelism, vertex.parallelism),
        parallelism=vertex.parallelism,
        status=vertex.status.name,
        start_time=vertex.start_time_ms,
        end_time=vertex.end_time_ms,
        duration=elapsed_ms(vertex.start_time_ms, vertex.end_time_ms, now_ms),
        tasks=all_states(vertex.tasks),
        metrics=io_metrics(vertex, is_reader=is_reader),
        labels=list(vertex.labels),
    )


def _root_exception(view: JobView, entry: ExceptionEntry) -> j.RootExceptionInfo:
    return j.RootExceptionInfo(
        **_exception_fields(view, entry),
        concurrent_exceptions=[j.ExceptionInfo(**_exception_fields(view, each)) for each in entry.concurrent],
    )


def _exception_fields(view: JobView, entry: ExceptionEntry) -> dict[str, Any]:
    return {
        "exception_name": entry.failure.exception or entry.failure.kind.value,
        "stacktrace": stack_text(entry.failure),
        "timestamp": entry.timestamp_ms,
        "failure_labels": failure_labels(entry.failure),
        "task_name": task_name(view, entry),
        "endpoint": entry.task_manager,
        "task_manager_id": entry.task_manager,
    }
