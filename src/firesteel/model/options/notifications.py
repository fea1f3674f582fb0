"""Options of who is told of changes of jobs' states."""

from firesteel.model.configuration import ConfigOption

WEBHOOK_URL = ConfigOption(
    "jobmanager.webhook.url",
    "str",
    "",
    "URL that the master sends each change of a job's state to, as JSON by POST; empty means none.",
)
WEBHOOK_SECRET = ConfigOption(
    "jobmanager.webhook.secret",
    "str",
    "",
    "Secret that webhooks are signed with: the header `Firesteel-Signature` has an HMAC-SHA256. Empty means no signature.",
)
WEBHOOK_TIMEOUT = ConfigOption(
    "jobmanager.webhook.timeout", "duration", 10_000, "Limit on one try to deliver a webhook or an OpenLineage event."
)
WEBHOOK_TRIES = ConfigOption(
    "jobmanager.webhook.max-attempts",
    "int",
    5,
    "Tries to deliver one webhook or OpenLineage event, with growing pauses between; then it is dropped.",
)
WEBHOOK_QUEUE_SIZE = ConfigOption(
    "jobmanager.webhook.queue-size",
    "int",
    1_000,
    "Webhooks, and OpenLineage events, that wait to be delivered; further ones are dropped.",
)
JOB_STATUS_LISTENERS = ConfigOption(
    "jobmanager.job-status-listeners",
    "str",
    "",
    "Classes of the operator's own, MODULE:CLASS parted by commas, from the master's Python path: their `job_status_changed` is told of each change of a job's state.",
)
OPENLINEAGE_URL = ConfigOption(
    "jobmanager.openlineage.url",
    "str",
    "",
    "URL that takes OpenLineage run events, like http://HOST:5000/api/v1/lineage; empty means none.",
)
TRACES_ENDPOINT = ConfigOption(
    "traces.reporter.otel.exporter.endpoint",
    "str",
    "",
    "URL that takes traces of jobs by OTLP over HTTP, like http://HOST:4318/v1/traces; empty means none.",
)
TRACES_SERVICE_NAME = ConfigOption(
    "traces.reporter.otel.service.name", "str", "firesteel", "Name of the service in these traces."
)
OPENLINEAGE_NAMESPACE = ConfigOption(
    "jobmanager.openlineage.namespace", "str", "firesteel", "Namespace of jobs in OpenLineage events."
)
OPENLINEAGE_API_KEY = ConfigOption(
    "jobmanager.openlineage.api-key", "str", "", "Bearer token for `jobmanager.openlineage.url`; empty means none."
)
