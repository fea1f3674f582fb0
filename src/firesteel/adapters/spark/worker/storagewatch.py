"""Whether the storages that attempts need answer: what is told meanwhile, and which failures are theirs. What is told of a
backend that does not answer goes the same way.

A storage is HDFS or a bucket. One that has never answered may as well be misspelled: nothing is blamed on it.
"""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import msgspec

from firesteel.adapters.spark.worker.attempt import AttemptRun
from firesteel.adapters.storage.errors import may_pass
from firesteel.adapters.storage.schemes import storage_of
from firesteel.adapters.storage.serving import check_takes_writes
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.jobgraph import ExchangeMode
from firesteel.model.tasks import TaskProgress
from firesteel.runtime.background import keep_looking
from firesteel.runtime.ports import TaskFailedError

LOOK_S = 2.0
"""Time between two looks at the storages of attempts that run."""
BLAMED_S = 60.0
"""A failure is still a storage's that has answered again for no longer: clients try for a while before they fail, and its
servers find one another only then."""
_OF_STORAGE = ("OSError", "StorageFailed", "SourceSilent")
"""What our own clients of storages raise in the user's functions."""


@dataclasses.dataclass(slots=True)
class Sight:
    """What is known of one storage. Times are of a monotonic clock, in seconds."""

    has_answered: bool = False
    silent_since_s: float | None = None
    """When it was first asked in vain after it had answered; it has not since."""
    was_silent: tuple[float, float] | None = None
    """From when to when, the last time."""
    why: str = ""

    def note(self, asked_s: float, now_s: float, why: str) -> None:
        """It was asked at a time; `why` it has not answered, empty when it has."""
        if why and self.has_answered:
            self.silent_since_s = asked_s if self.silent_since_s is None else self.silent_since_s
            self.why = why
        if why:
            return
        if self.silent_since_s is not None:
            self.was_silent = (self.silent_since_s, now_s)
        self.has_answered, self.silent_since_s = True, None

    def waited_for(self, storage: str, now_s: float) -> str:
        """What is told to who waits: what it waits for. Empty when it answers."""
        if self.silent_since_s is None:
            return ""
        return f"{storage}, which does not answer (for {now_s - self.silent_since_s:.0f} s; {self.why})"

    def blamed(self, storage: str, now_s: float) -> str:
        """What is told of a failure that is the storage's; empty when it can't be."""
        if self.silent_since_s is not None:
            return f"{storage} does not answer (for {now_s - self.silent_since_s:.0f} s; {self.why})"
        if self.was_silent is None or now_s - self.was_silent[1] > BLAMED_S:
            return ""
        begun_s, ended_s = self.was_silent
        return f"{storage} did not answer (for {ended_s - begun_s:.0f} s; {self.why})"


class StorageWatch:
    """Of one worker. `results` is where it stores results for others, which it has tried; empty when there is none."""

    def __init__(
        self,
        settings: Mapping[str, str],
        results: str,
        ask: Callable[[str, Mapping[str, str]], None] = check_takes_writes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._ask, self._clock = settings, ask, clock
        self._sights: dict[str, Sight] = {}
        self._turns: dict[str, _Turn] = {}
        if storage := storage_of(results):
            self._sights[storage] = Sight(has_answered=True)
        self._watched: list[_Watched] = []

    async def watch(self) -> None:
        """For as long as the worker runs."""
        await asyncio.sleep(LOOK_S)
        await keep_looking(self.look, "a look at storages", LOOK_S)

    async def look(self) -> None:
        """Ask the storages of what runs, and tell attempts what they wait for."""
        await self._look_at(storage for each in self._watched for storage in each.storages())
        for each in self._watched:
            self._show(each)

    @contextlib.asynccontextmanager
    async def over(
        self, run: AttemptRun, on_progress: Callable[[TaskProgress], None]
    ) -> AsyncIterator[Callable[[TaskProgress], None]]:
        """While an attempt runs, it is told what it waits for; gives what its own progress is to be told to. Raises
        TaskFailedError with a failure that may pass where it is a storage's."""
        watched = _Watched(run, on_progress)
        self._watched.append(watched)
        self._show(watched)
        try:
            yield watched.progressed
        except TaskFailedError as error:
            raise TaskFailedError(await self._judged(error.failure, watched.storages())) from error
        finally:
            self._watched.remove(watched)

    def _show(self, watched: "_Watched") -> None:
        sights = ((storage, self._sights.get(storage)) for storage in watched.storages())
        told = (sight.waited_for(storage, self._clock()) for storage, sight in sights if sight is not None)
        watched.show(next(filter(None, (watched.run.silence(), *told)), ""))

    async def _judged(self, failure: FailureInfo, storages: list[str]) -> FailureInfo:
        if not _may_be_a_storages(failure):
            return failure
        text = f"{failure.message}\n{failure.trace}"
        named = [storage for storage in self._sights if any(name in text for name in _names_of(storage))]
        concerned = [each for each in dict.fromkeys((*storages, *named)) if self._has_answered(each)]
        await self._look_at(concerned)
        told = (self._sights[storage].blamed(storage, self._clock()) for storage in concerned)
        if not (message := next(filter(None, told), "")):
            return failure
        return msgspec.structs.replace(
            failure,
            kind=FailureKind.ENVIRONMENT,
            message=message,
            may_pass=True,
            trace=f"{failure.message}\n{failure.trace}",
            partitions=(),  # they are there, and can't be reached
            spark_error="",
        )

    def _has_answered(self, storage: str) -> bool:
        return storage in self._sights and self._sights[storage].has_answered

    async def _look_at(self, storages: Iterable[str]) -> None:
        await asyncio.gather(*map(self._look_at_one, dict.fromkeys(storages)))

    async def _look_at_one(self, storage: str) -> None:
        """Who comes while it is asked waits, and shares the next answer: one that hangs holds one thread, not one for each
        attempt that fails of it."""
        turn, came_s = self._turns.setdefault(storage, _Turn()), self._clock()
        async with turn.lock:
            if turn.asked_s <= came_s:
                turn.asked_s = self._clock()
                why = await self._why_silent(storage)
                self._sights.setdefault(storage, Sight()).note(turn.asked_s, self._clock(), why)

    async def _why_silent(self, storage: str) -> str:
        """Empty when it answers, be it no, and when nobody could be asked by such a name."""
        try:
            await asyncio.to_thread(self._ask, storage, self._settings)
        except ValueError:
            return ""
        except OSError as error:
            return _short(str(error)) if may_pass(error) else ""
        return ""


@dataclasses.dataclass(slots=True)
class _Turn:
    """Who asks a storage, one at a time, and when the last has begun to."""

    lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    asked_s: float = 0.0


class _Watched:
    """An attempt that runs, and what was told of it last."""

    def __init__(self, run: AttemptRun, on_progress: Callable[[TaskProgress], None]) -> None:
        self.run, self._on_progress = run, on_progress
        self._last = TaskProgress(attempt=run.task.deployment.attempt)
        self._waits_for = ""

    def storages(self) -> list[str]:
        """Those that it needs, as far as is known."""
        stores = any(edge.exchange is ExchangeMode.BLOCKING for edge in self.run.task.job.graph.edges)
        places = (*((self.run.task.results,) if stores else ()), *self.run.staging)
        return [*dict.fromkeys(filter(None, map(storage_of, places)))]

    def progressed(self, progress: TaskProgress) -> None:
        self._last = progress
        self._on_progress(msgspec.structs.replace(progress, waits_for=progress.waits_for or self._waits_for))

    def show(self, waits_for: str) -> None:
        """It waits for this thing now, or for nothing."""
        if waits_for or self._waits_for:
            self._waits_for = waits_for
            self.progressed(self._last)


def _may_be_a_storages(failure: FailureInfo) -> bool:
    """Whether it may be that of a storage: it is not, where the user's own code has raised."""
    if failure.kind is FailureKind.NON_RECOVERABLE or failure.is_suspect:
        return False
    return failure.kind is not FailureKind.USER or bool(failure.spark_error) or failure.exception in _OF_STORAGE


def _names_of(storage: str) -> tuple[str, ...]:
    """How texts of Spark name it: Hadoop's client names a NameNode without the scheme."""
    scheme, _, authority = storage.partition("://")
    return (storage, authority) if scheme == "hdfs" else (storage, f"s3a://{authority}")


def _short(text: str) -> str:
    """Without the path that was asked for, and without asking whether the address is right: it was."""
    said = text.partition(": ")[2] if "://" in text.partition(": ")[0] else text
    return said.partition("; is ")[0]
