"""Whether an attempt waits for executors, as its progress tells. Pure."""

from firesteel.model.tasks import TaskProgress

PATIENCE_S = 3.0
"""An attempt that has had nothing to run its tasks on for so long is said to wait."""


class ExecutorWait:
    """One for each attempt."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def note(self, progress: TaskProgress, executors: int, now_s: float, *, is_known: bool = False) -> float:
        """Time for which it has waited; 0 while it does not. `is_known`: the cluster is known to owe some. Of streams that is
        all that can be told: nobody counts the tasks of their queries."""
        is_due = is_known if progress.queries else progress.tasks_done < progress.tasks_total
        has_none = executors == 0 and is_due and not progress.tasks_running
        if not has_none:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        waited_s = 0.0 if self._since_s is None else now_s - self._since_s
        return waited_s if waited_s >= PATIENCE_S else 0.0
