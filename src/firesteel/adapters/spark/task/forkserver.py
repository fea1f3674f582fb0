"""The fork server: a process that has PySpark loaded and forks task processes of it.

`python -m firesteel.adapters.spark.task.forkserver FD`, with FD a SEQPACKET socket to the worker. It never opens a gRPC
channel (gRPC's threads do not survive a fork) and runs one thread. It ends when the worker's end of the socket
closes, and kills the process groups of all its children first; when it is killed itself, the kernel kills the
children (PR_SET_PDEATHSIG). With a child that did not end well it kills what is left of the child's group.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys
from typing import NoReturn

# Before the first import of pyspark.sql.functions: decides whether it works on Connect columns.
os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"

from firesteel.adapters.spark import wire

_PRELOADED = (
    "firesteel.adapters.spark.task.child",
    "firesteel.adapters.spark.task.process",
    "firesteel.adapters.spark.sinks.files",
    "firesteel.adapters.spark.sinks.jdbc",
    "firesteel.adapters.spark.exchange.footers",
    "grpc._channel",  # which grpc itself imports with the first channel: a quarter of a task process's time
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.dataframe",
    "pyspark.sql.connect.readwriter",
    "pyspark.sql.connect.streaming",
    "pyspark.sql.functions",
    "pyspark.sql.types",
    "pyspark.sql.window",
    "pyarrow",
    "pyarrow.parquet",
    "zipfile",
    "firesteel.pipeline.authoring",
    "firesteel.pipeline.build",
    "firesteel.pipeline.definition",
    "firesteel.pipeline.distributions",
)
_PR_SET_PDEATHSIG = 1
_MADV_COLLAPSE, _HUGE_PAGE = 25, 2 << 20


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wakeup = _wake_on_child_exit()
    preload()
    try:
        _serve(control, wakeup)
    finally:
        control.close()


def preload() -> None:
    """Import what task processes need, and put it out of the garbage collector's sight."""
    for name in _PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    _join_pages()


def _join_pages() -> None:
    """Make huge pages of what is loaded: a fork copies a page table, and one of huge pages takes half the time.

    Linux does that since 6.1 where a region has enough in it; otherwise things stay as they are.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for line in maps.read().splitlines():
            addresses, access, _, _, inode, *_ = line.split()
            begin, end = (int(each, 16) for each in addresses.split("-"))
            if access == "rw-p" and inode == "0":
                for page in range(-(-begin // _HUGE_PAGE) * _HUGE_PAGE, end - _HUGE_PAGE + 1, _HUGE_PAGE):
                    madvise(page, _HUGE_PAGE, _MADV_COLLAPSE)


def _serve(control: socket.socket, wakeup: int) -> None:
    children: set[int] = set()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if wakeup in ready:
            os.read(wakeup, 4096)
        for pid, status in _reap():
            children.discard(pid)
            _send(control, wire.Exited(pid, status))
        if control.fileno() in ready and not _answer(control, wakeup, children):
            break
    for pid in sorted(children):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _answer(control: socket.socket, wakeup: int, children: set[int]) -> bool:
    """Fork for one request. False when the worker has gone."""
    try:
        body, fds, _, _ = socket.recv_fds(control, 65536, 1)
    except ConnectionError:
        return False
    if not body:
        return False
    request = wire.fork_request.decode(body)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_child(parent, control, wakeup, fds[0])
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)  # in both processes: neither may rely on the other being first
    os.close(fds[0])
    children.add(pid)
    _send(control, wire.Forked(request.number, pid))
    return True


def _become_child(parent: int, control: socket.socket, wakeup: int, fd: int) -> NoReturn:
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        control.close()
        os.close(wakeup)
        from firesteel.adapters.spark.task import child

        child.main(socket.socket(fileno=fd))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(70)
    os._exit(0)


def _reap() -> list[tuple[int, int]]:
    ended: list[tuple[int, int]] = []
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return ended
        if found is None:
            return ended
        pid = found.si_pid
        if found.si_code != os.CLD_EXITED or found.si_status != 0:  # else it has seen to its group itself
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)  # the number is nobody else's until the child is waited for
        ended.append((pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))


def _send(control: socket.socket, message: wire.Forked | wire.Exited) -> None:
    with contextlib.suppress(ConnectionError):  # the worker has gone: the next read says so
        control.send(wire.encode(message))


def _wake_on_child_exit() -> int:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    return read_end


if __name__ == "__main__":
    main()
