"""What faulthandler and the JVM write of their threads, read as stacks. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from firesteel.model.stacks import SampledStack

STACKS_MAX = 2_000
"""Different stacks that one answer tells, the most frequent ones."""

Stack = tuple[tuple[str, ...], bool]
"""Frames, the outermost first, and whether it waits."""

_PYTHON_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')
_JVM_STATE = re.compile(r"^\s+java\.lang\.Thread\.State: (\w+)")
_JVM_FRAME = re.compile(r"^\tat (?:[^/()]*/)*([^/()]+\(.*\))$")
_JVM_KINDS = {
    "Executor task launch worker": "JVM: Spark tasks",
    "SparkConnectExecuteThread": "JVM: queries of Spark Connect",
    "stream execution thread": "JVM: streaming queries",
}
"""Kinds of threads that work for attempts, by how their names begin; others are the JVM's own."""
_WAITING_PYTHON = frozenset(
    {
        ("threading.py", "wait"),
        ("threading.py", "_wait_for_tstate_lock"),
        ("threading.py", "join"),
        ("selectors.py", "select"),
        ("queue.py", "get"),
        ("socket.py", "readinto"),
        ("socket.py", "accept"),
        ("connection.py", "_recv"),
        ("thread.py", "_worker"),
        ("wire.py", "_read"),
        ("wire.py", "receive"),
    }
)
"""Innermost frames of threads that wait, as faulthandler does not say so itself: (file, function)."""


def python_stacks(text: str, main_waits: Iterable[bool], depth: int) -> Iterator[Stack]:
    """From faulthandler's dumps, one after the other; `main_waits` says of each whether the thread that wrote it waited."""
    waits = iter(main_waits)
    for block in re.split(r"(?=^(?:Current t|T)hread 0x)", text, flags=re.MULTILINE):
        found = [match.groups() for line in block.splitlines() if (match := _PYTHON_FRAME.match(line))]
        is_current = block.startswith("Current")
        is_waiting = next(waits, False) if is_current else False
        if not found:
            continue
        file, _, function = found[0]
        is_waiting |= (PurePath(file).name, function) in _WAITING_PYTHON
        frames = [f"{function} ({PurePath(file).name}:{line})" for file, line, function in found[:depth]]
        yield ("Python", *reversed(frames)), is_waiting


def jvm_stacks(text: str, depth: int) -> Iterator[Stack]:
    """From one print of a JVM's threads, of those that work for attempts."""
    for block in re.split(r"^(?=\")", text, flags=re.MULTILINE):
        kind = next((kind for name, kind in _JVM_KINDS.items() if block.startswith(f'"{name}')), None)
        if kind is None:
            continue
        lines = block.splitlines()
        state = next((match[1] for line in lines if (match := _JVM_STATE.match(line))), "")
        frames = [match[1] for line in lines if (match := _JVM_FRAME.match(line))][:depth]
        if frames:
            yield (kind, *reversed(frames)), state != "RUNNABLE"


def counted(stacks: Iterable[Stack]) -> tuple[SampledStack, ...]:
    found = Counter(stacks).most_common(STACKS_MAX)
    return tuple(SampledStack(frames=frames, is_waiting=waits, count=count) for (frames, waits), count in found)
