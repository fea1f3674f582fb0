"""What travels with a job, at its places: an attempt's working directory, and Spark's Python workers."""

import os
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkFiles

from firesteel.adapters.spark import wire


def place(task: wire.RunTask) -> None:
    """Put files and archives into the attempt's directory. There `SparkFiles.get` finds them, as it does in a UDF."""
    for each in task.placed:
        Path(task.directory, each.target).symlink_to(each.path)
    SparkFiles._root_directory, SparkFiles._is_running_on_worker = os.path.abspath(task.directory), True


class Shipment:
    """A hook of the session: sends it all to Spark's Python workers before the first plan with a Python function.

    Only then: shipping costs 20 to 50 ms, and most plans have none. Such a plan names the Python version.
    """

    def __init__(self, session: Any, task: wire.RunTask) -> None:
        self._session, self._task = session, task
        self._is_due = bool(task.code_archives or task.placed)
        self._mark = f"{sys.version_info.major}.{sys.version_info.minor}".encode()

    def on_execute_plan(self, request: Any) -> Any:
        if self._is_due and request.plan.HasField("compressed_operation"):
            self._ship()
        elif self._is_due:
            self.before(request.plan.SerializeToString())
        return request

    def before(self, plan: bytes) -> None:
        """Spark is about to be told of this plan, or relation. What it compares plans by includes what was shipped."""
        if self._is_due and self._mark in plan:
            self._ship()

    def _ship(self) -> None:
        self._is_due = False
        archives = [f"{each.archive}#{each.target}" for each in self._task.placed if each.archive]
        files = [os.path.join(self._task.directory, each.target) for each in self._task.placed if not each.archive]
        for paths, kind in ((self._task.code_archives, "pyfile"), (archives, "archive"), (files, "file")):
            if paths:
                self._session.addArtifacts(*paths, **{kind: True})
