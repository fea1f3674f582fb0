"""An output of `fs.stream_files`: what `adapters.storage.batchfiles` does, step by step, on a directory that is made up.

Each start of a query has a generation of it. What takes several steps is an iterator, for others may come in between.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from firesteel.core.checkpoint.generations import (
    Claim,
    Fit,
    fit_of,
    in_order_of_ending,
    is_ended,
    is_late,
    may_stay,
)

Rows = tuple[int, int]
"""Offsets from, and up to but for the last."""

File = tuple[int, int]
"""The generation that has written it, and its batch: its name."""


class Superseded(Exception):
    """A newer start of the query writes here."""


class OutputLost(Exception):
    """What was staged, or noted, is not there any more: another start has removed it."""


@dataclass(slots=True)
class Generation:
    claim: Claim
    query_id: str = ""
    """Empty before its first batch."""
    staged: dict[File, Rows] = field(default_factory=dict)
    intended: dict[int, File] = field(default_factory=dict)
    records: dict[int, File] = field(default_factory=dict)
    """By batch."""


class Output:
    """The directory. `seen` is what readers find that list it, and `followed` what those have found who list it all the time,
    and by which job each was written."""

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        self.seen: dict[File, Rows] = {}
        self.followed: dict[File, tuple[str, Rows]] = {}
        self._written: dict[File, Rows] = {}

    def claim(self, claim: Claim) -> int:
        """The number of a new generation. Raises Superseded."""
        if is_late(claim, [each.claim for each in self.generations]):
            raise Superseded("a later attempt was here")
        self.generations.append(Generation(claim))
        return len(self.generations) - 1

    def begin(self, number: int, batch: int, query_id: str, planned: Rows) -> Iterator[None]:
        """The first batch of a generation ends what others have of it and of later ones."""
        self._check(number)
        own = self.generations[number]
        if not own.query_id:
            earlier = self.generations[:number]
            held = [at for each in earlier for at in each.records]
            owner = next((each.query_id for each in reversed(earlier) if each.query_id), "")
            fit = fit_of(batch, query_id, held, owner)
            assert fit is Fit.FITS, f"an output is refused to the query that it belongs to: {fit.value}"
            known = [at for each in earlier for at in (*each.intended, *each.records)]
            if may_stay(batch, known):
                yield from self._adopt(number, batch, planned)
            kept = own.records.get(batch)
            for each in earlier:
                each.staged.clear()
                yield
            ended = in_order_of_ending(range(number))
            for index in (*ended, *reversed(ended[:-1])):
                self.withdraw(index, batch, kept)
                yield
            own.query_id = query_id
        own.staged.clear()

    def is_there(self, number: int, batch: int, planned: Rows) -> bool:
        """Whether a batch is written already, as it is planned."""
        file = self.generations[number].records.get(batch)
        return file is not None and self._written[file] == planned

    def _adopt(self, number: int, batch: int, planned: Rows) -> Iterator[None]:
        """Take over a batch from an earlier generation."""
        own, earlier = self.generations[number], self.generations[:number]
        while theirs := [(each, file) for each in earlier for file in each.staged if file[1] == batch]:
            holder, file = theirs[0]
            own.staged[file] = holder.staged.pop(file)
            yield
        for each in earlier:
            for known, is_written in ((each.intended, False), (each.records, True)):
                if batch in known and self._written[known[batch]] == planned:
                    (own.records if is_written else own.intended)[batch] = known.pop(batch)
                    yield
                    if not is_written:
                        self._finish(number, batch)
                        yield
                    return
                yield

    def _finish(self, number: int, batch: int) -> None:
        """Publish what somebody was about to, if it is there; else take it back."""
        own = self.generations[number]
        if batch not in own.intended:
            raise OutputLost("the note of what is intended is gone")
        file = own.intended[batch]
        if file in own.staged:
            self._show(number, file, own.staged.pop(file))
        if file in self.seen:
            own.records[batch] = own.intended.pop(batch)
        else:
            self.withdraw(number, batch)

    def stage(self, number: int, batch: int, rows: Rows) -> None:
        """Spark has written a batch."""
        self.generations[number].staged[number, batch] = rows

    def commit(self, number: int, batch: int) -> Iterator[None]:
        """Make a batch that is staged visible."""
        self._check(number)
        yield
        own, file = self.generations[number], (number, batch)
        if file not in own.staged:
            raise OutputLost("the staged files are gone")
        self.withdraw(number, batch)
        own.intended[batch], self._written[file] = file, own.staged[file]
        yield
        if file not in own.staged:
            raise OutputLost("the staged files are gone")
        self._show(number, file, own.staged.pop(file))
        yield
        if batch not in own.intended:
            raise OutputLost("the note of what is intended is gone")
        own.records[batch] = own.intended.pop(batch)
        yield
        self._check(number)

    def _show(self, number: int, file: File, rows: Rows) -> None:
        self.seen[file] = rows
        self.followed[file] = (self.generations[number].claim.job_id, rows)

    def withdraw(self, number: int, batch: int, kept: File | None = None) -> None:
        """Take back this batch and later ones, and whatever was only intended."""
        own = self.generations[number]
        ended = [own.records.pop(at) for at in [at for at in own.records if is_ended(at, batch)]]
        for file in (*ended, *own.intended.values()):
            if file != kept:
                self.seen.pop(file, None)
        own.intended.clear()

    def _check(self, number: int) -> None:
        if number != len(self.generations) - 1:
            raise Superseded("a newer start of the query writes here")

    def twice(self) -> list[tuple[str, int, Rows]]:
        """Batches that a follower has found under two names, written by one job as they were planned once."""
        found = Counter((job_id, batch, rows) for (_, batch), (job_id, rows) in self.followed.items())
        return [each for each, times in found.items() if times > 1]

    def counted(self) -> list[Rows]:
        """What readers count, in order."""
        return sorted(self.seen.values())
