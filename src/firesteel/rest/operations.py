"""Operations that take their time: started under a trigger id, read by it as long as their job is known."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.runtime.background import BackgroundTasks

OPERATIONS_PER_JOB_MAX = 1_000
"""Operations that are remembered of one job, or of none; of more, those that ended first are forgotten."""

JOBS_BETWEEN_SWEEPS = 100
"""Jobs that have operations, beyond twice those that were left by the last sweep: time for the next one."""

logger = logging.getLogger(__name__)


class OperationFailed(Exception):
    """The operation can't be done; `failure` says why."""

    def __init__(self, failure: FailureInfo) -> None:
        super().__init__(failure.headline())
        self.failure = failure


@dataclass(slots=True)
class Operation:
    """One operation: in progress until it has a value or a failure."""

    done: bool = False
    value: str = ""
    """Thing it made: the place of a savepoint, the number of a checkpoint."""
    failure: FailureInfo | None = None


Key = tuple[str, str]
"""Kind and trigger id."""


class Operations:
    """All operations of this endpoint, by the job they belong to; None for those of no job."""

    def __init__(self) -> None:
        self._known: dict[JobID | None, dict[Key, Operation]] = {}
        self._left = 0
        """Jobs that had operations after the last sweep."""
        self._tasks = BackgroundTasks()

    def start(self, job_id: JobID | None, key: Key, work: Callable[[], Awaitable[str]]) -> None:
        """Begin, unless the same was begun before: then a client that had no answer asks again."""
        known = self._known.setdefault(job_id, {})
        if key in known:
            return
        operation = known[key] = Operation()
        self._tasks.start(self._run(operation, work), " ".join(key))
        ended = [name for name, each in known.items() if each.done]
        for name in ended[: max(0, len(known) - OPERATIONS_PER_JOB_MAX)]:
            del known[name]

    def find(self, job_id: JobID | None, key: Key) -> Operation | None:
        return self._known.get(job_id, {}).get(key)

    def needs_sweep(self) -> bool:
        """Whether it is time to `keep` the operations of the jobs that are known."""
        return len(self._known) > 2 * self._left + JOBS_BETWEEN_SWEEPS

    def keep(self, jobs: Iterable[JobID]) -> None:
        """Forget the operations of all other jobs: nobody knows those any more."""
        kept = dict.fromkeys((None, *jobs))
        self._known = {job_id: known for job_id, known in self._known.items() if job_id in kept}
        self._left = len(self._known)

    async def close(self) -> None:
        await self._tasks.close()

    async def _run(self, operation: Operation, work: Callable[[], Awaitable[str]]) -> None:
        try:
            operation.value = await work()
        except OperationFailed as error:
            operation.failure = error.failure
        except Exception as error:  # whatever it was: what was asked for has not been done
            logger.warning("an operation failed", exc_info=True)
            operation.failure = FailureInfo(
                kind=FailureKind.ENVIRONMENT,
                message=str(error) or type(error).__name__,
                exception=f"firesteel.{type(error).__name__}",
            )
        finally:
            operation.done = True
