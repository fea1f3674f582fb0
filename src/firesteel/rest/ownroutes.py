"""Routes that firesteel's dashboard asks beside those of Flink."""

from firesteel.model.branches import JobCopy
from firesteel.model.streams import QuerySight, QueryState
from firesteel.rest.call import Query, Route
from firesteel.rest.handlers import cluster, journal, lineage, queries, sparkpages, sparkwork, state, watching
from firesteel.rest.queries import natural, pairs
from firesteel.rest.schema import cluster as c
from firesteel.rest.schema import events as e
from firesteel.rest.schema import jobs as j
from firesteel.rest.schema.journal import JournalInfo
from firesteel.rest.schema.lineage import LineageInfo
from firesteel.rest.schema.spark import SparkWorkInfo
from firesteel.rest.security import Role

EVENTS_OF = Query("job", "Only events of this job.", str, "")
OF_VERTEX = Query("vertex", "Only attempts of this vertex.", str, "")

STATE = (
    Query("vertex", "Uid of the query's sink, or a vertex or function that only one query has.", str, ""),
    Query("keys", 'JSON object: only rows whose key has these values, like `{"k": "a"}`.', pairs, {}),
    Query("operator", "Number of the stateful operator.", natural, 0, {"type": "integer", "minimum": 0}),
    Query("store", "`left` or `right` of a join, the state variable of `transformWithState`.", str, ""),
    Query("limit", "At most so many rows.", natural, 100, {"type": "integer", "minimum": 0}),
)

OWN_ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/jobs/{jobid}/state",
        state.of_job,
        "What a streaming query keeps, as of its last committed batch.",
        QueryState,
        query=STATE,
        errors=(403,),
    ),
    Route(
        "GET",
        "/jobs/{jobid}/queries",
        queries.of_job,
        "Where the queries of a stream write, and what they have read by the end of their newest batches.",
        list[QuerySight],
        query=(Query("savepoint", "A savepoint of the job: the batches at which its queries are there.", str, ""),),
        errors=(403,),
    ),
    Route(
        "POST",
        "/jobs/{jobid}/copy",
        queries.copy,
        "Submit a job that runs once more, under another id, with other parameters or options.",
        j.JobSubmitResponseBody,
        body=JobCopy,
        role=Role.SUBMIT,
        status=202,
        errors=(403, 409, 429, 507),
    ),
    Route(
        "GET",
        "/savepoint-state",
        state.of_savepoint,
        "What a query of a savepoint had kept.",
        QueryState,
        query=(Query("path", "The savepoint.", str, ""), *STATE),
        role=Role.OPERATE,
    ),
    Route(
        "GET",
        "/events",
        watching.events,
        "Server-sent events: what changes in the cluster. Resumed by the header Last-Event-ID.",
        None,
        query=(EVENTS_OF,),
        errors=(405, 429),
    ),
    Route("GET", "/queue", watching.queue, "Jobs that wait for slots, first those that are served next.", e.QueueInfo),
    Route("GET", "/jobmanager/profiler", cluster.no_profiles, "None.", c.ProfilingInfoList),
    Route("GET", "/taskmanagers/{taskmanagerid}/profiler", cluster.no_profiles, "None.", c.ProfilingInfoList),
    Route("GET", "/user", watching.user, "Who asks, and what he may do.", e.UserInfo, of_this_master=True),
    Route(
        "GET",
        "/jobs/{jobid}/attempts",
        watching.attempts,
        "Attempts of its subtasks, as rows.",
        e.AttemptsInfo,
        query=(OF_VERTEX,),
    ),
    Route("GET", "/jobs/{jobid}/journal", journal.of_job, "What its journal says has happened.", JournalInfo),
    Route(
        "GET", "/jobs/{jobid}/lineage", lineage.of_job, "What it reads and writes, as far as it is known.", LineageInfo
    ),
    Route(
        "GET",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/spark",
        sparkwork.of_attempt,
        "Its queries in Spark, with plan and figures, and their stages, as Spark tells them now.",
        SparkWorkInfo,
        errors=(403,),
    ),
    Route(
        "GET",
        "/jobs/{jobid}/spark/{page}",
        sparkpages.job_spark_page,
        "Spark's own pages of what it runs in, and what they are made of (api/v1/...).",
        None,
        errors=(403,),
    ),
    Route(
        "POST",
        "/jobs/{jobid}/spark-ticket",
        sparkpages.job_spark_ticket,
        "An address at which a browser can show these pages, for an hour.",
        e.SparkPagesAddress,
        errors=(403,),
    ),
    Route(
        "GET",
        "/spark/{ticket}/{page}",
        sparkpages.spark_page,
        "Spark's own pages, to who has such an address.",
        None,
        by_ticket=True,
        errors=(403,),
    ),
)
