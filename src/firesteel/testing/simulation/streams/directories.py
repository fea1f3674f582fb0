"""Checkpoint directories of queries, by Spark's contract: what a batch writes, what retention takes away, what a point needs.

A query's state is the number of rows that it has read. Every so often all of it is written, else what a batch has added; so a
point needs files of older batches, as it does with Spark's state stores.
"""

from dataclasses import dataclass, field

OFFSETS, COMMITS, STATE = "offsets", "commits", "state"

SNAPSHOT_EVERY = 4
"""Batches from one snapshot of the state to the next."""

File = tuple[str, int]
"""What it is, and of which batch."""


class Gone(Exception):
    """A file is not there."""


@dataclass(slots=True)
class Directory:
    """One attempt's, of one query. `files` have a number each: where the batch ends, which commit it is, how many rows."""

    query_id: str
    retained: int
    """Batches that the query's retention leaves."""
    files: dict[File, int] = field(default_factory=dict)
    line: dict[int, int] = field(default_factory=dict)
    """Every commit that the state was made of, by batch; the oracles' knowledge, which nothing deletes."""
    is_deleted: bool = False
    fence: int = -1
    """A batch that the query can't plan, as a later attempt goes on from what is before; -1: there is none."""

    @property
    def last(self) -> int:
        """Last committed batch; -1 before the first."""
        return max((batch for kind, batch in self.files if kind == COMMITS), default=-1)

    @property
    def oldest(self) -> int:
        return min((batch for kind, batch in self.files if kind == COMMITS), default=-1)

    def end_of(self, batch: int) -> int:
        """The offset that a batch reads up to."""
        return self.files[OFFSETS, batch] if batch >= 0 else 0

    def run(self, batch: int) -> None:
        """Write the state of a batch that is planned."""
        rows = self.end_of(batch) - self.end_of(batch - 1)
        before = state_of(self.files, batch - 1)
        self.files[STATE, batch] = rows if batch % SNAPSHOT_EVERY else before + rows

    def commit(self, batch: int, commit: int) -> None:
        """A batch is done; what nobody needs any more goes."""
        self.files[COMMITS, batch] = self.line[batch] = commit
        oldest = batch - self.retained + 1
        oldest_state = oldest - oldest % SNAPSHOT_EVERY
        for kind, number in list(self.files):
            if number < (oldest_state if kind == STATE else oldest):
                del self.files[kind, number]

    def is_whole(self, batch: int) -> bool:
        """Whether all files of a point are there."""
        return batch < 0 or all(file in self.files for file in needed(batch))

    def forked(self) -> "Directory":
        """That of the next attempt: the last committed point, and the batch that is planned after it. This one is fenced."""
        batch = self.last
        files = {file: self.files[file] for file in (needed(batch) if batch >= 0 else ())}
        self.fence = batch + 1
        if (OFFSETS, batch + 1) in self.files:
            files[OFFSETS, batch + 1] = self.files[OFFSETS, batch + 1]
            self.fence = batch + 2
        line = {number: commit for number, commit in self.line.items() if number <= batch}
        return Directory(self.query_id, self.retained, files, line)


def needed(batch: int) -> list[File]:
    """Files that the point after a batch is made of."""
    first = batch - batch % SNAPSHOT_EVERY
    return [(OFFSETS, batch), (COMMITS, batch), *((STATE, number) for number in range(first, batch + 1))]


def state_of(files: dict[File, int], batch: int) -> int:
    """The state after a batch: rows that were counted. Raises Gone."""
    if batch < 0:
        return 0
    first = batch - batch % SNAPSHOT_EVERY
    missing = [number for number in range(first, batch + 1) if (STATE, number) not in files]
    if missing:
        raise Gone(f"{STATE}/{missing[0]}")
    return sum(files[STATE, number] for number in range(first, batch + 1))
