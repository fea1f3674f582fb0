"""Write docs/metrics.md from the declarations in firesteel.model.metrics: `make docs`."""

from pathlib import Path

from firesteel.model.metric import VALUES_MAX
from firesteel.model.metrics import METRICS, Metric, Scope

PAGE = "docs/metrics.md"
HEAD = """\
# Metrics

Generated from `src/firesteel/model/metrics/` by `make docs`.

Each figure was measured: what nobody has measured is absent, never 0. Names are Flink's where the thing is the same,
marked **F**; `<queue>` and the like in a name are variables.

## Over REST

Flink's routes: without `get` they list the names that there are, with `get=NAME,NAME` they tell figures, in the unit of
the tables below.

| Route | Scope |
|---|---|
| `/jobmanager/metrics` | `jobmanager` |
| `/taskmanagers/ID/metrics`; `/taskmanagers/metrics` aggregated over `taskmanagers=ID,ID` or all | `taskmanager` |
| `/jobs/ID/metrics`; `/jobs/metrics` aggregated over `jobs=ID,ID` or the newest thousand | `job` |
| `/jobs/ID/vertices/VERTEX/metrics`, with the subtask's index before each name (`0.numRecordsIn`) | `task` |
| `/jobs/ID/vertices/VERTEX/subtasks/INDEX/metrics` | `task` |
| `/jobs/ID/vertices/VERTEX/subtasks/metrics`, aggregated over `subtasks=0,3-5` or all | `task` |

Aggregated figures are `min`, `max`, `avg`, `sum` and `skew` (mean deviation from the mean, in percent of it), or those of
them that `agg=` names. Figures of attempts that have finished are kept with their job.

Workers tell of themselves with their heartbeats (`heartbeat.interval`), what they measured last
(`metrics.fetcher.update-interval`): at most {values_max} figures, up to two intervals old. Nothing is sent for a task of Spark.

## Prometheus

`GET /metrics` of a master's REST endpoint has all: the leader's tells of the cluster, of each worker (label `tm_id`) and of
jobs (`job_id`, `job_name`); that of a master which stands by only of itself (`firesteel_jobmanager_leads` is 0). Jobs are
those that have not ended, the oldest first, at most `metrics.reporter.prom.max-jobs` (100); subtasks are not told, so that
a scrape has at most about 20 series a job, and 7 for each query of a stream. [deploy/metrics](../deploy/metrics) has a configuration for Prometheus, rules for
alerts, and a dashboard for Grafana.

Names are those below in lower case, with underscores: `numRunningJobs` of the scope `jobmanager` is
`firesteel_jobmanager_num_running_jobs`. Times are in seconds, counters end in `_total`, variables are labels.

Where the REST endpoint asks who its callers are (`rest.users-file`), Prometheus needs a token of a user; any role will do:
`authorization: {{credentials_file: FILE}}` in its `scrape_configs`. With `security.ssl.rest.certificate` it says `scheme: https`
and `tls_config: {{ca_file: FILE}}`, and a certificate of its own (`cert_file`, `key_file`) where `security.ssl.rest.ca` is set.

A worker serves its own figures at `metrics.reporter.prom.port`, when that is set, on loopback unless
`metrics.reporter.prom.host` says otherwise, to the users and with the certificates that are configured for REST there. That
is for who wants them more often than with heartbeats; scrape either the masters or the workers for them, or they are there
twice.
"""

SCOPES = {
    Scope.JOBMANAGER: (
        "jobmanager",
        "The cluster, as its leading master sees it.",
    ),
    Scope.TASKMANAGER: ("taskmanager", "A worker."),
    Scope.JOB: ("job", "A job, also one that has ended, as long as it is known; times are told until it has."),
    Scope.TASK: ("task", "A subtask: its current or last attempt."),
}


def render() -> str:
    """The whole page, scope by scope, in the order in which the metrics are declared."""
    return HEAD.format(values_max=VALUES_MAX) + "".join(section(scope) for scope in Scope)


def section(scope: Scope) -> str:
    title, text = SCOPES[scope]
    rows = "".join(row(metric) for (of, _), metric in METRICS.items() if of is scope)
    return f"\n## {title}\n\n{text}\n\n| Name | | Kind, unit | Meaning |\n|---|---|---|---|\n{rows}"


def row(metric: Metric) -> str:
    """One line of a table."""
    origin = "F" if metric.is_flinks else ""
    return f"| `{metric.name}` | {origin} | {metric.kind.value}, {metric.unit.value} | {metric.description} |\n"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / PAGE).write_text(render())
