"""A process between the worker and the JVM, so that the JVM dies with its worker, however the worker dies.

Run as a script by a bare interpreter (`python -I -S supervisor.py DIRECTORY GRACE COMMAND...`): standard library only, ready
in 20 ms. Standard input is a pipe whose other end only the worker holds: when it closes, the JVM is killed; where it has
something to clean up that nobody else can, it has SIGTERM and GRACE seconds before. A worker that is alive writes a byte
first; one that was killed does not, and then DIRECTORY (unless it is empty), which the worker would have deleted, is deleted
here, after `orphans` has ended the sinks of an embedded cluster. Should the supervisor itself die, the kernel kills the JVM
(PR_SET_PDEATHSIG, which is bound to the thread that started the child: here the only one). What the JVM has started becomes
this process's own when the JVM is gone, and is killed then: Python workers of streams go on calling a server that is dead.
Exits with the JVM's exit code, or 128 + the number of the signal that ended it.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
REAP_SECONDS = 5.0
"""Time between two looks for orphans of the JVM that have ended by themselves."""
EMBEDDED_MARK = "embedded"
"""A file in DIRECTORY that says: with this worker its master has died, and all its jobs."""
ORPHANS_SECONDS = 60.0
SWEEPS, SWEEP_PAUSE_SECONDS = 20, 0.1
"""The worker's other processes die at the same time and may still write: the directory is deleted so often."""


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C and termination are the worker's to answer
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    directory, grace_seconds, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = _spawn(command)
    ended = os.pidfd_open(child)
    while not (ready := select.select([0, ended], [], [], REAP_SECONDS)[0]):
        _reap_others(child)
    orphaned = ended not in ready and os.read(0, 1) == b""
    if ended not in ready:
        if grace_seconds > 0:
            os.kill(child, signal.SIGTERM)
            select.select([ended], [], [], grace_seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    _end_orphans()
    if orphaned and directory:
        if os.path.exists(os.path.join(directory, EMBEDDED_MARK)):
            _end_sinks(directory)
        _sweep(directory)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _reap_others(child: int) -> None:
    while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and found.si_pid != child:
        os.waitpid(found.si_pid, 0)


def _end_orphans() -> None:
    """Kill what the JVM has left. Whose parent is killed comes here in turn, so this ends when nobody is left."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            for pid in map(int, children.read().split()):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _end_sinks(directory: str) -> None:
    """Finish the commits that were begun and remove what was staged: in an interpreter that has firesteel."""
    command = [sys.executable, "-m", "firesteel.adapters.spark.sinks.orphans", directory]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=ORPHANS_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"the sinks of {directory} were not cleaned up in {ORPHANS_SECONDS} s", file=sys.stderr)


def _sweep(directory: str) -> None:
    for _ in range(SWEEPS):
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(SWEEP_PAUSE_SECONDS)
        if not os.path.exists(directory):
            return


def _spawn(command: list[str]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    finally:
        os._exit(127)


if __name__ == "__main__":
    sys.exit(main())
