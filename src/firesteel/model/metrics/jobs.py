"""Metrics of jobs, and of their subtasks."""

from firesteel.model.metric import Kind, Metric, Scope, Unit

RESTARTS = Metric(
    Scope.JOB,
    "numRestarts",
    Unit.NUMBER,
    "Restarts of regions that were planned since the job was submitted.",
    kind=Kind.COUNTER,
    is_flinks=True,
)
FULL_RESTARTS = Metric(
    Scope.JOB, "fullRestarts", Unit.NUMBER, "The same, by the name it had before.", kind=Kind.COUNTER, is_flinks=True
)
UPTIME = Metric(
    Scope.JOB, "uptime", Unit.MILLISECONDS, "Time that it has been RUNNING without a break.", is_flinks=True
)
DOWNTIME = Metric(
    Scope.JOB,
    "downtime",
    Unit.MILLISECONDS,
    "Time since it was RUNNING last, while it fails, is cancelled or waits to be restarted; 0 while it is RUNNING.",
    is_flinks=True,
)
STATE_TIMES = {
    state: Metric(
        Scope.JOB, f"{word}Time", Unit.MILLISECONDS, f"Time it has been {state} by now, or 0.", is_flinks=is_flinks
    )
    for state, word, is_flinks in (
        ("INITIALIZING", "initializing", True),
        ("CREATED", "created", True),
        ("RUNNING", "running", True),
        ("RESTARTING", "restarting", True),
        ("FAILING", "failing", True),
        ("CANCELLING", "cancelling", True),
    )
}
"""By the state of the job, while it has not ended."""
TASKS_BY_STATE = Metric(Scope.JOB, "tasks.<state>", Unit.NUMBER, "Subtasks in a state that any is in.")

_IO = {
    "numRecordsIn": (Unit.NUMBER, "Rows read", True),
    "numBytesIn": (Unit.BYTES, "Bytes read", True),
    "numRecordsOut": (Unit.NUMBER, "Rows written: stored for other regions, or staged by a sink", True),
    "numBytesOut": (Unit.BYTES, "Bytes written: stored for other regions, or staged by a sink", True),
    "sparkTasks": (Unit.NUMBER, "Tasks of Spark that are done", False),
}


def _io(scope: Scope, of_whom: str) -> dict[str, Metric]:
    return {
        name: Metric(
            scope,
            name,
            unit,
            f"{text}, {of_whom}.",
            kind=Kind.COUNTER if scope is Scope.TASK else Kind.GAUGE,
            is_flinks=is_flinks and scope is Scope.TASK,
        )
        for name, (unit, text, is_flinks) in _IO.items()
    }


TASK_IO = _io(
    Scope.TASK,
    "by the current attempt; while it runs, bytes read and tasks of its whole region until now",
)
JOB_IO = _io(Scope.JOB, "by all subtasks that have finished; it falls when some of them run again")
SPARK_TIME = Metric(
    Scope.TASK,
    "sparkTime",
    Unit.MILLISECONDS,
    "Time in which Spark had queries of the current attempt, so of its whole region, to run. Told when it has finished.",
)
MEMORY_PEAK = Metric(
    Scope.TASK,
    "memoryPeak",
    Unit.BYTES,
    "Most memory that the current attempt's task process has held, with what that has started and Spark's Python workers on its host. Told when it has finished.",
)
SPARK_TASKS_PLANNED = Metric(
    Scope.TASK, "sparkTasksPlanned", Unit.NUMBER, "Tasks of Spark that are known to be to do, while the attempt runs."
)
