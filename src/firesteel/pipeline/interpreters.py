"""A job's own interpreter, looked for in its archive before anything is sent. Nothing of the archive is run."""

import posixpath
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from firesteel.model.interpreters import Interpreter, NoInterpreter, named_interpreter
from firesteel.model.jobgraph import Artifact
from firesteel.model.options import PYTHON_EXECUTABLE
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.graph import current_environment

_LIBRARY = re.compile(r"lib/python(\d+\.\d+)/")
SPARKS_NAMES = ("spark.pyspark.python", "spark.sql.execution.pyspark.python")
"""Spark's names of such an interpreter, of the application and of a session: of a job ours says the same."""
_PIECE_BYTES = 1 << 20
_Member = tuple[str, bool]
"""Path in the archive, and whether it may be run; a link may, but not in a zip, of which Spark makes none."""


def check_interpreter(configuration: Mapping[str, str], files: Mapping[Artifact, Path]) -> None:
    """The interpreter that a job's configuration names, if any, is in one of its `files`, and of the version of this one.

    Raises InvalidPipeline.
    """
    for key in SPARKS_NAMES:
        if "/" in (value := configuration.get(key, "")) and not value.startswith("/"):
            raise InvalidPipeline(f"{key} {value}: of one job, say --py-executable {value.removeprefix('./')}")
    try:
        interpreter = named_interpreter(configuration.get(PYTHON_EXECUTABLE.key, ""), tuple(files))
    except NoInterpreter as error:
        raise InvalidPipeline(str(error)) from None
    if interpreter is not None:
        if interpreter.archive.ending == ".tar":
            raise InvalidPipeline(
                f"--archives {interpreter.archive.name}: Spark unpacks a .tar without permissions, and could not run"
                f" {interpreter.path}: pack a .tar.gz"
            )
        try:
            _look_for(interpreter, _members(interpreter.archive, files[interpreter.archive]))
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise InvalidPipeline(f"--archives {interpreter.archive.name}: it is damaged: {error}") from None


def _look_for(interpreter: Interpreter, members: Iterable[_Member]) -> None:
    """Raises InvalidPipeline."""
    found: dict[str, bool] = {}
    versions: set[str] = set()
    root = posixpath.dirname(posixpath.dirname(interpreter.path))
    for path, may_run in members:
        if posixpath.basename(path) == posixpath.basename(interpreter.path):
            found[path] = may_run
        if (library := _LIBRARY.match(path.removeprefix(f"{root}/" if root else ""))) is not None:
            versions.add(library[1])
    problem = _missing(interpreter, found) or _mismatch(versions)
    if problem:
        raise InvalidPipeline(f"{PYTHON_EXECUTABLE.key} {interpreter.executable}: {problem}")


def _missing(interpreter: Interpreter, found: Mapping[str, bool]) -> str:
    """`found`: whether they may be run, of paths with its name."""
    name = interpreter.archive.name
    if found.get(interpreter.path):
        return ""
    if interpreter.path in found:
        return f"nobody may run {interpreter.path} of {name}: pack it with its permissions, and a link in a .tar.gz"
    others = [f"{interpreter.archive.target}/{path}" for path, may_run in found.items() if may_run]
    return f"{name} has no {interpreter.path}" + (f"; it has {', '.join(others[:3])}" if others else "")


def _mismatch(versions: Collection[str]) -> str:
    here = current_environment().python
    if not versions or here in versions:
        return ""
    return (
        f"it is Python {', '.join(sorted(versions))}, and the job is built with Python {here}: functions travel pickled, so"
        " pack an environment of that version"
    )


def _members(archive: Artifact, file: Path) -> Iterator[_Member]:
    if archive.ending == ".zip":
        with zipfile.ZipFile(file) as packed:
            for each in packed.infolist():
                mode = each.external_attr >> 16
                yield posixpath.normpath(each.filename), bool(mode & 0o111) and not stat.S_ISLNK(mode)
    else:
        with tarfile.open(file) as tar:
            for member in tar:
                is_program = member.issym() or member.islnk() or (member.isfile() and bool(member.mode & 0o111))
                yield posixpath.normpath(member.name), is_program
            while tar.fileobj is not None and tar.fileobj.read(_PIECE_BYTES):
                pass  # to the very end, where a checksum is
