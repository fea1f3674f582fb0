"""The interpreter that a job brings along for Spark's Python workers: on this machine, and in a session."""

import os

from firesteel.adapters.blob.artifacts import JobCode
from firesteel.model.interpreters import Interpreter, interpreter_of
from firesteel.model.jobgraph import JobGraph
from firesteel.model.options import Configuration

_PYTHON_OF_A_SESSION = "spark.sql.execution.pyspark.python"


def job_settings(graph: JobGraph) -> dict[str, str]:
    """The job's settings of Spark. Python functions run on its interpreter: they start where Spark has unpacked the session's
    archives, and there its path begins."""
    settings, interpreter = Configuration(graph.configuration).spark(), interpreter_of(graph)
    return settings if interpreter is None else settings | {_PYTHON_OF_A_SESSION: interpreter.executable}


def unpacked_interpreter(interpreter: Interpreter | None, code: JobCode) -> str:
    """Path of a job's interpreter here, among its unpacked artifacts; empty for none."""
    if interpreter is None:
        return ""
    archive = next(each for each in code.placed if each.target == interpreter.archive.target)
    return os.path.join(archive.path, interpreter.path)
