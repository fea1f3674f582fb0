"""Files that a streaming query has written into a directory, batch by batch: which of them count, and no batch twice.

Each start of a query is a *generation* of the output (`batchclaims`), with a record for each batch (`batchrecords`). A later
generation goes on from some batch: what earlier ones have of that batch and of later ones counts no more, and is removed. So a
query that runs a batch again, or goes on from an older point, replaces what was there; one that was taken for dead finds that
there is a newer generation, and stops. Of the batch that an earlier generation ended with, if it is gone on with as it was
planned, the record is taken over instead, and its files keep their names: who reads the directory as a stream knows files by these.

A batch is noted as intended, its files are renamed into place, then the note becomes the record: whoever comes next finds
in either what there is to be removed, or to be finished.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from firesteel.adapters.storage.batchclaims import (
    Start,
    Superseded,
    claimed,
    generations_of,
    publish,
    records_of,
)
from firesteel.adapters.storage.batchrecords import Record, State, records_in
from firesteel.adapters.storage.directories import is_hidden
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.core.checkpoint.generations import Fit, fit_of, in_order_of_ending, is_ended, may_stay

MERGED_BATCHES = 100
"""So many records become one file."""
_OWNER = "owner.json"
_STAGED = re.compile(r"stream-(\d+)-(\d+)-(\d+)")


class _Owner(msgspec.Struct):
    query_id: str
    first_batch: int


@dataclass(frozen=True, slots=True)
class BatchFiles:
    """The output directory of one generation."""

    root: Path
    generation: int

    @classmethod
    def claim(cls, root: Path, job_id: str = "", attempt: int = 0) -> "BatchFiles":
        """A new generation, later than all there are. Raises Superseded for an attempt when a later one of the job was here."""
        return cls(root, Start(root, job_id, attempt).claim())

    @classmethod
    def of(cls, start: Start) -> "BatchFiles":
        """The generation that was claimed for `start`. Raises Superseded where there is none."""
        return cls(start.root, claimed(start))

    def begin(self, batch: int, query_id: str, planned: str = "") -> Path:
        """Where the files of `batch` are to be written. The first batch of a generation ends what others have of it and of
        later ones, but for that batch where they end with it, if it is of what is `planned` (a digest of the query and its
        plan; empty: not known). Raises Superseded; TargetRefused where the batches before it are not those of this query."""
        self._check()
        if not (self.records / _OWNER).exists():
            self._take_over(batch, query_id, planned)
        staging = _Staging(self.root, self.generation, self.generation, batch).path
        shutil.rmtree(staging, ignore_errors=True)
        with contextlib.suppress(FileExistsError):  # if somebody removes it now, who writes makes it again
            staging.parent.mkdir()
        return staging

    def is_there(self, batch: int, planned: str) -> bool:
        """Whether the batch, which has begun, is written already, of what is planned."""
        return planned != "" and Record(self.records, batch, batch, planned).path.exists()

    def commit(self, batch: int, staging: Path, planned: str = "") -> None:
        """Make what is in `staging` the batch's files. Raises Superseded."""
        try:
            self._check()
        except Superseded:
            shutil.rmtree(staging, ignore_errors=True)
            self._end_staging()
            raise
        staged = {name: _final(name, batch, self.generation) for name in _data_files(staging)}
        if not staging.is_dir():
            self._check()  # a newer start has taken it while it was looked at
        self.withdraw(batch)
        intended = Record(self.records, batch, batch, planned, State.INTENDED)
        intended.write({batch: sorted(staged.values())})
        try:
            for name, final in staged.items():
                self._place(staging / name, final)
            shutil.rmtree(staging)
            self._end_staging()
            intended.become(State.WRITTEN)
            self._check()  # if it was published while another one came, that one has found it
            if (batch + 1) % MERGED_BATCHES == 0:
                self._merge(batch)
        except FileNotFoundError:
            self._check()  # a newer start has taken over what was staged or recorded, or removed it
            raise

    def files(self) -> dict[int, list[str]]:
        """What counts: names of files by batch, of all generations."""
        found: dict[int, list[str]] = {}
        for number in sorted(generations_of(self.root)):
            for record in records_in(records_of(self.root, number)):
                if record.state is State.WRITTEN:
                    found.update(record.read())
        return dict(sorted(found.items()))

    @property
    def records(self) -> Path:
        """Where this generation has its records."""
        return records_of(self.root, self.generation)

    def _end_staging(self) -> None:
        """Leave no empty directory beside the output's files."""
        with contextlib.suppress(OSError):  # another one stages there
            (self.root / STAGING_NAME).rmdir()

    def _place(self, staged: Path, final: str) -> None:
        (self.root / final).parent.mkdir(parents=True, exist_ok=True)
        os.rename(staged, self.root / final)

    def _check(self) -> None:
        newest = max(generations_of(self.root), default=0)
        if newest != self.generation:
            raise Superseded(
                f"{self.root} is written by a newer start of the query (generation {newest}, and this is"
                f" {self.generation}): this one was taken for dead, and ends"
            )

    def _take_over(self, batch: int, query_id: str, planned: str) -> None:
        before = _newest_first(self.root, before=self.generation)
        _check_history(self.root, before, batch, query_id)
        may = planned != "" and may_stay(batch, (record.last for each in before for record in records_in(each.records)))
        try:
            kept = self._adopt(batch, planned, before) if may else []
        except FileNotFoundError:
            self._check()  # a newer start has taken it over from this one
            raise
        # What is staged goes first: then nothing of it gets its name after it was looked for.
        for staged in _staged(self.root):
            if staged.holder <= self.generation:
                shutil.rmtree(staged.path, ignore_errors=True)
        self._end_staging()
        # And again the oldest first: one of them may have taken over from an older one meanwhile.
        for earlier in (*before, *reversed(before[:-1])):
            earlier.withdraw(batch, kept)
        publish(self.records / _OWNER, msgspec.json.encode(_Owner(query_id, batch)))

    def _adopt(self, batch: int, planned: str, before: Sequence["BatchFiles"]) -> list[str]:
        """Take over `batch` from an earlier generation, if one has it, or was about to. Returns the names of its files.

        The oldest is asked first: others may take it over meanwhile from older ones to newer ones, and never back.
        """
        self._hold(batch)
        for each in reversed(before):
            for state in (State.INTENDED, State.WRITTEN):  # else it is missed when it is published meanwhile
                earlier = Record(each.records, batch, batch, planned, state)
                try:
                    record = earlier.become(state, self.records)
                except FileNotFoundError:
                    continue
                if (names := self._finish(record)) is not None:
                    return names
        return []

    def _hold(self, batch: int) -> None:
        """Have what others have staged of the batch for oneself, so that they give nothing its name any more."""
        while theirs := [each for each in _staged(self.root) if each.holder < self.generation and each.batch == batch]:
            for staged in theirs:
                try:
                    os.rename(staged.path, replace(staged, holder=self.generation).path)
                except FileNotFoundError:
                    pass  # one in between was faster, and is asked next
                except OSError:  # it is held already, and Spark of one that was taken for dead has made it again
                    shutil.rmtree(staged.path, ignore_errors=True)

    def _finish(self, record: Record) -> list[str] | None:
        """Publish what somebody was about to, if all of it is there; else take it back. Returns its files, if it is."""
        names = record.read()[record.first]
        for staged in _staged(self.root) if record.state is State.INTENDED else ():
            if staged.holder == self.generation:
                for name in _data_files(staged.path):
                    if (final := _final(name, staged.batch, staged.writer)) in names:
                        self._place(staged.path / name, final)
        if not all((self.root / name).exists() for name in names):
            self._check()  # else a newer start has the rest of it, and goes on
            self.withdraw(record.first)
            return None
        record.become(State.WRITTEN)
        return names

    def withdraw(self, batch: int, kept: Collection[str] = ()) -> None:
        """Take back `batch` and later ones of this generation, and whatever was only intended, but for files that are `kept`."""
        for record in sorted(records_in(self.records), key=lambda each: each.last, reverse=True):
            if record.state is State.WRITTEN and not is_ended(record.last, batch):
                continue
            with contextlib.suppress(FileNotFoundError):  # somebody else takes it back, or has taken it over
                if record.is_single:
                    _delete(self.root, record.become(State.WITHDRAWN), 0, kept)
                else:
                    _delete(self.root, record, batch, kept)

    def _merge(self, newest: int) -> None:
        """The records of single batches become one, but for the newest: the next attempt may take over that one."""
        single = [
            each
            for each in records_in(self.records)
            if each.is_single and each.state is State.WRITTEN and each.last < newest
        ]
        merged = {batch: files for each in single for batch, files in each.read().items()}
        Record(self.records, min(merged), max(merged)).write(merged)
        for each in single:
            each.path.unlink(missing_ok=True)


def _delete(root: Path, record: Record, batch: int, kept: Collection[str]) -> None:
    """Delete the files of `batch` and later ones that a record names, and have it name the others."""
    batches = record.read()
    ended = sorted((each for each in batches if is_ended(each, batch)), reverse=True)  # so that no gap is ever seen
    for each in ended:
        for name in batches[each]:
            if name not in kept:
                (root / name).unlink(missing_ok=True)
    left = {each: files for each, files in batches.items() if each not in ended}
    if left:
        Record(record.directory, min(left), max(left)).write(left)
    record.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Staging:
    """A directory with what is written of a batch and has no name yet. Who takes it over becomes its holder."""

    root: Path
    holder: int
    writer: int
    batch: int

    @property
    def path(self) -> Path:
        return self.root / STAGING_NAME / f"stream-{self.holder}-{self.writer}-{self.batch}"


def _staged(root: Path) -> list[_Staging]:
    try:
        names = os.listdir(root / STAGING_NAME)
    except FileNotFoundError:
        return []
    found = (_STAGED.fullmatch(name) for name in names)
    return [_Staging(root, *map(int, match.groups())) for match in found if match]


def _final(name: str, batch: int, writer: int) -> str:
    directory, _, last = name.rpartition("/")
    return (f"{directory}/" if directory else "") + f"batch-{batch:08}-{writer}-{last}"


def check_history(root: Path, batch: int, query_id: str) -> None:
    """Whether a query that goes on with `batch` fits what the output holds: asked before it claims it, for whoever writes there
    ends with that. Raises TargetRefused."""
    _check_history(root, _newest_first(root), batch, query_id)


def _newest_first(root: Path, before: int | None = None) -> list[BatchFiles]:
    numbers = (number for number in generations_of(root) if before is None or number < before)
    return [BatchFiles(root, number) for number in in_order_of_ending(numbers)]


def _check_history(root: Path, before: Sequence[BatchFiles], batch: int, query_id: str) -> None:
    """Of earlier generations, the newest first. Raises TargetRefused."""
    held = [record.last for each in before for record in records_in(each.records) if record.state is State.WRITTEN]
    owners = (_owner(each.records) for each in before)
    owner = next((each.query_id for each in owners if each is not None), "")
    match fit_of(batch, query_id, held, owner):
        case Fit.OTHER_QUERY:
            raise TargetRefused(
                f"fs.stream_files: {root} holds the batches of another query; name a directory of its own, or"
                " delete that one first"
            )
        case Fit.GAP:
            raise TargetRefused(
                f"fs.stream_files: {root} holds batches up to {max(held)}, and the query goes on with {batch}:"
                " what is between would be missing; name the directory that has it, or a new one"
            )
        case Fit.FITS:
            pass


def _owner(records: Path) -> _Owner | None:
    try:
        return msgspec.json.decode((records / _OWNER).read_bytes(), type=_Owner)
    except FileNotFoundError:
        return None


def _data_files(staging: Path) -> list[str]:
    found = []
    for parent, directories, names in os.walk(staging):
        directories[:] = [name for name in directories if not is_hidden(name)]
        found += [os.path.relpath(os.path.join(parent, name), staging) for name in names if not is_hidden(name)]
    return sorted(found)
