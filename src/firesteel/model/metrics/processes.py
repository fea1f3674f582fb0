"""Metrics that masters and workers have in common: of the process, its event loop and its messages."""

from firesteel.model.metric import Kind, Metric, Scope, Unit


class ProcessMetrics:
    """Those of one kind of process."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.cpu_time = Metric(
            scope, "process.cpuTime", Unit.MILLISECONDS, "Processor time of the process.", kind=Kind.COUNTER
        )
        self.resident_memory = Metric(scope, "process.residentMemory", Unit.BYTES, "Resident memory of the process.")
        self.open_files = Metric(
            scope, "process.openFiles", Unit.NUMBER, "File descriptors that are open, sockets among them."
        )
        self.loop_lag = Metric(
            scope,
            "eventLoop.lag",
            Unit.MILLISECONDS,
            "How late the event loop was at worst in the last 10 to 20 s: what blocked it delays everything.",
        )
        self.mailbox_length = Metric(
            scope, "mailbox.length", Unit.NUMBER, "Events that wait in the mailboxes of all endpoints."
        )
        self.frames_in = Metric(
            scope, "rpc.framesIn", Unit.NUMBER, "Frames that have come from other processes.", kind=Kind.COUNTER
        )
        self.frames_out = Metric(
            scope, "rpc.framesOut", Unit.NUMBER, "Frames that were sent to other processes.", kind=Kind.COUNTER
        )
        self.connections = Metric(scope, "rpc.connections", Unit.NUMBER, "Connections with other processes.")


MASTER_PROCESS = ProcessMetrics(Scope.JOBMANAGER)
WORKER_PROCESS = ProcessMetrics(Scope.TASKMANAGER)
