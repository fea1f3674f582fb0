"""Options of registration: how peers of a cluster find together, and when they give up."""

from firesteel.model.configuration import ConfigOption

REGISTRATION_INITIAL_TIMEOUT = ConfigOption(
    "cluster.registration.initial-timeout",
    "duration",
    100,
    "How long a worker or a job's master waits for an answer of the ResourceManager before it registers again; each further time twice as long.",
)
REGISTRATION_MAX_TIMEOUT = ConfigOption(
    "cluster.registration.max-timeout",
    "duration",
    30_000,
    "Longest time between two tries to register.",
)
REGISTRATION_ERROR_DELAY = ConfigOption(
    "cluster.registration.error-delay",
    "duration",
    10_000,
    "Longest time after a try to register that could not be made, because there was no connection: the first tries follow one another as when no answer comes. A new leader is tried at once.",
)
TASKMANAGER_REGISTRATION_TIMEOUT = ConfigOption(
    "taskmanager.registration.timeout",
    "duration",
    300_000,
    "A worker that is registered at no ResourceManager for this long ends, as soon as it has nothing of a job that a master may ask for: see `taskmanager.master-grace`.",
)
SLOT_REQUEST_TIMEOUT = ConfigOption(
    "slot.request.timeout",
    "duration",
    300_000,
    "Functions fail that need a slot while for this long no registered worker has one that is large enough, free or taken; their retries, or the job's restart strategy, say whether one is asked for again. It is looked at with each heartbeat. What waits for slots that others hold waits on.",
)
