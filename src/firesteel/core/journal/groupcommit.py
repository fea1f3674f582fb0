"""Group commit: one write to a journal at a time, with all that was decided while the last one was under way."""

from firesteel.core.effects import Persist, Persisted
from firesteel.core.journal.records import JournalRecord


class GroupCommit:
    """The writes of one session. Whoever carries them out begins one when `add` says so, and the next one after each
    that is through. A write that failed may be durable or not, and nothing may be written after it: the session ends.
    """

    def __init__(self) -> None:
        self._waiting: list[Persist] = []
        self._last: Persist | None = None
        """The last of those that are being written."""
        self._is_writing = False

    def add(self, effect: Persist) -> bool:
        """Whether a write is to begin: soon, so that what is decided in the same turn is in it."""
        self._waiting.append(effect)
        begins, self._is_writing = not self._is_writing, True
        return begins

    def next_write(self) -> tuple[JournalRecord, ...]:
        """What to write now, in order; nothing when all is durable."""
        assert self._last is None, "one write at a time"
        batch, self._waiting = self._waiting, []
        self._is_writing = bool(batch)
        self._last = batch[-1] if batch else None
        return tuple(record for effect in batch for record in effect.records)

    def written(self) -> Persisted:
        """What the core is to be told, now that the write is through."""
        assert self._last is not None, "a write is under way"
        last, self._last = self._last, None
        return Persisted(last.sequence)
