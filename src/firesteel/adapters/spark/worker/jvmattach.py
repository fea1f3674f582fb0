"""Commands to a JVM over HotSpot's attach socket: what `jcmd PID ...` does, without a JDK.

The protocol is HotSpot's (`attachListener_linux.cpp`): a file `.attach_pidN` and SIGQUIT have the JVM open a socket
`.java_pidN`; a request is the protocol's version, a command and three arguments, each ended by a zero byte. A JVM that may
open none (`-XX:+DisableAttachMechanism`) prints its threads for each SIGQUIT, and one that catches none (`-Xrs`) ends of it.
"""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Collection
from pathlib import Path

ANSWER_LIMIT_S = 2.0
"""Time that a JVM has to open its socket, and to answer: one that collects garbage takes longer, and is left out."""

SIGNALS_MAX = 3
"""SIGQUITs that a JVM gets: one that has opened no socket after them is asked no more, unless another has it open one."""

LOOK_S = 0.02


class AttachSockets:
    """Sockets of JVMs, and the memory of those that open none. For one thread at a time."""

    def __init__(self, limit_s: float = ANSWER_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._signals: dict[int, int] = {}

    def keep(self, pids: Collection[int]) -> None:
        """Forget all others."""
        self._signals = {pid: self._signals.get(pid, 0) for pid in pids}

    def ask(self, pid: int, command: str, answer_bytes_max: int) -> str:
        """What the JVM answers to a command of jcmd, cut at a length. Blocks. Raises OSError when it does not, in time."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_LIMIT_S)
            connection.connect(str(self._opened_socket(pid)))
            connection.sendall(b"".join(part.encode() + b"\0" for part in ("1", "jcmd", command, "", "")))
            answer = bytearray()
            while len(answer) < answer_bytes_max and (data := connection.recv(65_536)):
                answer += data
        code, _, text = answer.decode(errors="replace").partition("\n")
        if code != "0":
            raise OSError(f"the JVM {pid} refused {command}: {code}")
        return text

    def _opened_socket(self, pid: int) -> Path:
        """The JVM's socket, which it is asked to open when there is none. Raises OSError."""
        status = process_status(pid)
        number = int(status["NSpid"].split()[-1]) if "NSpid" in status else pid  # in a container it has another
        temporary = Path(f"/proc/{pid}", "root", "tmp")
        opened, request = temporary / f".java_pid{number}", temporary / f".attach_pid{number}"
        if opened.exists():
            return opened
        sent = self._signals.get(pid, 0)
        if sent >= SIGNALS_MAX or not catches(status, signal.SIGQUIT):
            raise ConnectionRefusedError(f"the JVM {pid} opens no socket")
        os.close(os.open(request, os.O_CREAT | os.O_WRONLY, 0o600))
        try:
            self._signals[pid] = sent + 1
            os.kill(pid, signal.SIGQUIT)
            end_s = time.monotonic() + self._limit_s
            while not opened.exists():
                if time.monotonic() > end_s:
                    raise TimeoutError(f"the JVM {pid} opens no socket")
                time.sleep(LOOK_S)
        finally:
            with contextlib.suppress(OSError):
                request.unlink()
        return opened


def process_status(pid: int) -> dict[str, str]:
    """What the system says of a process, by name. Raises OSError."""
    lines = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


def catches(status: dict[str, str], number: signal.Signals) -> bool:
    """Whether the process has a handler for that signal."""
    return bool(int(status.get("SigCgt", "0"), 16) >> (number - 1) & 1)
