"""An output of `fs.stream_files`: what `adapters.storage.batchfiles` does, step by step, on a directory that is made up.

Each start of a query has a generation of it. What takes several steps is an iterator, for others may come in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from firesteel.core.checkpoint.generations import Claim, Fit, fit_of, in_order_of_ending, is_ended, is_late

Rows = tuple[int, int]
"""Offsets from, and up to but for the last."""


class Superseded(Exception):
    """A newer start of the query writes here."""


class OutputLost(Exception):
    """What was staged, or noted, is not there any more: another start has removed it."""


@dataclass(slots=True)
class Generation:
    claim: Claim
    query_id: str = ""
    """Empty before its first batch."""
    staged: dict[int, Rows] = field(default_factory=dict)
    intended: dict[int, Rows] = field(default_factory=dict)
    records: dict[int, Rows] = field(default_factory=dict)


class Output:
    """The directory. `seen` is what readers find that list it, by generation and batch."""

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        self.seen: dict[tuple[int, int], Rows] = {}

    def claim(self, claim: Claim) -> int:
        """The number of a new generation. Raises Superseded."""
        if is_late(claim, [each.claim for each in self.generations]):
            raise Superseded("a later attempt was here")
        self.generations.append(Generation(claim))
        return len(self.generations) - 1

    def begin(self, number: int, batch: int, query_id: str) -> Iterator[None]:
        """The first batch of a generation ends what others have of it and of later ones."""
        self._check(number)
        own = self.generations[number]
        if not own.query_id:
            earlier = self.generations[:number]
            held = [at for each in earlier for at in each.records]
            owner = next((each.query_id for each in reversed(earlier) if each.query_id), "")
            fit = fit_of(batch, query_id, held, owner)
            assert fit is Fit.FITS, f"an output is refused to the query that it belongs to: {fit.value}"
            for index in in_order_of_ending(range(number)):
                earlier[index].staged.clear()
                yield
                self.withdraw(index, batch)
                yield
            own.query_id = query_id
        own.staged.pop(batch, None)

    def stage(self, number: int, batch: int, rows: Rows) -> None:
        """Spark has written a batch."""
        self.generations[number].staged[batch] = rows

    def commit(self, number: int, batch: int) -> Iterator[None]:
        """Make a batch that is staged visible."""
        self._check(number)
        yield
        own = self.generations[number]
        if batch not in own.staged:
            raise OutputLost("the staged files are gone")
        self.withdraw(number, batch)
        own.intended[batch] = own.staged[batch]
        yield
        if batch not in own.staged:
            raise OutputLost("the staged files are gone")
        self.seen[number, batch] = own.staged.pop(batch)
        yield
        if batch not in own.intended:
            raise OutputLost("the note of what is intended is gone")
        own.records[batch] = own.intended.pop(batch)
        yield
        try:
            self._check(number)
        except Superseded:
            self.withdraw(number, batch)
            raise

    def withdraw(self, number: int, batch: int) -> None:
        """Take back this batch and later ones, and whatever was only intended."""
        own = self.generations[number]
        for at in [at for at in own.records if is_ended(at, batch)]:
            del own.records[at]
            self.seen.pop((number, at), None)
        for at in own.intended:
            self.seen.pop((number, at), None)
        own.intended.clear()

    def _check(self, number: int) -> None:
        if number != len(self.generations) - 1:
            raise Superseded("a newer start of the query writes here")

    def counted(self) -> list[Rows]:
        """What readers count, in order."""
        return sorted(self.seen.values())
