"""What can't be run, in the words of a client that builds a job graph and of a master that is sent one."""

from firesteel.model.jobgraph import FunctionKind, is_plain_name
from firesteel.model.splits import InputFormat

STREAMING_KINDS = (FunctionKind.SOURCE, FunctionKind.TRANSFORM, FunctionKind.SINK)
STREAMING_EDGE = (
    "a streaming pipeline stores nothing between its functions, for up to each sink it is one query: it has pipelined edges"
    " only, each within one slot sharing group and on workers with the same labels"
)
NO_STREAM_CACHE = "share='cache' is for batch pipelines: a stream is computed once for each sink"

LEGACY_CLAIM = (
    "LEGACY is not there: in Flink it leaves a savepoint to the user and goes on needing it. NO_CLAIM leaves it as it is and"
    " needs it for the start only, CLAIM makes it the job's own"
)


def streaming_function(kind: FunctionKind, uid: str, parallelism: int, splits: InputFormat | None) -> str:
    """Refusal of a function of a streaming pipeline; empty when it can be run."""
    if parallelism > 1:
        return (
            f"parallelism={parallelism}: a function of a streaming pipeline sees each batch whole, within one query a sink;"
            " leave it at 1 (Spark still spreads every batch over its own tasks)"
        )
    if splits is not None:
        return "a source of a streaming pipeline has no splits: Spark finds with each batch what is new"
    if kind is FunctionKind.RESULT:
        return "a streaming pipeline returns no rows, for they are never all there: write them with a sink"
    if kind not in STREAMING_KINDS:
        return f"a {kind.value} is no part of a streaming pipeline, which has sources, transforms and sinks"
    if kind is FunctionKind.SINK and not is_plain_name(uid):
        return f"uid {uid!r} of a streaming sink names directories with its checkpoints: give a plain name, without / and such"
    return ""


def undivided_source(parallelism: int) -> str:
    """Refusal of a source without splits that is to run in several subtasks."""
    return (
        f"parallelism={parallelism}: this source has no splits, so each subtask would read everything; give it"
        " splits=fs.file_splits(...), or others of fs.*_splits, or leave it at 1 (Spark still spreads the query over its own"
        " tasks) and give the functions behind it a parallelism"
    )


def divided_result(parallelism: int) -> str:
    """Refusal of a result that is to be made by several subtasks."""
    return (
        f"parallelism={parallelism}: a result is one table for its caller; leave it at 1, and give the functions before"
        " it a parallelism"
    )


def partial_resources(cpu_cores: float) -> str:
    """Refusal of a profile that has cores and no memory, or the other way round."""
    given, missing = ("cpu", 'memory, like memory="2g"') if cpu_cores else ("memory", "cpu, like cpu=1")
    return f"resources are only partially configured: beside {given} give {missing}, or neither"
