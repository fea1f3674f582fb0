"""The JVM's class-data archive (AppCDS): made once per installation, halves the start of a backend.

A JVM that starts without one writes down the classes it loads (`-XX:DumpLoadedClassList`, free of cost; the dynamic
archive, `-XX:ArchiveClassesAtExit`, slows its own first run by seconds). When the backend closes, `archivist.py` makes
the archive of that list: a process of its own at the lowest priority that outlives the worker by some 20 seconds, since
nobody should wait for it. Nothing here can fail a start: whatever is wrong with an archive, the JVM runs without.
"""

import asyncio
import glob
import hashlib
import logging
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from firesteel.adapters.spark.jvm import archivist
from firesteel.runtime.directories import cache_directory

logger = logging.getLogger(__name__)

_detached: list[asyncio.subprocess.Process] = []
"""Archivists that were started: meant to outlive this process, so never to be collected while they run."""

_QUIET = ("-Xlog:cds=off", "-Xlog:class+path=off")
MAX_HEAP_MIB = 31 * 1024
"""Larger heaps have another object layout, which an archive does not fit."""


class ClassDataArchive:
    """The archive that fits one Java, one Spark and one set of flags."""

    def __init__(self, file: Path, dump_command: Sequence[str]) -> None:
        """`dump_command` starts a JVM with the backend's Java, flags and class path, up to the main class."""
        self._file = file
        self._classes = file.with_suffix(f".{os.getpid()}.classes")
        self._dump_command = tuple(dump_command)
        self._trusted = True
        self._recorded = self._complete = False

    def flags(self) -> tuple[str, ...]:
        """Flags for the next JVM: use the archive, else note down the classes for it, else neither."""
        if not self._trusted:
            return ()
        if self._file.exists():
            return (f"-XX:SharedArchiveFile={self._file}", "-Xshare:auto", *_QUIET)
        if self._recorded or not self._is_writable():  # one JVM of a worker writes the list
            return ()
        self._recorded = True
        return (f"-XX:DumpLoadedClassList={self._classes}",)

    def distrust(self) -> None:
        """A JVM died before it was up: the archive may be why. Remove it and start without."""
        self._trusted = self._recorded = False
        for path in (self._file, self._classes):
            path.unlink(missing_ok=True)

    def started(self) -> None:
        """A JVM is up: what was noted down is of use."""
        self._complete = True

    async def write(self) -> None:
        """Make the archive of what was noted down, in the background. All JVMs have ended."""
        if not (self._recorded and self._complete and self._classes.exists()):
            return
        if self._file.exists():  # another worker was quicker
            self._classes.unlink(missing_ok=True)
            return
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", archivist.__file__, str(self._file), str(self._classes)),
                *self._dump_command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=self._file.parent,
                start_new_session=True,
            )
            _detached.append(process)
        except OSError as error:
            logger.info("no class-data archive was made: %s", error)

    def _is_writable(self) -> bool:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(self._file.parent, os.W_OK)


def archive_file(java: str, class_path: str, command: Sequence[str]) -> Path:
    """The archive's file, in this user's cache. In its name are 16 hex digits of all that the JVM would refuse it for: another
    Java, other flags, and jars of another size or time."""
    real = os.path.realpath(java)
    jars = sorted(name for entry in class_path.split(":") for name in glob.glob(entry))
    stamps = [f"{name} {status.st_size} {status.st_mtime_ns}" for name in [real, *jars] for status in [os.stat(name)]]
    key = hashlib.sha256("\0".join((platform.machine(), *stamps, *command)).encode()).hexdigest()[:16]
    return cache_directory() / f"spark-{key}.jsa"
