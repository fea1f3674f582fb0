"""Makes a class-data archive: `python -I -S archivist.py ARCHIVE CLASSES COMMAND...`, in a session of its own.

Short-lived (LIMIT_SECONDS at the most), at the lowest priority, one at a time per archive; leaves the archive by
atomic rename, or nothing. Standard library only. See archive.py.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time

LIMIT_SECONDS = 180
MAX_ARCHIVES = 4
"""Archives kept; the longest unused go (other versions of Java or Spark, other flags)."""


def main() -> int:
    archive, classes, *command = sys.argv[1:]
    directory = os.path.dirname(archive)
    os.nice(19)
    lock = os.open(archive + ".lock", os.O_CREAT | os.O_RDWR, 0o600)
    temporary = archive + ".new"
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # freed by the kernel, however this process ends
    except OSError:
        _remove(classes)
        return 1
    try:
        if os.path.exists(archive):
            return 0
        _end_at_a_line(classes)
        options = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={temporary}"]
        if _run([*command, *options]) == 0:
            os.replace(temporary, archive)
            _keep_newest(directory)
        return 0
    finally:
        for path in (temporary, classes, archive + ".lock"):
            _remove(path)


def _run(command: list[str]) -> int:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: process.kill())
    try:
        return process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _end_at_a_line(path: str) -> None:
    """The JVM that wrote the list was killed: drop a line it was in the middle of."""
    with open(path, "rb+") as file:
        text = file.read()
        file.truncate(text.rfind(b"\n") + 1)


def _keep_newest(directory: str) -> None:
    now = time.time()
    archives = [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".jsa")]
    archives.sort(key=lambda path: max(os.stat(path).st_atime, os.stat(path).st_mtime, 0), reverse=True)
    for path in archives[MAX_ARCHIVES:]:
        _remove(path)
    for name in os.listdir(directory):  # lists of runs that were killed
        path = os.path.join(directory, name)
        if name.endswith(".classes") and now - os.stat(path).st_mtime > 86_400:
            _remove(path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


if __name__ == "__main__":
    sys.exit(main())
