"""Options of metrics and of those who collect them."""

from firesteel.model.configuration import ConfigOption

NO_PORTS: tuple[int, ...] = ()
METRICS_UPDATE_INTERVAL = ConfigOption(
    "metrics.fetcher.update-interval",
    "duration",
    10_000,
    "How often a worker measures what it tells of itself; its next heartbeat takes it along.",
)
PROMETHEUS_PORT = ConfigOption(
    "metrics.reporter.prom.port",
    "ports",
    NO_PORTS,
    "Port at which a worker serves its own metrics for Prometheus, or a range, like 9250-9260, of which it takes the first that is free; empty means that it serves none. A master serves them at its REST endpoint.",
)
PROMETHEUS_HOST = ConfigOption(
    "metrics.reporter.prom.host", "str", "127.0.0.1", "Address that a worker serves them at; 0.0.0.0 for all."
)
PROMETHEUS_MAX_JOBS = ConfigOption(
    "metrics.reporter.prom.max-jobs",
    "int",
    100,
    "Jobs of which a master tells Prometheus one by one, at most: those that have not ended, the oldest first.",
)
