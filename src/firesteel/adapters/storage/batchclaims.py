"""Who writes to an output of `fs.stream_files`: the newest of its generations.

A generation is a directory `_firesteel/streams/NUMBER` that one start of a query has made, for itself alone. Whoever finds that
there is a newer one than its own was taken for dead, and stops. So an output is claimed at the last moment, when nothing
more speaks against the query: a claim ends the one that writes there.
"""

import contextlib
import errno
import os
import shutil
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from firesteel.core.checkpoint.generations import Claim, is_late

RECORDS = "_firesteel/streams"
_CLAIM = "claim.json"
_MAKING = ".claim-"
_MAKING_SECONDS = 3_600.0
"""Who has not come from the making of a claim to its name after this time is dead."""


class Superseded(Exception):
    """A newer start of the query writes to this output: this one is over. Nobody's fault."""


class _Claim(msgspec.Struct):
    job_id: str
    attempt: int
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a query that is to write to `root`: of an attempt of a job, or of nobody's (an empty job)."""

    root: Path
    job_id: str = ""
    attempt: int = 0
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which its generation is found again in another process."""

    def claim(self) -> int:
        """The number of a new generation, later than all there are. Raises Superseded for an attempt when a later one of the
        job was here."""
        records = self.root / RECORDS
        records.mkdir(parents=True, exist_ok=True)
        _sweep(records)
        made = records / f"{_MAKING}{self.mark}"
        made.mkdir()
        publish(made / _CLAIM, msgspec.json.encode(_Claim(self.job_id, self.attempt, self.mark)))
        number = _named(made, self.root)
        claims = [_claim(self.root, each) for each in generations_of(self.root)]
        others = [Claim(each.job_id, each.attempt) for each in claims if each is not None]
        if is_late(Claim(self.job_id, self.attempt), others):
            shutil.rmtree(records_of(self.root, number))
            raise Superseded(
                f"{self.root} is written by a later attempt: attempt {self.attempt} was taken for dead, and ends"
            )
        return number


def claimed(start: Start) -> int:
    """The number of the generation that was claimed for `start`. Raises Superseded where there is none any more."""
    for number in sorted(generations_of(start.root), reverse=True):
        claim = _claim(start.root, number)
        if claim is not None and claim.mark == start.mark:
            return number
    raise Superseded(f"{start.root} was deleted, or is written by others: this start of the query ends")


def generations_of(root: Path) -> list[int]:
    """In no order."""
    try:
        return [int(name) for name in os.listdir(root / RECORDS) if name.isdigit()]
    except FileNotFoundError:
        return []


def records_of(root: Path, generation: int) -> Path:
    """Where a generation has its records."""
    return root / RECORDS / f"{generation:08}"


def publish(path: Path, data: bytes) -> None:
    """Whole, or not at all."""
    written = path.with_name(f"{path.name}.new")
    written.write_bytes(data)
    os.rename(written, path)


def _named(made: Path, root: Path) -> int:
    while True:
        number = max(generations_of(root), default=0) + 1
        try:
            os.rename(made, records_of(root, number))
            return number
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _sweep(records: Path) -> None:
    """Remove claims that were never made, for whoever was about to has died."""
    for made in records.glob(f"{_MAKING}*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - made.stat().st_mtime > _MAKING_SECONDS:
                shutil.rmtree(made, ignore_errors=True)


def _claim(root: Path, generation: int) -> _Claim | None:
    try:
        return msgspec.json.decode((records_of(root, generation) / _CLAIM).read_bytes(), type=_Claim)
    except FileNotFoundError:  # it was given up
        return None
