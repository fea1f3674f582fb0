"""Options of JobMasters."""

from firesteel.model.configuration import ConfigOption

SLOT_IDLE_TIMEOUT = ConfigOption(
    "slot.idle.timeout", "duration", 50_000, "A slot a job holds without need for this long is given back."
)
RECONCILIATION_TIMEOUT = ConfigOption(
    "jobmanager.reconciliation.timeout",
    "duration",
    10_000,
    "How long a new JobMaster waits for workers to report attempts that were running before it restarts them.",
)
CANCELLATION_TIMEOUT = ConfigOption(
    "task.cancellation.timeout",
    "duration",
    30_000,
    "An attempt that has not ended this long after its cancellation is given up: its process is gone or its worker is.",
)
CANCELLATION_INTERVAL = ConfigOption(
    "task.cancellation.interval", "duration", 2_000, "Time between two requests to cancel one attempt."
)
