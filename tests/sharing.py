"""How processes share the tests (`-n`): file by file, and files whose tests share a JVM by few of the processes.

A JVM takes processor time to start, and more to be warm, so that one for each process and directory was most of what the
tests took.
"""

from typing import Any

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

WITH_JVM = ("tests/integration/spark/", "tests/integration/cluster/")
"""Directories with a JVM for all tests that a process runs there."""
PROCESSES_MIN = 2
"""So many processes may run the tests of such a directory, however few there are."""


class SharedJvms(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A process begins with a directory whose JVM fewest have, keeps to it, and then takes files of others."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._users: dict[str, set[WorkerController]] = {directory: set() for directory in WITH_JVM}

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = self._scope_for(node) or next(iter(self.workqueue))  # with the first one nobody is left out
        directory = directory_of(scope)
        if directory:
            self._users[directory].add(node)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if self.workqueue and self._scope_for(node) is None:  # others do what is left
            if not node.shutting_down:
                node.shutdown()
            return
        super()._reschedule(node)

    def _scope_for(self, node: WorkerController) -> str | None:
        allowed = [scope for scope in self.workqueue if self._may_run(node, directory_of(scope))]
        return min(allowed, key=lambda scope: self._rank(node, directory_of(scope)), default=None)

    def _may_run(self, node: WorkerController, directory: str) -> bool:
        processes_max = max(PROCESSES_MIN, len(self.nodes) // len(WITH_JVM))
        return not directory or node in self._users[directory] or len(self._living(directory)) < processes_max

    def _living(self, directory: str) -> set[WorkerController]:
        """Those of the users that have not crashed."""
        return self._users[directory].intersection(self.nodes)

    def _rank(self, node: WorkerController, directory: str) -> tuple[bool, int]:
        """Smallest first: a JVM that it has, one that it may start if it has none, and what needs none."""
        if not directory:
            return True, 0
        users = self._users[directory]
        if node in users:
            return False, 0
        has_one = any(node in each for each in self._users.values())
        return has_one, 1 + len(self._living(directory))


def directory_of(scope: str) -> str:
    """The one of WITH_JVM that the file is in, or empty."""
    return next((each for each in WITH_JVM if scope.startswith(each)), "")
