"""Processes below this one. Any of them may end while it is asked: it is then no longer one of them."""

import contextlib
from collections.abc import Callable

import psutil


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
