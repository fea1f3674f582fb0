"""Every route, once: what is served, what is checked, and what the OpenAPI document says."""

from firesteel.model.options import parse_duration_ms
from firesteel.model.views import JobView
from firesteel.rest.call import Query, Route
from firesteel.rest.handlers import (
    applications,
    checkpoints,
    cluster,
    completion,
    flamegraph,
    jars,
    jobs,
    logs,
    metrics,
    operations,
    rescales,
    submission,
    taskmanagers,
    vertices,
)
from firesteel.rest.metrics.selection import aggregations, names, subtasks
from firesteel.rest.ownroutes import OWN_ROUTES
from firesteel.rest.queries import labels, natural, stream, whole
from firesteel.rest.schema import checkpoints as ck
from firesteel.rest.schema import cluster as c
from firesteel.rest.schema import jars as r
from firesteel.rest.schema import jobs as j
from firesteel.rest.schema import logs as l
from firesteel.rest.schema import operations as o
from firesteel.rest.schema import vertices as v
from firesteel.rest.security import Role

INTEGER = {"type": "integer", "minimum": 0}

GET = Query("get", "Names of metrics, parted by commas; without it, the names that there are are told.", names)
AGGREGATED = (
    GET,
    Query(
        "agg", "How to aggregate them: min, max, avg, sum, skew, parted by commas; all without it.", aggregations, ()
    ),
)
FUNCTION = Query("function", "Whose rows; none is needed where only one function returns any.", str, "")
MODE = Query("mode", "`cancel`.")
MAX_EXCEPTIONS = Query("maxExceptions", "At most so many.", natural, 20, INTEGER)
LABELS = Query(
    "failureLabelFilter",
    "Only failures with all of these labels: KEY:VALUE, parted by commas, like `type:SPARK`.",
    labels,
    frozenset(),
)
JAR_OPTIONS = (
    Query("entry-class", "Which pipeline: MODULE, MODULE:NAME or NAME.", str, ""),
    Query("programArg", "Job parameters, name=value, parted by commas; of a script, its arguments.", str, ""),
    Query("program-args", "The same as one text; quotes hold words together.", str, ""),
    Query("parallelism", "For functions that state none.", natural, None, INTEGER),
    Query("savepointPath", "The savepoint that a streaming job starts from."),
    Query("allowNonRestoredState", "`true`: state of the savepoint that no sink claims is left out."),
)
LINE = Query("offset", "Where to begin; a negative one counts from the end.", whole, 0, {"type": "integer"})
GROWTH = Query("wait", "How long to wait for lines: milliseconds, or a time like `20 s`.", parse_duration_ms, 0)
WAIT = Query("wait", "How long to wait for the end: milliseconds, or a time like `30 s`.", parse_duration_ms, 0)
STREAM = Query("stream", "`stdout` or `stderr`.", stream, "stdout", {"enum": ["stdout", "stderr"]})
ATTEMPT = Query("attempt", "Of which attempt, from 0 on.", natural, 0, INTEGER)
OFFSET = Query("offset", "The first byte that is wanted.", natural, 0, INTEGER)

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
    Route("GET", "/cluster/masters", cluster.masters, "The leader and its standbys.", c.MastersInfo),
    Route(
        "GET",
        "/metrics",
        metrics.scrape,
        "Figures of this master, its workers and jobs for Prometheus.",
        None,
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
    Route("GET", "/jobmanager/logs", logs.master_logs, "The master's log files.", c.LogListInfo),
    Route("GET", "/jobmanager/logs/{filename}", logs.master_log_file, "One of them.", None),
    Route("GET", "/jobmanager/log", logs.master_log, "The one it writes now.", None),
    Route("GET", "/jobmanager/stdout", logs.no_text_file, "Kept nowhere.", None),
    Route("GET", "/jobmanager/metrics", metrics.of_master, "The master's metrics.", list[c.Metric], query=(GET,)),
    Route("GET", "/jobmanager/thread-dump", logs.master_threads, "Where its threads are.", c.ThreadDumpInfo),
    # ── workers ──────────────────────────────────────────────────────────────────────────────
    Route("GET", "/taskmanagers", taskmanagers.task_managers, "All workers.", c.TaskManagersInfo),
    Route(
        "GET",
        "/taskmanagers/metrics",
        metrics.of_workers,
        "Metrics of workers, aggregated.",
        list[c.AggregatedMetric],
        query=(*AGGREGATED, Query("taskmanagers", "Ids, parted by commas; all without it.", names)),
    ),
    Route("GET", "/taskmanagers/{taskmanagerid}", taskmanagers.task_manager, "A worker.", c.TaskManagerDetailsInfo),
    *(
        Route("GET", f"/taskmanagers/{{taskmanagerid}}/{path}", handler, summary, answer, query=query)
        for path, handler, summary, answer, query in (
            ("logs", logs.worker_logs, "Its log files, and what attempts have printed.", c.LogListInfo, ()),
            ("logs/{filename}", logs.worker_log_file, "One of them.", None, ()),
            ("logs/{filename}/part", logs.worker_log_part, "Lines of it.", l.LogPartInfo, (LINE, GROWTH)),
            ("log", logs.worker_log, "Its own log.", None, ()),
            ("stdout", logs.worker_stdout, "What the attempt has printed that printed last.", None, ()),
            ("thread-dump", logs.worker_threads, "Where its threads are.", c.ThreadDumpInfo, ()),
            ("spark", logs.worker_spark, "Its applications on clusters of Spark.", c.TaskManagerSparkInfo, ()),
            ("metrics", metrics.of_worker, "Its metrics.", list[c.Metric], (GET,)),
        )
    ),
    # ── files of pipelines: Flink calls them jars ────────────────────────────────────────────
    Route("GET", "/jars", jars.jars, "All files that were uploaded.", r.JarListInfo),
    Route(
        "POST",
        "/jars/upload",
        jars.upload,
        "Keep a file of a pipeline, to be run later: .py, .zip or .whl (multipart).",
        r.JarUploadResponseBody,
        role=Role.SUBMIT,
        takes_upload=True,
        errors=(408, 413, 429),
    ),
    Route("DELETE", "/jars/{jarid}", jars.delete, "Delete one.", role=Role.SUBMIT, errors=(403,)),
    *(
        Route(
            method,
            f"/jars/{{jarid}}/{path}",
            handler,
            summary,
            answer,
            body=r.JarRunRequestBody if method == "POST" else None,
            query=JAR_OPTIONS,
            role=Role.SUBMIT,
            status=status,
            errors=(409, 429),
        )
        for method, path, handler, summary, answer, status in (
            ("GET", "plan", jars.plan, "The graph of its pipeline.", j.JobPlanInfo, 200),
            ("POST", "plan", jars.plan, "The graph of its pipeline.", j.JobPlanInfo, 200),
            ("POST", "run", jars.run, "Run its pipeline.", r.JarRunResponseBody, 200),
            ("POST", "run-application", jars.run_application, "Run it.", r.JarRunApplicationResponseBody, 202),
        )
    ),
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
        metrics.of_jobs,
        "Metrics of jobs, aggregated.",
        list[c.AggregatedMetric],
        query=(*AGGREGATED, Query("jobs", "Ids, parted by commas; without it, the newest thousand jobs.", names)),
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
    Route("GET", "/jobs/{jobid}/logs", logs.job_logs, "What its attempts have printed, and where.", l.JobLogsInfo),
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
        "A client is alive: a job that ends with its client goes on.",
        body=j.JobClientHeartbeatRequestBody,
        role=Role.SUBMIT,
        status=202,
    ),
    Route("GET", "/jobs/{jobid}/metrics", metrics.of_job, "Its metrics.", list[c.Metric], query=(GET,)),
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
            ("/backpressure", vertices.back_pressure, "Of a stream: its lag.", v.JobVertexBackPressureInfo, ()),
            ("/accumulators", vertices.accumulators, "None.", v.UserAccumulators, ()),
            ("/subtasks/accumulators", vertices.subtasks_accumulators, "None.", v.SubtasksAllAccumulatorsInfo, ()),
            ("/metrics", metrics.of_vertex, "Metrics of its subtasks.", list[c.Metric], (GET,)),
            ("/jm-operator-metrics", metrics.of_coordinators, "None.", list[c.Metric], (GET,)),
            ("/watermarks", metrics.watermarks, "Of subtasks with a watermark.", list[c.Metric], ()),
            (
                "/subtasks/metrics",
                metrics.of_subtasks,
                "Metrics of its subtasks, aggregated.",
                list[c.AggregatedMetric],
                (*AGGREGATED, Query("subtasks", "Indices and ranges, like `0,3-5`; all without it.", subtasks)),
            ),
            (
                "/flamegraph",
                flamegraph.of_vertex,
                "Where its running attempts are, in Python and in the JVM; made when asked for.",
                v.VertexFlameGraph,
                flamegraph.ASKED,
            ),
            ("/subtasks/{subtaskindex}", vertices.subtask, "Its last attempt.", v.SubtaskDetails, ()),
            ("/subtasks/{subtaskindex}/metrics", metrics.of_subtask, "Its metrics.", list[c.Metric], (GET,)),
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
    *(
        Route("GET", f"/jobs/{{jobid}}/{kind}/{{triggerid}}", handler, "How it goes.", answer)
        for kind, handler, answer in (
            ("savepoints", operations.savepoint_operation, o.SavepointOperation),
            ("checkpoints", operations.checkpoint_operation, o.CheckpointOperation),
        )
    ),
    *(
        Route("GET", f"/jobs/{{jobid}}/checkpoints{path}", handler, f"{summary} A batch job has none: 404.", answer)
        for path, handler, summary, answer in (
            ("", checkpoints.statistics, "Figures of its checkpoints.", ck.CheckpointingStatistics),
            ("/config", checkpoints.config, "How they are taken.", ck.CheckpointConfigInfo),
            ("/details/{checkpointid}", checkpoints.details, "One of them.", ck.CheckpointDetails),
            ("/details/{checkpointid}/subtasks/{vertexid}", checkpoints.vertex_details, "404.", c.Empty),
        )
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
    *OWN_ROUTES,
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
