"""Classes of the operator's own that are told of changes of jobs' states, each in a thread of its own."""

import importlib
import logging
import queue
import threading
from typing import Protocol, cast

from firesteel.model.options import ConfigurationError
from firesteel.model.statuschange import JobStatusChange

QUEUE_MAX = 1_000
"""Changes that wait for one listener; further ones are dropped."""

END_LIMIT_S = 5.0
"""Time that a listener has for what waits when the process ends."""

logger = logging.getLogger(__name__)


class JobStatusListener(Protocol):
    """What an operator writes. It is made without arguments, and called in one thread, a change at a time."""

    def job_status_changed(self, change: JobStatusChange) -> None: ...


class ListenerThread:
    """Calls one listener. What that raises is logged; one that hangs misses what comes later, and nobody waits for it."""

    def __init__(self, name: str, listener: JobStatusListener) -> None:
        self._name, self._listener = name, listener
        self._queue: queue.Queue[JobStatusChange | None] = queue.Queue(QUEUE_MAX)
        self._is_full = False
        self._thread = threading.Thread(target=self._run, name=f"listener {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, change: JobStatusChange) -> None:
        try:
            self._queue.put_nowait(change)
            self._is_full = False
        except queue.Full:
            if not self._is_full:
                logger.warning("the listener %s does not keep up: changes of jobs are dropped", self._name)
            self._is_full = True

    def close(self) -> None:
        """Wait a limited time until the listener has had what waits. Blocking."""
        if not self._thread.is_alive():
            return
        try:
            self._queue.put(None, timeout=END_LIMIT_S)
        except queue.Full:
            return
        self._thread.join(END_LIMIT_S)

    def _run(self) -> None:
        while (change := self._queue.get()) is not None:
            try:
                self._listener.job_status_changed(change)
            except Exception:
                logger.warning("the listener %s has failed at job %s", self._name, change.job_id, exc_info=True)


def load_listeners(key: str, entry_points: str) -> list[ListenerThread]:
    """Listeners of texts like `module:Class, other:Class`, made. Raises ConfigurationError."""
    names = [name for each in entry_points.split(",") if (name := each.strip())]
    return [ListenerThread(name, _loaded(key, name)) for name in names]


def _loaded(key: str, name: str) -> JobStatusListener:
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise ConfigurationError(f"{key}: {name!r} is none: write MODULE:CLASS, several parted by commas")
    try:
        made = getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        raise ConfigurationError(f"{key}: {name} can't be made here: {type(error).__name__}: {error}") from None
    if not callable(getattr(made, "job_status_changed", None)):
        raise ConfigurationError(f"{key}: {name} has no method job_status_changed(change)")
    return cast(JobStatusListener, made)
