"""A process between the worker and the JVM, so that the JVM dies with its worker, however the worker dies.

Run as a script by a bare interpreter (`python -I -S supervisor.py STOP_SECONDS COMMAND...`): standard library
only, ready in 20 ms. Standard input is a pipe whose other end only the worker holds. The worker writes `k` to
kill the JVM, `t` to let it end by itself (it may be writing its class-data archive) at low priority; the end
of the pipe without either means that the worker died: kill. Should the supervisor die, the kernel kills the JVM
(PR_SET_PDEATHSIG, which is bound to the thread that started the child: here the only one).
Exits with the JVM's status.
"""

import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> int:
    stop_seconds, command = float(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's to answer
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = _spawn(command)
    pidfd = os.pidfd_open(child)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    ready = [fd for fd, _ in poll.poll()]
    if pidfd not in ready:
        if os.read(0, 1) == b"t":
            _end_gently(child, pidfd, stop_seconds)
        else:
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


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
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.execvp(command[0], command)
    finally:
        os._exit(127)


def _end_gently(child: int, pidfd: int, seconds: float) -> None:
    os.setpriority(os.PRIO_PROCESS, child, 19)
    os.kill(child, signal.SIGTERM)
    if not select.select([pidfd], [], [], seconds)[0]:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
