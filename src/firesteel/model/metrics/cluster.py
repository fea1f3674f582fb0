"""Metrics of a cluster, as its leading master sees it."""

from firesteel.model.metric import Kind, Metric, Scope, Unit

_SCOPE = Scope.JOBMANAGER

LEADS = Metric(_SCOPE, "leads", Unit.NUMBER, "1 while this master leads, else 0: a standby tells only of its process.")
REGISTERED_TASK_MANAGERS = Metric(
    _SCOPE, "numRegisteredTaskManagers", Unit.NUMBER, "Workers that are registered.", is_flinks=True
)
LOST_TASK_MANAGERS = Metric(
    _SCOPE,
    "numLostTaskManagers",
    Unit.NUMBER,
    "Workers that have gone without a goodbye since this ResourceManager leads.",
    kind=Kind.COUNTER,
)
TASK_SLOTS_TOTAL = Metric(_SCOPE, "taskSlotsTotal", Unit.NUMBER, "Slots of all workers.", is_flinks=True)
TASK_SLOTS_AVAILABLE = Metric(_SCOPE, "taskSlotsAvailable", Unit.NUMBER, "Those that are free.", is_flinks=True)
RUNNING_JOBS = Metric(
    _SCOPE, "numRunningJobs", Unit.NUMBER, "Jobs that have not ended, also those that wait.", is_flinks=True
)
JOBS_BY_STATUS = Metric(_SCOPE, "jobs.<status>", Unit.NUMBER, "Known jobs in a state, also ended ones that are kept.")
QUEUE_LENGTH = Metric(_SCOPE, "queue.<queue>.length", Unit.NUMBER, "Jobs of a queue that lack slots.")
QUEUE_OLDEST_WAIT = Metric(
    _SCOPE,
    "queue.<queue>.oldestWait",
    Unit.MILLISECONDS,
    "How long the job of a queue has waited that has waited longest, of those that have had no slot yet.",
)
JOURNAL_WRITES = Metric(
    _SCOPE,
    "journal.writes",
    Unit.NUMBER,
    "Writes to the journals of all jobs: each is durable before what depends on it is sent.",
    kind=Kind.COUNTER,
)
JOURNAL_RECORDS = Metric(_SCOPE, "journal.records", Unit.NUMBER, "Records in those writes.", kind=Kind.COUNTER)
JOURNAL_WRITE_TIME = Metric(
    _SCOPE,
    "journal.writeTime",
    Unit.MILLISECONDS,
    "Time from the beginning of each write until it was durable, summed: by `journal.writes`, it is the mean latency.",
    kind=Kind.COUNTER,
)
JOURNAL_SLOWEST_WRITE = Metric(
    _SCOPE, "journal.slowestWrite", Unit.MILLISECONDS, "The slowest write of the last 10 to 20 s."
)
