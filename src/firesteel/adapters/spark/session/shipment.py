"""Files that travel with a job, at their places: an attempt's working directory, and Spark's Python workers."""

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firesteel.adapters.spark import internals, wire
from firesteel.adapters.spark.jvm.launch import PRINTED

_KINDS = ("pyfile", "archive", "file")
_ABOUT_THE_CLIENT = "user_context"
"""A field of requests that has places in the user's code, where paths may name the version of Python, too."""
_COMPRESSED = b"\x28\xb5\x2f\xfd"
"""First bytes of what is compressed: a plan so large may have functions."""


def place(task: wire.RunTask) -> None:
    """Put files and archives into the attempt's directory. There `SparkFiles.get` finds them, as it does in a UDF."""
    for each in task.placed:
        link = Path(task.directory, each.target)
        if not (task.follow and link.is_symlink()):  # a process before this one has made it
            link.symlink_to(each.path)
    internals.place_files(os.path.abspath(task.directory))


class Shipment:
    """The code of a task process, for all of its sessions: sends it all to Spark's Python workers before the first plan of a
    session with a Python function.

    Only then: shipping costs 20 to 50 ms, and most plans have none. Such a plan names the Python version. Before it is
    analysed, not only before it is run: Spark keeps what it has analysed, with the modules that were there then.
    """

    def __init__(self, task: wire.RunTask) -> None:
        self._task = task
        self._marks = (f"{sys.version_info.major}.{sys.version_info.minor}".encode(), _COMPRESSED)
        self._shipping = threading.Lock()  # the user's threads may all be first

    def add(self, client: Any) -> None:
        """A session was opened, or made of another one."""
        internals.wrap_plan_calls(client, functools.partial(self._after_shipping, client, threading.Event()))

    def _after_shipping(
        self, client: Any, shipped: threading.Event, call: Callable[..., Any], request: Any, **options: Any
    ) -> Any:
        if not shipped.is_set() and self._may_have_functions(request):
            with self._shipping:
                if not shipped.is_set():
                    self._ship(client)
                    shipped.set()
        return call(request, **options)

    def _may_have_functions(self, request: Any) -> bool:
        fields = [value for field, value in request.ListFields() if field.name != _ABOUT_THE_CLIENT]
        texts = [value.SerializeToString() for value in fields if hasattr(value, "SerializeToString")]
        return any(mark in text for text in texts for mark in self._marks)

    def _ship(self, client: Any) -> None:
        self._link_what_is_printed(client)
        archives = [f"{each.archive}#{each.target}" for each in self._task.placed if each.archive]
        files = [os.path.join(self._task.directory, each.target) for each in self._task.placed if not each.archive]
        for paths, kind in ((self._task.code_archives, "pyfile"), (archives, "archive"), (files, "file")):
            if paths:
                client.add_artifacts(*paths, **{**dict.fromkeys(_KINDS, False), kind: True})

    def _link_what_is_printed(self, client: Any) -> None:
        """So that functions of the session print to the log of this attempt; those of a script, to its standard error."""
        if not internals.server_session_id_of(client):
            client.get_configs("spark.app.name")  # any answer says it
        target = os.path.join(self._task.pipes, "stderr") if self._task.pipes else self._task.log
        directory = Path(self._task.log).parents[2] / PRINTED
        with contextlib.suppress(OSError):  # a full disk: then they print to the JVM's log
            directory.mkdir(exist_ok=True)
            (directory / internals.server_session_id_of(client)).symlink_to(target)
