"""The interpreter that a job brings along for Spark's Python workers, as a task process sees it.

The process itself has the worker's Python, with PySpark loaded. What only the job's environment has can be imported here
as well, so that a function and the UDFs in it are one program.
"""

import os
import site
import subprocess
import sys

import msgspec

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.model.options import PYTHON_EXECUTABLE

ANSWER_SECONDS = 60.0
"""Time in which an interpreter is to have said what it is, from a slow disk."""
NEEDED = ("pyarrow", "pandas")
"""Packages that Spark's Python workers import."""
_QUESTION = f"""
import importlib.util, json, site, sys
missing = [name for name in {NEEDED} if importlib.util.find_spec(name) is None]
json.dump({{"version": "%d.%d" % sys.version_info[:2], "packages": site.getsitepackages(), "missing": missing}}, sys.stdout)
"""


class _Answer(msgspec.Struct):
    version: str
    packages: list[str]
    """Directories of what is installed there."""
    missing: list[str]
    """Of NEEDED."""


def use_interpreter(path: str, executable: str) -> None:
    """Have what is installed for the interpreter at `path` importable here, behind all that the worker has; `executable` is
    the job's name of it. Raises PipelineRefused where Spark's Python workers could not run it."""
    told, here = f"{PYTHON_EXECUTABLE.key} {executable}", f"{sys.version_info.major}.{sys.version_info.minor}"
    if not os.path.exists(path):
        raise PipelineRefused(
            f"{told}: {_dangling(path)}: pack an environment that has its own interpreter, or install that one on all hosts"
        )
    try:
        answer = _ask(path)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise PipelineRefused(f"{told}: it can't be run on this worker: {_reason(error)}") from error
    if answer.version != here:
        raise PipelineRefused(
            f"{told} is Python {answer.version}, and this worker runs Python {here}: functions travel pickled, so pack an"
            " environment of that version"
        )
    if answer.missing:
        raise PipelineRefused(
            f"{told} has no {' and no '.join(answer.missing)}, without which Spark runs no Python function: install"
            f" {' '.join(answer.missing)} in that environment, and pack it again"
        )
    for directory in answer.packages:
        site.addsitedir(directory)


def _dangling(path: str) -> str:
    if os.path.islink(path):
        return f"it leads to {os.path.realpath(path)}, which this worker does not have"
    return "its archive has no such file"


def _ask(path: str) -> _Answer:
    """What the interpreter says of itself, without the user's and this process' own modules."""
    command = [path, "-I", "-c", _QUESTION]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_SECONDS, check=True)
    return msgspec.json.decode(done.stdout, type=_Answer)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = error.stderr.decode(errors="replace").strip().splitlines()
        return said[-1] if said else f"it ended with code {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer within {ANSWER_SECONDS:g} s"
    return (isinstance(error, OSError) and error.strerror) or str(error)
