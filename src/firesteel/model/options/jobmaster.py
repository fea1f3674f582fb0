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
