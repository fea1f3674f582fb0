"""Options of workers, their slots and task processes."""

from firesteel.model.configuration import ConfigOption
from firesteel.model.labels import Labels

TASKMANAGER_RESOURCE_ID = ConfigOption(
    "taskmanager.resource-id", "str", "", "Name of a worker process; empty means its host's with a random part."
)
NUMBER_OF_TASK_SLOTS = ConfigOption(
    "taskmanager.numberOfTaskSlots", "int", 2, "Slots a worker offers: how many regions it runs at once.", minimum=1
)
NO_LABELS: Labels = ()
TASKMANAGER_LABELS = ConfigOption(
    "taskmanager.labels",
    "labels",
    NO_LABELS,
    "What a worker is called by those who want it, like `big, gpu`: see `execution.on`. Work that asks for no label runs anywhere, and first where there are fewest.",
)
TASK_CPU = ConfigOption("taskmanager.cpu.cores", "float", 0.0, "Cores a worker offers; 0 means all of the machine's.")
SLOT_TIMEOUT = ConfigOption(
    "taskmanager.slot.timeout",
    "duration",
    10_000,
    "A slot that was allocated but not taken up by its job for this long is freed.",
)
MASTER_GRACE = ConfigOption(
    "taskmanager.master-grace",
    "duration",
    600_000,
    "How long a worker keeps running a job's attempts, and their results, while the job has no master.",
)
PROGRESS_INTERVAL = ConfigOption(
    "taskmanager.progress.interval", "duration", 200, "Least time between two progress reports of one attempt."
)
TASK_MEMORY_LIMIT = ConfigOption(
    "taskmanager.memory.task-process.limit",
    "memory",
    0,
    "Memory the task process of an attempt, what it has started, and its Spark Python workers may use before the attempt is ended; 0 means 80 % of what the machine has beside the Spark heap.",
)
TASK_LOG_LIMIT = ConfigOption(
    "taskmanager.task-process.log-limit",
    "memory",
    64,
    "Size of the file with what one attempt prints; of a larger one the newest quarter is kept.",
)
SCRIPT_OUTPUT_LIMIT = ConfigOption(
    "taskmanager.script.output-limit",
    "memory",
    256,
    "What one attempt of a plain script may print to each of its two streams, and its client gets to see; it is kept"
    " with the job's result.",
)
TASK_LOGS_KEPT = ConfigOption(
    "taskmanager.task-process.logs-kept",
    "int",
    200,
    "Ended jobs of which a worker keeps what their functions have printed; the oldest go first.",
)
TASK_SPARES = ConfigOption("taskmanager.task-process.spares", "int", 2, "Task processes forked ahead of need.")
LOAD_BALANCE_MODE = ConfigOption(
    "taskmanager.load-balance.mode",
    "str",
    "SLOTS",
    "How slots are chosen among workers: SLOTS takes the least used worker, NONE fills one after the other (Flink's default).",
    ("NONE", "SLOTS"),
)
CANCELLATION_TIMEOUT = ConfigOption(
    "task.cancellation.timeout",
    "duration",
    30_000,
    "A process that has not ended this long after it was killed, because it hangs in the kernel, is given up: its attempt has ended. 0: it is waited for.",
)
