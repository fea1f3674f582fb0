"""Ends the Python workers Spark keeps for a session that was closed.

Spark 4.3 starts a daemon and workers of its own for every session that uses Python functions, and lets the daemon
(46 MB) live as long as the JVM. They carry the session's server-side id in their environment. The directory that they are
started in is called by it, too: there Spark has unpacked what the session was sent, and leaves it for half an hour.
"""

import contextlib
import os
import shutil
import signal
from pathlib import Path

_VARIABLE = b"SPARK_JOB_ARTIFACT_UUID="


def end_python_workers(supervisor_pid: int, server_session: str) -> int:
    """Kill what the JVM under that supervisor started for the session, and remove its directory; the number of daemons
    killed."""
    found = daemons(supervisor_pid, server_session)
    directories: set[str] = set()
    for pid in found:
        with contextlib.suppress(OSError):
            directories.add(os.readlink(f"/proc/{pid}/cwd"))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # a daemon leads the group its workers are in
    for directory in sorted(directories):
        if os.path.basename(directory) == server_session:
            shutil.rmtree(directory, ignore_errors=True)
    return len(found)


def daemons(supervisor_pid: int, server_session: str) -> list[int]:
    """Pids of the daemons that the JVM under that supervisor has for the session; its workers are their children."""
    mark = _VARIABLE + server_session.encode()
    return [pid for jvm in children(supervisor_pid) for pid in children(jvm) if mark in _environment(pid)]


def children(pid: int) -> list[int]:
    """Pids of what a process has started itself. Of a JVM there is a file for each of its many threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file,
            ):
                found += map(int, file.readall().split())
    return found


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
