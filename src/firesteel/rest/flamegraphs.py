"""Flame graphs of samples: the tree that Flink draws, and the samples that were taken last."""

from collections.abc import Iterable

from firesteel.model.stacks import SampledStack
from firesteel.rest.schema.vertices import FlameGraphNode

FULL, ON_CPU, OFF_CPU = "full", "on_cpu", "off_cpu"
TYPES = (FULL, ON_CPU, OFF_CPU)
KEPT_MAX = 32
"""Vertices or subtasks whose samples are kept."""

Key = tuple[str, str, int]
"""Job, vertex, and subtask, which is -1 for all."""


def flame_type(text: str) -> str:
    """Raises ValueError."""
    if text.lower() not in TYPES:
        raise ValueError(text)
    return text.lower()


def flame_graph(stacks: Iterable[SampledStack], kind: str) -> FlameGraphNode:
    """Each node counts the samples that went through it. Siblings are in the order of their names, so that two are alike."""
    chosen = [stack for stack in stacks if kind == FULL or stack.is_waiting == (kind == OFF_CPU)]
    return _node("root", [(stack.frames, stack.count) for stack in chosen])


def _node(name: str, below: list[tuple[tuple[str, ...], int]]) -> FlameGraphNode:
    parts: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for frames, count in below:
        if frames:
            parts.setdefault(frames[0], []).append((frames[1:], count))
    children = [_node(each, parts[each]) for each in sorted(parts)]
    return FlameGraphNode(name, sum(count for _, count in below), children)


class KeptSamples:
    """Samples by what was looked at, with the time of it."""

    def __init__(self) -> None:
        self._kept: dict[Key, tuple[int, tuple[SampledStack, ...]]] = {}

    def get(self, key: Key, since_ms: int) -> tuple[int, tuple[SampledStack, ...]] | None:
        """None when there are none that were taken since."""
        found = self._kept.get(key)
        return found if found is not None and found[0] >= since_ms else None

    def put(self, key: Key, now_ms: int, stacks: tuple[SampledStack, ...]) -> None:
        self._kept.pop(key, None)
        self._kept[key] = (now_ms, stacks)
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
