"""Every route, once: what is served, what is checked, and what the OpenAPI document says."""

from firesteel.model.options import parse_duration_ms
from firesteel.model.views import JobView
from firesteel.rest.call import Query, Route
from firesteel.rest.handlers import (
    applications,
    cluster,
    completion,
    jobs,
    operations,
    rescales,
    submission,
    taskmanagers,
    vertices,
)
from firesteel.rest.schema import cluster as c
from firesteel.rest.schema import jobs as j
from firesteel.rest.schema import operations as o
from firesteel.rest.schema import vertices as v
from firesteel.rest.security import Role

INTEGER = {"type": "integer", "minimum": 0}


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ValueError(text)
    return int(text)


def _stream(text: str) -> str:
    if text not in ("stdout", "stderr"):
        raise ValueError(text)
    return text


GET = Query("get", "Names of metrics, parted by commas.")
AGGREGATED = (GET, Query("agg", "How to aggregate them."))
FUNCTION = Query("function", "Whose rows; none is needed where only one function returns any.", str, "")
MODE = Query("mode", "`cancel`.")
MAX_EXCEPTIONS = Query("maxExceptions", "At most so many.", _natural, 20, INTEGER)
LABELS = Query("failureLabelFilter", "Ignored: failures have no labels.")
WAIT = Query("wait", "How long to wait for the end: milliseconds, or a time like `30 s`.", parse_duration_ms, 0)
STREAM = Query("stream", "`stdout` or `stderr`.", _stream, "stdout", {"enum": ["stdout", "stderr"]})
ATTEMPT = Query("attempt", "Of which attempt, from 0 on.", _natural, 0, INTEGER)
OFFSET = Query("offset", "The first byte that is wanted.", _natural, 0, INTEGER)

ROUTES: tuple[Route, ...] = (
    # ── the cluster ──────────────────────────────────────────────────────────────────────────
    Route("GET", "/config", cluster.dashboard_configuration, "How the dashboard is set up.", c.DashboardConfiguration),
    Route("GET", "/overview", cluster.overview, "Workers, slots and jobs in numbers.", c.ClusterOverviewWithVersion),
    Route(
        "GET",
        "/cluster/leader",
        cluster.leader,
        "Which master leads, as the one that is asked knows.",
        c.ClusterLeader,
        of_this_master=True,
    ),
    Route("DELETE", "/cluster", cluster.shut_down, "Shut the cluster down.", role=Role.OPERATE, errors=(409,)),
    Route(
        "GET", "/datasets", cluster.no_datasets, "Data sets that outlive jobs: none.", c.ClusterDataSetListResponseBody
    ),
    Route("GET", "/datasets/delete/{triggerid}", operations.no_dataset_deletion, "None.", o.SavepointOperation),
    # ── the master ───────────────────────────────────────────────────────────────────────────
    Route("GET", "/jobmanager/config", cluster.configuration, "The configuration.", list[c.ConfigurationInfoEntry]),
    Route("GET", "/jobmanager/environment", cluster.environment, "The master's interpreter.", c.EnvironmentInfo),
    Route("GET", "/jobmanager/logs", cluster.master_logs, "The master's log files.", c.LogListInfo),
    Route("GET", "/jobmanager/logs/{filename}", cluster.master_log_file, "One of them.", None),
    Route("GET", "/jobmanager/log", cluster.master_log, "The newest of them.", None),
    Route("GET", "/jobmanager/stdout", cluster.no_text_file, "Kept nowhere.", None),
    Route("GET", "/jobmanager/metrics", cluster.master_metrics, "The master's metrics.", list[c.Metric], query=(GET,)),
    Route("GET", "/jobmanager/thread-dump", cluster.thread_dump, "Where its threads are.", c.ThreadDumpInfo),
    # ── workers ──────────────────────────────────────────────────────────────────────────────
    Route("GET", "/taskmanagers", taskmanagers.task_managers, "All workers.", c.TaskManagersInfo),
    Route(
        "GET",
        "/taskmanagers/metrics",
        cluster.no_aggregated_metrics,
        "Metrics of workers: none yet.",
        list[c.AggregatedMetric],
        query=(*AGGREGATED, Query("taskmanagers", "Ids, parted by commas.")),
    ),
    Route("GET", "/taskmanagers/{taskmanagerid}", taskmanagers.task_manager, "A worker.", c.TaskManagerDetailsInfo),
    Route("GET", "/taskmanagers/{taskmanagerid}/logs", taskmanagers.logs, "Its log files: none yet.", c.LogListInfo),
    Route("GET", "/taskmanagers/{taskmanagerid}/log", cluster.no_text_file, "Not served yet.", None),
    Route("GET", "/taskmanagers/{taskmanagerid}/stdout", cluster.no_text_file, "Not served yet.", None),
    Route(
        "GET", "/taskmanagers/{taskmanagerid}/metrics", taskmanagers.metrics, "None yet.", list[c.Metric], query=(GET,)
    ),
    Route("GET", "/taskmanagers/{taskmanagerid}/thread-dump", taskmanagers.thread_dump, "None yet.", c.ThreadDumpInfo),
    # ── jobs ─────────────────────────────────────────────────────────────────────────────────
    Route("GET", "/jobs", jobs.job_ids, "Every known job's id and state.", j.JobIdsWithStatusOverview),
    Route(
        "POST",
        "/jobs",
        submission.submit_job,
        "Submit a job graph of firesteel with its artifacts (multipart).",
        j.JobSubmitResponseBody,
        role=Role.SUBMIT,
        status=202,
        takes_upload=True,
        errors=(408, 409, 413, 429, 507),
    ),
    Route("GET", "/jobs/overview", jobs.jobs_overview, "A line for every known job.", j.MultipleJobsDetails),
    Route(
        "GET",
        "/jobs/metrics",
        cluster.no_aggregated_metrics,
        "Metrics of jobs: none yet.",
        list[c.AggregatedMetric],
        query=(*AGGREGATED, Query("jobs", "Ids, parted by commas.")),
    ),
    Route("GET", "/jobs/{jobid}", jobs.job, "A job with its vertices.", j.JobDetailsInfo),
    Route("PATCH", "/jobs/{jobid}", operations.cancel, "Cancel a job.", query=(MODE,), status=202, errors=(403, 409)),
    Route(
        "GET",
        "/jobs/{jobid}/yarn-cancel",
        operations.cancel,
        "Cancel a job: for proxies that let only GET through.",
        query=(MODE,),
        status=202,
        errors=(403, 409),
    ),
    Route("GET", "/jobs/{jobid}/status", jobs.job_status, "A job's state.", j.JobStatusInfo),
    Route("GET", "/jobs/{jobid}/view", jobs.job_view, "A job as firesteel's own clients read it.", JobView),
    Route("GET", "/jobs/{jobid}/events", completion.events, "Server-sent events: its changes, then its result.", None),
    Route(
        "GET",
        "/jobs/{jobid}/execution-result",
        completion.execution_result,
        "How a job ended; waits for it when asked to.",
        j.JobExecutionResultResponseBody,
        query=(WAIT,),
    ),
    Route(
        "GET",
        "/jobs/{jobid}/rows",
        completion.rows,
        "Rows that a job which has ended returned.",
        j.ReturnedRowsBody,
        query=(FUNCTION,),
        errors=(403,),
    ),
    Route(
        "GET",
        "/jobs/{jobid}/output",
        completion.output,
        "What a plain script has printed, from a byte on.",
        None,
        query=(STREAM, ATTEMPT, OFFSET, WAIT),
        errors=(403,),
    ),
    Route("GET", "/jobs/{jobid}/plan", jobs.job_plan, "Its graph.", j.JobPlanInfo),
    Route("GET", "/jobs/{jobid}/config", jobs.job_config, "Its configuration.", j.JobConfigInfo),
    Route(
        "GET",
        "/jobs/{jobid}/exceptions",
        jobs.job_exceptions,
        "Its failures, newest first.",
        j.JobExceptionsInfoWithHistory,
        query=(MAX_EXCEPTIONS, LABELS),
    ),
    Route(
        "GET",
        "/jobs/{jobid}/accumulators",
        jobs.job_accumulators,
        "Accumulators: none.",
        j.JobAccumulatorsInfo,
        query=(Query("includeSerializedValue", "Ignored."),),
    ),
    Route(
        "GET",
        "/jobs/{jobid}/resource-requirements",
        jobs.resource_requirements,
        "The parallelism of its vertices.",
        dict[str, j.JobVertexResourceRequirements],
    ),
    Route(
        "PUT",
        "/jobs/{jobid}/resource-requirements",
        rescales.change_requirements,
        "Refused: a job keeps its parallelism.",
        role=Role.OPERATE,
        errors=(409,),
    ),
    Route(
        "PATCH",
        "/jobs/{jobid}/clientHeartbeat",
        jobs.client_heartbeat,
        "A client is alive.",
        body=j.JobClientHeartbeatRequestBody,
        status=202,
    ),
    Route("GET", "/jobs/{jobid}/metrics", jobs.no_metrics, "None yet.", list[c.Metric], query=(GET,)),
    Route(
        "GET",
        "/jobs/{jobid}/jobmanager/config",
        jobs.master_configuration,
        "The configuration of its master.",
        list[c.ConfigurationInfoEntry],
    ),
    Route("GET", "/jobs/{jobid}/jobmanager/environment", jobs.master_environment, "Its master's.", c.EnvironmentInfo),
    # ── vertices ─────────────────────────────────────────────────────────────────────────────
    *(
        Route("GET", f"/jobs/{{jobid}}/vertices/{{vertexid}}{path}", handler, summary, answer, query=query)
        for path, handler, summary, answer, query in (
            ("", vertices.vertex, "A vertex with its subtasks.", v.JobVertexDetailsInfo, ()),
            ("/subtasktimes", vertices.subtask_times, "When they were in which state.", v.SubtasksTimesInfo, ()),
            ("/taskmanagers", vertices.vertex_task_managers, "By worker.", v.JobVertexTaskManagersInfo, ()),
            ("/backpressure", vertices.back_pressure, "None: Spark pulls.", v.JobVertexBackPressureInfo, ()),
            ("/accumulators", vertices.accumulators, "None.", v.UserAccumulators, ()),
            ("/subtasks/accumulators", vertices.subtasks_accumulators, "None.", v.SubtasksAllAccumulatorsInfo, ()),
            ("/metrics", vertices.no_metrics, "None yet.", list[c.Metric], (GET,)),
            ("/jm-operator-metrics", vertices.no_metrics, "None yet.", list[c.Metric], (GET,)),
            ("/watermarks", vertices.no_metrics, "None: a batch job has no watermarks.", list[c.Metric], ()),
            (
                "/subtasks/metrics",
                vertices.no_metrics,
                "None yet.",
                list[c.AggregatedMetric],
                (*AGGREGATED, Query("subtasks", "Indices, parted by commas.")),
            ),
            (
                "/flamegraph",
                vertices.flame_graph,
                "Empty.",
                v.VertexFlameGraph,
                (Query("type", "Ignored."), Query("subtaskindex", "Ignored.")),
            ),
            ("/subtasks/{subtaskindex}", vertices.subtask, "Its last attempt.", v.SubtaskDetails, ()),
            ("/subtasks/{subtaskindex}/metrics", vertices.no_metrics, "None yet.", list[c.Metric], (GET,)),
            ("/subtasks/{subtaskindex}/attempts/{attempt}", vertices.attempt, "An attempt.", v.SubtaskDetails, ()),
            (
                "/subtasks/{subtaskindex}/attempts/{attempt}/accumulators",
                vertices.attempt_accumulators,
                "None.",
                v.SubtaskAttemptAccumulators,
                (),
            ),
        )
    ),
    # ── checkpoints and savepoints ───────────────────────────────────────────────────────────
    *(
        Route("POST", path, handler, summary, o.TriggerResponse, body=body, status=202, errors=(403,))
        for path, handler, summary, body in (
            ("/jobs/{jobid}/savepoints", operations.trigger_savepoint, "Savepoint.", o.SavepointTriggerRequestBody),
            ("/jobs/{jobid}/stop", operations.stop_with_savepoint, "Stop with it.", o.StopWithSavepointRequestBody),
            ("/jobs/{jobid}/checkpoints", operations.trigger_checkpoint, "Checkpoint.", o.CheckpointTriggerRequestBody),
        )
    ),
    Route(
        "GET",
        "/jobs/{jobid}/savepoints/{triggerid}",
        operations.savepoint_operation,
        "How it goes.",
        o.SavepointOperation,
    ),
    Route(
        "GET",
        "/jobs/{jobid}/checkpoints/{triggerid}",
        operations.checkpoint_operation,
        "How it goes.",
        o.CheckpointOperation,
    ),
    *(
        Route("GET", f"/jobs/{{jobid}}/checkpoints{path}", operations.no_checkpoints, "A batch job has none: 404.")
        for path in ("", "/config", "/details/{checkpointid}", "/details/{checkpointid}/subtasks/{vertexid}")
    ),
    Route(
        "POST",
        "/savepoint-disposal",
        operations.dispose_savepoint,
        "Delete a savepoint.",
        o.TriggerResponse,
        body=o.SavepointDisposalRequest,
        role=Role.OPERATE,
    ),
    Route(
        "GET", "/savepoint-disposal/{triggerid}", operations.disposal_operation, "How it goes.", o.SavepointOperation
    ),
    # ── applications, rescaling ──────────────────────────────────────────────────────────────
    Route(
        "GET",
        "/applications/overview",
        applications.applications_overview,
        "Every job as an application.",
        o.MultipleApplicationsDetails,
    ),
    Route(
        "GET", "/applications/{jobid}", applications.application, "A job as an application.", o.ApplicationDetailsInfo
    ),
    Route(
        "POST",
        "/applications/{jobid}/cancel",
        operations.cancel,
        "Cancel it.",
        query=(MODE,),
        status=202,
        errors=(403, 409),
    ),
    Route(
        "GET",
        "/applications/{jobid}/exceptions",
        applications.application_exceptions,
        "Its failures.",
        o.ApplicationExceptionsInfoWithHistory,
    ),
    Route(
        "GET",
        "/applications/{jobid}/jobmanager/config",
        jobs.master_configuration,
        "The configuration.",
        list[c.ConfigurationInfoEntry],
    ),
    Route("GET", "/jobs/{jobid}/rescales/overview", rescales.overview, "No rescaling.", o.JobRescalesOverview),
    Route("GET", "/jobs/{jobid}/rescales/summary", rescales.summary, "No rescaling.", o.JobRescalesSummary),
    Route("GET", "/jobs/{jobid}/rescales/history", rescales.history, "No rescaling.", list[str]),
    Route("GET", "/jobs/{jobid}/rescales/config", rescales.configuration, "No rescaling.", o.JobRescaleConfigInfo),
    Route("GET", "/jobs/{jobid}/rescales/details/{rescaleuuid}", rescales.details, "No rescaling: 404."),
)


def in_order(routes: tuple[Route, ...]) -> list[Route]:
    """So that words of a path win over its parameters."""

    def key(route: Route) -> list[tuple[bool, str]]:
        return [(part.startswith("{"), part) for part in route.path.split("/")]

    return sorted(routes, key=key)
