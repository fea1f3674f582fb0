"""The end of a script's threads."""

import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pools
from typing import Any

_QUEUES = pools._threads_queues  # noqa: SLF001 - the threads of all pools; nothing public tells them from others


def end_threads(spared: Callable[[], Collection[object]]) -> None:
    """Wait for the threads and thread pools of this process, as Python does at its end, and then have it do the rest.

    Python ends all pools first. Threads that still run could not use Spark from then on, whose client has pools of its own
    for every query (`spared`, asked for again and again): what a script does after its last line would be lost.
    """
    while threads := _waited_for(spared()):
        plain = [thread for thread in threads if thread not in _QUEUES]
        for thread in plain or threads:
            pool = None if thread in plain else _pool_of(thread)
            if pool is not None:
                pool.shutdown()
            thread.join()
    threading._shutdown()  # type: ignore[attr-defined]


def _waited_for(spared: Collection[object]) -> list[threading.Thread]:
    others = [each for each in threading.enumerate() if not each.daemon and each is not threading.current_thread()]
    return [each for each in others if (pool := _pool_of(each)) is None or pool not in spared]


def _pool_of(thread: threading.Thread) -> ThreadPoolExecutor | None:
    """The pool that it works for; None for another thread, and when nobody has that pool any more."""
    given: Any = getattr(thread, "_args", ())
    return given[0]() if thread in _QUEUES and given else None
