"""Stacks of running attempts, sampled: what flame graphs are made of."""

import msgspec

from firesteel.model.ids import RegionAttemptID


class StackOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker is to look at an attempt that runs there."""

    attempt: RegionAttemptID
    samples: int
    delay_ms: int
    """Time between two looks."""
    depth: int
    """Most frames of a stack, the innermost ones."""


class SampledStack(msgspec.Struct, frozen=True, kw_only=True):
    """A stack that a thread was seen with, so many times."""

    frames: tuple[str, ...]
    """The outermost first; before it what runs it: `Python`, or a kind of the JVM's threads."""
    is_waiting: bool
    """Whether the thread waited rather than computed."""
    count: int
