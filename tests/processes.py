"""Processes below this one. Any of them may end while it is asked: it is then no longer one of them."""

import contextlib
import subprocess
from collections.abc import Callable

import psutil
import pytest


def descendants(holds: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Those of which `holds` is true."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if holds(process):
                found.append(process)
    return found


def jvms() -> list[psutil.Process]:
    return descendants(lambda process: process.name() == "java")


def listening_ports(process: psutil.Process) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [each.laddr.port for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    return []


def in_own_file_systems(script: str, *arguments: str) -> tuple[str, ...]:
    """Before a command: a shell's script that mounts what only the command sees, and ends with `shift && exec "$@"`. Skips the
    test without root."""
    if subprocess.run(("unshare", "--mount", "true"), capture_output=True, check=False).returncode:
        pytest.skip("file systems of one's own need root")
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, *arguments)
