"""An asyncio event loop in simulated time, level B: for whole processes, any of which may stop at any moment.

What asyncio promises is kept: within a process, what was to be done soon is done in that order. Between processes
the order is drawn. Calls in threads are done here, some time later; there are no sockets.
"""

import asyncio
import contextvars
import random
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from firesteel.testing.power import PowerCut
from firesteel.testing.virtualtime import NothingHappens, VirtualTimeLoop

TURNS_MAX = 300_000
"""Most turns of one run; a run that needs more goes in circles."""


@dataclass(eq=False)
class Process:
    """What runs together and stops together. Dead ones do nothing: no `finally`, no `except`."""

    name: str
    is_dead: bool = False
    stalled_until_s: float = 0.0
    waiting: deque[asyncio.Handle] = field(default_factory=deque)
    """What it has to do when it does not stand still any more."""
    context: contextvars.Context = field(default_factory=contextvars.Context)

    def __post_init__(self) -> None:
        self.context.run(_process.set, self)


_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class SimulatedLoop(VirtualTimeLoop):
    """What is ready has an owner here. `on_failure` is told of exceptions that nobody has caught."""

    def __init__(self, chance: random.Random, thread_s_max: float, on_failure: Callable[[str], None]) -> None:
        super().__init__()
        self._chance, self._thread_s_max, self._on_failure = chance, thread_s_max, on_failure
        self.turns = 0
        self._owners: weakref.WeakKeyDictionary[asyncio.Task[Any], Process] = weakref.WeakKeyDictionary()
        self._is_reviving = False
        self._parked: list[asyncio.Handle] = []
        """Handles of the dead: what they would have done. Kept, since it keeps their tasks."""
        self.on_power_cut: Callable[[], None] = lambda: None
        self.set_exception_handler(lambda loop, context: self._failed(context))

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        owner = _process.get() if context is None else context.get(_process)
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        if owner is not None:
            self._owners[task] = owner
        return task

    def spawn(self, work: Coroutine[Any, Any, Any], process: Process) -> asyncio.Task[Any]:
        """Have a process do something."""
        return self.create_task(work, context=process.context.copy())

    def _thread_takes_s(self) -> float:
        return self._chance.uniform(0.0, self._thread_s_max)

    def _work(self, future: asyncio.Future[Any], func: Callable[..., Any], *args: Any) -> None:
        try:
            super()._work(future, func, *args)
        except PowerCut:
            self.on_power_cut()

    def left_of(self, process: Process) -> list[str]:
        """What a process that has stopped should not have: tasks, and timers that would still fire."""
        tasks = [task.get_name() for task, owner in self._owners.items() if owner is process and not task.done()]
        pending = (handle for _, _, handle in self._timers if isinstance(handle, asyncio.TimerHandle))
        timers = [handle for handle in pending if owner_of(handle) is process and not handle.cancelled()]
        return [*sorted(tasks), *map(repr, timers)]

    def stall(self, process: Process, until_s: float) -> None:
        """Let a process stand still."""
        process.stalled_until_s = max(process.stalled_until_s, until_s)

    def resume(self, process: Process) -> None:
        """Let it go on where it was, if its time has come."""
        if process.stalled_until_s > self._now_s:
            self.call_at(process.stalled_until_s, self.resume, process, context=contextvars.Context())
            return
        self._ready.extendleft(reversed(process.waiting))  # type: ignore[attr-defined]
        process.waiting.clear()

    def end(self) -> None:
        """Let the tasks of the dead come to an end, so that nothing is left to the garbage collector."""
        self._is_reviving = True
        self._on_failure = lambda what: None
        for _ in range(100):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self._ready.extend(self._parked)  # type: ignore[attr-defined]
            self._parked.clear()
            try:
                self.run_until_complete(asyncio.sleep(60))
            except NothingHappens:
                break  # A run that goes in circles would do so here, too.
        self.close()

    def _run_once(self) -> None:
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise NothingHappens("the run does not come to an end")
        super()._run_once()

    def _run_turn(self, ready: deque[asyncio.Handle]) -> None:
        """In the order of each process; whose turn it is, is drawn."""
        left: dict[Process | None, deque[asyncio.Handle]] = {}
        for handle in ready:
            left.setdefault(owner_of(handle), deque()).append(handle)
        ready.clear()
        while left:
            owner = next(iter(left)) if len(left) == 1 else self._chance.choice(list(left))
            handle = left[owner].popleft()
            if not left[owner]:
                del left[owner]
            self._run(owner, handle)

    def _run(self, owner: Process | None, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        if owner is None or self._is_reviving:
            handle._run()
        elif owner.is_dead:
            self._parked.append(handle)
        elif owner.stalled_until_s > self._now_s:
            if not owner.waiting:
                self.call_at(owner.stalled_until_s, self.resume, owner, context=contextvars.Context())
            owner.waiting.append(handle)
        else:
            handle._run()

    def _failed(self, context: dict[str, Any]) -> None:
        self._on_failure(f"{context.get('message')}: {context.get('exception')!r}")


def owner_of(handle: asyncio.Handle) -> Process | None:
    """The process that a callback belongs to."""
    found: Process | None = handle._context.get(_process)  # type: ignore[attr-defined]
    return found
