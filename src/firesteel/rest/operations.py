"""Operations that take their time: started under a trigger id, read by it as long as their job is known."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID
from firesteel.runtime.background import BackgroundTasks

OPERATIONS_MAX = 10_000
"""Operations that are remembered; of more, those that ended first are forgotten."""

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
    """What it made: the place of a savepoint, the number of a checkpoint."""
    failure: FailureInfo | None = None


Key = tuple[str, JobID | None, str]
"""Kind, job (None for those of no job), trigger id."""


class Operations:
    """All operations of this endpoint."""

    def __init__(self) -> None:
        self._known: dict[Key, Operation] = {}
        self._tasks = BackgroundTasks()

    def start(self, key: Key, work: Callable[[], Awaitable[str]]) -> None:
        """Begin, unless the same was begun before: then a client that had no answer asks again."""
        if key in self._known:
            return
        operation = self._known[key] = Operation()
        self._tasks.start(self._run(operation, work), f"{key[0]} {key[2]}")
        self._forget()

    def find(self, key: Key) -> Operation | None:
        return self._known.get(key)

    async def close(self) -> None:
        await self._tasks.close()

    async def _run(self, operation: Operation, work: Callable[[], Awaitable[str]]) -> None:
        try:
            operation.value = await work()
        except OperationFailed as error:
            operation.failure = error.failure
        finally:
            operation.done = True

    def _forget(self) -> None:
        ended = [key for key, operation in self._known.items() if operation.done]
        for key in ended[: max(0, len(self._known) - OPERATIONS_MAX)]:
            del self._known[key]
