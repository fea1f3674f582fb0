"""Threads of this process and where they are now, and what waits on the event loop."""

import asyncio
import contextlib
import sys
import threading
import traceback
from io import StringIO

from firesteel.model.inquiries import ThreadDump, ThreadEntry

TASKS_MAX = 500
"""Tasks of the event loop that are told of."""


def thread_dump() -> ThreadDump:
    """All threads, and the tasks of the event loop this is called from."""
    frames = sys._current_frames()
    threads = [thread for thread in threading.enumerate() if thread.ident in frames]
    told = [_entry(thread.name, traceback.format_stack(frames[thread.ident or 0])) for thread in threads]
    with contextlib.suppress(RuntimeError):  # no event loop here
        told += [_entry(f"task {task.get_name()}", [_stack(task)]) for task in list(asyncio.all_tasks())[:TASKS_MAX]]
    return ThreadDump(threads=tuple(told))


def _entry(name: str, stack: list[str]) -> ThreadEntry:
    """Its text begins with the name and ends with an empty line: Flink's dashboard shows the texts alone, one behind the
    other."""
    return ThreadEntry(name, f'"{name}"\n{"".join(stack)}\n')


def _stack(task: "asyncio.Task[object]") -> str:
    text = StringIO()
    task.print_stack(file=text)
    return text.getvalue()
