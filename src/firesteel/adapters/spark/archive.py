"""The JVM's class-data archive (AppCDS): made once per installation, halves the start of a backend.

A JVM that starts without one records what it loads and writes the archive when it ends (`-XX:ArchiveClassesAtExit`).
That takes seconds, so nobody waits for it: the JVM's supervisor lets it finish by itself (see jvm.leave_to_archive).
Nothing here can fail a start: whatever is wrong with an archive, the JVM runs without.
"""

import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path

MAX_TEMPORARY_AGE_SECONDS = 600
MAX_ARCHIVES = 4
"""Older ones go: other versions of Java, Spark or flags."""


class ClassDataArchive:
    """The archive that fits one Java, one Spark and one set of flags."""

    def __init__(self, directory: Path, key: str) -> None:
        self._file = directory / f"spark-{key}.jsa"
        self._trusted = True
        self.recording = False
        """The JVM started last was told to write the archive."""

    def flags(self) -> tuple[str, ...]:
        """What to tell the next JVM: use the archive, else make it, else neither."""
        self.recording = False
        if not self._trusted:
            return ()
        if self._file.exists():
            return (f"-XX:SharedArchiveFile={self._file}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        if not self._is_writable():
            return ()
        self.recording = True
        return (f"-XX:ArchiveClassesAtExit={self._file}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")

    def distrust(self) -> None:
        """A JVM died before it was up: the archive may be why. Remove it and start without."""
        self._trusted = False
        self._file.unlink(missing_ok=True)

    def _is_writable(self) -> bool:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(self._file.parent, os.W_OK)


def archive_key(java: str, spark_version: str, flags: Sequence[str]) -> str:
    """Names the archive: 16 hex digits of what the JVM would refuse it for, or be slower with."""
    real = os.path.realpath(java)
    stamp = os.stat(real).st_mtime_ns
    parts = (real, str(stamp), spark_version, platform.machine(), *flags)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def default_directory() -> Path:
    """`$XDG_CACHE_HOME/firesteel`, or `~/.cache/firesteel`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firesteel"
