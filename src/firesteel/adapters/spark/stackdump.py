"""A signal has this process write where its threads are, into a file in memory that its worker reads."""

import contextlib
import faulthandler
import fcntl
import os
import signal

DUMP_SIGNAL = signal.SIGUSR2
DUMP_NAME = "firesteel-stacks"


def write_stacks_on_signal() -> None:
    """By Python's own faulthandler, which needs neither the interpreter's lock nor a thread. Where files in memory are not
    known (they are Linux's), there are no stacks to be had."""
    with contextlib.suppress(AttributeError, OSError):
        file = os.memfd_create(DUMP_NAME)
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
        faulthandler.register(DUMP_SIGNAL, file=file, all_threads=True)
