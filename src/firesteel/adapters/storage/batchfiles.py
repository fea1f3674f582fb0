"""Files that a streaming query has written into a directory, batch by batch: which of them count, and no batch twice.

Each start of a query is a *generation* of the output (`batchclaims`), with a record for each batch. A later generation goes on from some batch: what earlier ones have of that batch and of later ones counts no
more, and is removed. So a query that runs a batch again, or goes on from an older point, replaces what was there; one that
was taken for dead finds that there is a newer generation, and stops.

A batch is noted as intended, its files are renamed into place, then the note becomes the record: whoever comes next finds
in either what there is to be removed.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from firesteel.adapters.storage.batchclaims import Start, Superseded, claimed, generations_of, publish, records_of
from firesteel.adapters.storage.directories import is_hidden
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.core.checkpoint.generations import Fit, fit_of, in_order_of_ending, is_ended

MERGED_BATCHES = 100
"""So many records become one file."""
_OWNER = "owner.json"
_INTENDED = "."
_RECORD = re.compile(r"(\.?)(\d+)(?:-(\d+))?\.json")


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

    def begin(self, batch: int, query_id: str) -> Path:
        """Where the files of `batch` are to be written. The first batch of a generation ends what others have of it and of
        later ones. Raises Superseded; TargetRefused where the batches before it are not those of this query."""
        self._check()
        if not (self.records / _OWNER).exists():
            self._take_over(batch, query_id)
        staging = self.root / STAGING_NAME / f"stream-{self.generation}-{batch}"
        shutil.rmtree(staging, ignore_errors=True)
        staging.parent.mkdir(exist_ok=True)
        return staging

    def commit(self, batch: int, staging: Path) -> None:
        """Make what is in `staging` the batch's files. Raises Superseded."""
        try:
            self._check()
        except Superseded:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        staged = {name: self._final(name, batch) for name in _data_files(staging)}
        self.withdraw(batch)
        intended = self.records / f"{_INTENDED}{batch}.json"
        _write(intended, {batch: sorted(staged.values())})
        for name, final in staged.items():
            (self.root / final).parent.mkdir(parents=True, exist_ok=True)
            os.rename(staging / name, self.root / final)
        os.rename(intended, self.records / f"{batch}.json")
        shutil.rmtree(staging, ignore_errors=True)
        try:
            self._check()
        except Superseded:
            self.withdraw(batch)  # it was published while another one took over
            raise
        if (batch + 1) % MERGED_BATCHES == 0:
            self._merge()

    def files(self) -> dict[int, list[str]]:
        """What counts: names of files by batch, of all generations."""
        found: dict[int, list[str]] = {}
        for number in sorted(generations_of(self.root)):
            for record in _records_in(records_of(self.root, number)):
                if not record.is_intended:
                    found.update(record.read())
        return dict(sorted(found.items()))

    @property
    def records(self) -> Path:
        """Where this generation has its records."""
        return records_of(self.root, self.generation)

    def _final(self, name: str, batch: int) -> str:
        directory, _, last = name.rpartition("/")
        return (f"{directory}/" if directory else "") + f"batch-{batch:08}-{self.generation}-{last}"

    def _check(self) -> None:
        newest = max(generations_of(self.root), default=0)
        if newest != self.generation:
            raise Superseded(
                f"{self.root} is written by a newer start of the query (generation {newest}, and this is"
                f" {self.generation}): this one was taken for dead, and ends"
            )

    def _take_over(self, batch: int, query_id: str) -> None:
        before = _newest_first(self.root, before=self.generation)
        _check_history(self.root, before, batch, query_id)
        for earlier in before:
            # What is staged goes first: then nothing of it gets its name after it was looked for.
            for staging in (self.root / STAGING_NAME).glob(f"stream-{earlier.generation}-*"):
                shutil.rmtree(staging, ignore_errors=True)
            earlier.withdraw(batch)
        publish(self.records / _OWNER, msgspec.json.encode(_Owner(query_id, batch)))

    def withdraw(self, batch: int) -> None:
        """Take back `batch` and later ones of this generation, and whatever was only intended."""
        for record in sorted(_records_in(self.records), key=lambda each: each.last, reverse=True):
            if not (is_ended(record.last, batch) or record.is_intended):
                continue
            batches = record.read()
            kept = {each: files for each, files in batches.items() if not (record.is_intended or is_ended(each, batch))}
            for each in sorted(batches.keys() - kept.keys(), reverse=True):  # so that no gap is ever seen
                for name in batches[each]:
                    (self.root / name).unlink(missing_ok=True)
            if kept:
                _write(self.records / f"{min(kept)}-{max(kept)}.json", kept)
            record.path.unlink()

    def _merge(self) -> None:
        """The records of single batches become one."""
        single = [each for each in _records_in(self.records) if each.first == each.last and not each.is_intended]
        merged = {batch: files for each in single for batch, files in each.read().items()}
        _write(self.records / f"{min(merged)}-{max(merged)}.json", merged)
        for each in single:
            each.path.unlink()


def check_history(root: Path, batch: int, query_id: str) -> None:
    """Whether a query that goes on with `batch` fits what the output holds: asked before it claims it, for whoever writes there
    ends with that. Raises TargetRefused."""
    _check_history(root, _newest_first(root), batch, query_id)


def _newest_first(root: Path, before: int | None = None) -> list[BatchFiles]:
    numbers = (number for number in generations_of(root) if before is None or number < before)
    return [BatchFiles(root, number) for number in in_order_of_ending(numbers)]


def _check_history(root: Path, before: Sequence[BatchFiles], batch: int, query_id: str) -> None:
    """Of earlier generations, the newest first. Raises TargetRefused."""
    held = [record.last for each in before for record in _records_in(each.records) if not record.is_intended]
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


@dataclass(frozen=True, slots=True)
class _Record:
    """A file with the names of the files of some batches, which its own name tells."""

    path: Path
    first: int
    last: int
    is_intended: bool

    def read(self) -> dict[int, list[str]]:
        return msgspec.json.decode(self.path.read_bytes(), type=dict[int, list[str]])


def _records_in(records: Path) -> list[_Record]:
    found = []
    for name in sorted(os.listdir(records)):
        match = _RECORD.fullmatch(name)
        if match:
            first = int(match[2])
            found.append(_Record(records / name, first, int(match[3] or first), bool(match[1])))
    return found


def _owner(records: Path) -> _Owner | None:
    try:
        return msgspec.json.decode((records / _OWNER).read_bytes(), type=_Owner)
    except FileNotFoundError:
        return None


def _write(path: Path, batches: Mapping[int, list[str]]) -> None:
    publish(path, msgspec.json.encode(batches))


def _data_files(staging: Path) -> list[str]:
    found = []
    for parent, directories, names in os.walk(staging):
        directories[:] = [name for name in directories if not is_hidden(name)]
        found += [os.path.relpath(os.path.join(parent, name), staging) for name in names if not is_hidden(name)]
    return sorted(found)
