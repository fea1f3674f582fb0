"""Bodies of what a job's journal says."""

import msgspec


class JournalEvent(msgspec.Struct, frozen=True):
    """Something that has become a fact of a job."""

    time: int
    """Milliseconds since the epoch."""
    kind: str
    """`state`, `deployed`, `finished`, `failed`, `canceled`, `failure`, `checkpoint`, `savepoint`."""
    words: str


class JournalInfo(msgspec.Struct, frozen=True, kw_only=True):
    events: list[JournalEvent]
    """The oldest first."""
    truncated: bool
    """Whether there are older ones that are not told."""
