"""The interpreter that a job brings along for Spark's Python workers, as `python.executable` names it."""

from collections.abc import Sequence

import msgspec

from firesteel.model.jobgraph import Artifact, JobGraph
from firesteel.model.options import PYTHON_EXECUTABLE


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """An interpreter in an archive that travels with a job."""

    archive: Artifact
    path: str
    """Its path in there."""

    @property
    def executable(self) -> str:
        """The value of `python.executable`; Spark's Python workers start in the directory that this path begins in."""
        return f"{self.archive.target}/{self.path}"


class NoInterpreter(ValueError):
    """The submitter's fault: the name leads nowhere. The text says what to write."""


def named_interpreter(executable: str, artifacts: Sequence[Artifact]) -> Interpreter | None:
    """What `python.executable` means for a job with these artifacts; None when it is empty. Raises NoInterpreter."""
    if not executable:
        return None
    name, _, path = executable.removeprefix("./").partition("/")
    if not name or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise NoInterpreter(
            f"{PYTHON_EXECUTABLE.key} {executable}: write NAME/bin/python, with the NAME of one of the job's --archives"
        )
    for each in artifacts:
        if each.kind == "archive" and each.target == name:
            return Interpreter(archive=each, path=path)
    raise NoInterpreter(
        f"{PYTHON_EXECUTABLE.key} {executable}: no archive of the job is called {name}: add --archives FILE.tar.gz#{name}"
    )


def interpreter_of(graph: JobGraph) -> Interpreter | None:
    """The job's own interpreter, if it has one. Raises NoInterpreter."""
    return named_interpreter(graph.configuration.get(PYTHON_EXECUTABLE.key, ""), graph.artifacts)
