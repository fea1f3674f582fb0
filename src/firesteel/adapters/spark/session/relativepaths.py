"""Relative paths that the user's code gives to Spark: they start where the client is, not where Spark was started.

A JVM of ours is told where that is and resolves them all, those in SQL text, too (`jvm/hadoop/LocalFiles.java`). Those of
readers and writers are made absolute here, for Sparks that have it not; which line has given one is noted: Spark looks for
it later. Sinks and input splits have paths of their own (`splits/paths.py`).
"""

import functools
import glob
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyspark

from firesteel.adapters.spark.internals import watch_paths
from firesteel.adapters.spark.jvm.launch import configuration_directories
from firesteel.adapters.spark.refusals import SourceSilent
from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.storage.s3reach import check_answers, server_of
from firesteel.adapters.storage.s3settings import ENDPOINT, PREFIX

FORMATS = ("", "avro", "binaryfile", "csv", "delta", "image", "json", "libsvm", "orc", "parquet", "text", "xml")
"""Formats to which a path is given; a table may be called so too, and is no path unless there is a file of its name."""
PLACES_MAX, FRAMES_MAX = 1_000, 40
"""Paths whose line is known, and how deep the user's code may be below the call that names one."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_OWN = tuple(str(Path(file).parent) + os.sep for file in (pyspark.__file__, Path(__file__).parents[2]))


Frames = tuple[tuple[str, int], ...]
"""Files and lines, the innermost last."""


class GivenPath(msgspec.Struct, frozen=True):
    """A path as the user's code has given it, and where."""

    text: str
    frames: Frames


class ClientPaths:
    """Paths of a task process. `directory` is where the client is; of another storage than files, paths are left as they are."""

    def __init__(self, directory: str, sessions: AttemptSession, storage: Mapping[str, str]) -> None:
        """`storage`: what is configured for storages, as the worker's Spark has it too."""
        self._directory, self._sessions, self._storage = directory, sessions, storage
        self._given: dict[str, GivenPath] = {}
        self._answering = set[str]()
        """Servers of storages that have been asked."""

    def install(self) -> None:
        """Have DataFrames read from and written to paths that start there, from here on: before there is a session."""
        self._sessions.directory = self._directory
        watch_paths(_frames, self._start_source, self._start_target)

    def explain(self, message: str) -> tuple[str, Sequence[tuple[str, int]]] | None:
        """Explains a message that names a path that was given: where it was looked for, and the lines that gave it."""
        named = [path for path in self._given if path in message]
        if not named:
            return None
        path = max(named, key=len)
        given = self._given[path]
        where = self._directory if os.path.isdir(self._directory) else f"{self._directory}, which this worker has not"
        said = f"relative paths start where the job was submitted, {given.text!r} in {where}"
        return said if given.text != path else "", given.frames

    def absolute(self, path: str) -> str:
        """The path as Spark will be given it."""
        return self._absolute(path)

    def first_of(self, scheme: str) -> str:
        """The path of that scheme that was given first, or empty."""
        return next((path for path in self._given if path.lower().startswith(f"{scheme}://")), "")

    def _start_source(self, source: Any, frames: Frames) -> None:
        is_format = source.format.lower() in FORMATS

        def started(path: str) -> str:
            found = self._absolute(path, must_exist=not is_format)
            if len(self._given) < PLACES_MAX:
                self._given[found] = GivenPath(path, frames)
            self._check_answers(found, source.options)
            return found

        source.paths[:] = [started(path) for path in source.paths]
        if "path" in source.options:
            source.options["path"] = started(source.options["path"])

    def _start_target(self, target: Any) -> None:
        """`target` is what a batch or a stream is written to."""
        fields = target.DESCRIPTOR.fields_by_name
        if (target.source if "source" in fields else target.format).lower() in FORMATS:
            if target.path:
                target.path = self._absolute(target.path)
            if "path" in target.options:
                target.options["path"] = self._absolute(target.options["path"])
        if "source" not in fields and "checkpointLocation" in target.options:
            target.options["checkpointLocation"] = self._absolute(target.options["checkpointLocation"])

    def _check_answers(self, path: str, options: Mapping[str, str]) -> None:
        """Raises SourceSilent for a server that says nothing to this machine, which Spark would ask for many minutes."""
        server = server_of(path, self._storage)
        if not server or server in self._answering or any(name.startswith(PREFIX) for name in options):
            return
        session = self._sessions.get()
        if session.conf.get(ENDPOINT, None) is None and not self._sessions.is_elsewhere:
            try:
                check_answers(path, server)
            except OSError as error:
                raise SourceSilent(str(error)) from None
        self._answering.add(server)

    def _absolute(self, path: str, *, must_exist: bool = False) -> str:
        if not path or path.startswith("/") or _SCHEME.match(path) or not self._are_files:
            return path
        found = os.path.join(self._directory, path)
        return path if must_exist and not glob.glob(found) else found

    @functools.cached_property
    def _are_files(self) -> bool:
        """Whether Spark looks for a path without a scheme on this machine."""
        storage = self._sessions.get().conf.get("spark.hadoop.fs.defaultFS", "file:///")
        return str(storage).startswith("file:") and not configuration_directories()


def _frames() -> Frames:
    """Frames of the user's code, the innermost last."""
    found: list[tuple[str, int]] = []
    frame = sys._getframe(1)
    while frame is not None and len(found) < FRAMES_MAX:
        if not frame.f_code.co_filename.startswith(_OWN):
            found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(reversed(found))
