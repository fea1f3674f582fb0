"""Metrics of a worker: its slots, its task processes and its Spark backends."""

from firesteel.model.metric import Kind, Metric, Scope, Unit

_SCOPE = Scope.TASKMANAGER

SLOTS_TOTAL = Metric(_SCOPE, "slots.total", Unit.NUMBER, "Its slots.")
SLOTS_FREE = Metric(_SCOPE, "slots.free", Unit.NUMBER, "Those that are free.")
LAST_HEARTBEAT_AGE = Metric(_SCOPE, "heartbeat.age", Unit.MILLISECONDS, "Time since its master has heard of it.")
ATTEMPTS_RUNNING = Metric(_SCOPE, "attempts.running", Unit.NUMBER, "Attempts that run in task processes.")
ATTEMPTS_MEMORY = Metric(
    _SCOPE,
    "attempts.memory",
    Unit.BYTES,
    "Memory of their task processes and Spark Python workers, as last looked at.",
)
FORK_SERVER_SPARES = Metric(
    _SCOPE, "forkServer.spares", Unit.NUMBER, "Task processes that are forked ahead and wait for an attempt."
)
SPARK_BACKENDS = Metric(_SCOPE, "sparkBackends", Unit.NUMBER, "JVMs of Spark that run.")
JVM_CPU_TIME = Metric(
    _SCOPE,
    "Status.JVM.CPU.Time",
    Unit.NANOSECONDS,
    "Processor time of all JVMs of Spark that it has had, together, up to when each was last looked at.",
    kind=Kind.COUNTER,
    is_flinks=True,
)
JVM_RESIDENT_MEMORY = Metric(
    _SCOPE, "sparkBackends.residentMemory", Unit.BYTES, "Resident memory of the JVMs of Spark, together."
)
JVM_HEAP_USED = Metric(
    _SCOPE,
    "Status.JVM.Memory.Heap.Used",
    Unit.BYTES,
    "Heap in use, with what the next collection will find to be garbage, of the JVMs of Spark together.",
    is_flinks=True,
)
JVM_HEAP_COMMITTED = Metric(
    _SCOPE, "Status.JVM.Memory.Heap.Committed", Unit.BYTES, "Heap that they have taken of the system.", is_flinks=True
)
JVM_HEAP_MAX = Metric(_SCOPE, "Status.JVM.Memory.Heap.Max", Unit.BYTES, "Heap that they may take.", is_flinks=True)
JVM_METASPACE_USED = Metric(
    _SCOPE, "Status.JVM.Memory.Metaspace.Used", Unit.BYTES, "Metaspace that they use.", is_flinks=True
)
JVM_METASPACE_COMMITTED = Metric(
    _SCOPE, "Status.JVM.Memory.Metaspace.Committed", Unit.BYTES, "Metaspace that they have taken.", is_flinks=True
)
