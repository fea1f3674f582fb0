"""What can't be run, in the words of a client that builds a job graph and of a master that is sent one."""

NO_STREAMS = "streaming pipelines can't be run yet; use mode='batch'"


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
