"""The parts of a savepoint, one a query: its point, the batch that is planned after it, and the log of its output."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec

from firesteel.adapters.spark.streams.snapshots import sinklogs
from firesteel.adapters.spark.streams.snapshots.checkpointlog import offset_entry
from firesteel.adapters.spark.streams.snapshots.errors import CheckpointMissing, OutputRefused, SnapshotOvertaken
from firesteel.adapters.spark.streams.snapshots.fences import is_planned
from firesteel.adapters.spark.streams.snapshots.listing import OFFSETS, listing_of
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointFile, SavepointHeader, SavepointQuery
from firesteel.adapters.spark.streams.snapshots.placing import Placed, Placing
from firesteel.adapters.spark.streams.snapshots.pointfiles import METADATA, SOURCES, log_files
from firesteel.adapters.spark.streams.snapshots.points import (
    BEGINNING,
    CommittedPoint,
    Manner,
    copy_into,
    last_committed,
    local_path,
)
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone
from firesteel.core.checkpoint.beginning import COPIES_MAX, Missing, missing_file

_UID_CHARACTERS_MAX = 80


@dataclass(frozen=True, slots=True)
class Parts:
    """Those of one savepoint, which are made in the directory `made`, below `top` in it."""

    made: Path
    top: str
    home: str
    """The path where `made` will be at last."""
    header: SavepointHeader
    link: bool
    """Whether files may be links where these are as good: those have no digests then."""

    def write(self, number: int, uid: str, checkpoint: str, output: str | tuple[str, Path] | None) -> SavepointQuery:
        """A query's part with the log of its output; begun again when that has been compacted past the point meanwhile.
        Raises a SnapshotError or OSError."""
        copies = 0
        while True:
            copies += 1
            part = self._write_query(number, uid, checkpoint)
            try:
                return _with_log(part, output, self.made)
            except Gone as gone:
                if missing_file(part.point.batch, last_committed(checkpoint), copies) is not Missing.OVERTAKEN:
                    place = output if isinstance(output, str) else checkpoint
                    raise OutputRefused(place, f"{gone.path} of its log is missing") from None
                shutil.rmtree(self.made / part.directory)

    def _write_query(self, number: int, uid: str, checkpoint: str) -> SavepointQuery:
        directory = f"{self.top}/{number}-{quote(uid, safe='')[:_UID_CHARACTERS_MAX]}"
        part = self.made / directory
        part.mkdir(parents=True)
        if last_committed(checkpoint) is not None:
            manner = Manner(self.link, digests=True, durable=True, home=f"{self.home}/{directory}")
            point, placed = _committed(checkpoint, part, manner)
        elif local_path(checkpoint).is_dir():
            point, placed = BEGINNING, _planned(checkpoint, part, BEGINNING.batch)
        else:
            raise CheckpointMissing(checkpoint)
        files = (SavepointFile(name, each.size_bytes, each.sha256) for name, each in sorted(placed.items()))
        return SavepointQuery(
            uid=uid,
            directory=directory,
            point=point,
            files=tuple(files),
            fingerprint=self.header.fingerprints.get(uid, ""),
            attempt=self.header.attempts.get(uid, -1),
        )


def _committed(checkpoint: str, part: Path, manner: Manner) -> tuple[CommittedPoint, dict[str, Placed]]:
    """Take the last committed point, and what is planned after it. Raises a SnapshotError or OSError."""
    copies = 0
    while True:
        copies += 1
        copied = copy_into(checkpoint, part, None, manner)
        point = copied.snapshot.point
        placed = {**copied.placed, **_planned(checkpoint, part, point.batch)}
        last = last_committed(checkpoint)
        if last == point.batch or _may_start(placed, point.batch):
            return point, placed
        if missing_file(point.batch, last, copies) is not Missing.OVERTAKEN:
            raise SnapshotOvertaken(checkpoint, point.batch, f"{OFFSETS}/{point.batch - 1}", copies)
        shutil.rmtree(part)
        part.mkdir()


def _may_start(placed: Mapping[str, Placed], batch: int) -> bool:
    """Whether Spark starts there: it reads the last two batches of `offsets`. Retention may leave the batch only, once it has taken
    away the one before, and the one after was gone before it was taken along."""
    return not batch or len([name for name in placed if name.startswith(f"{OFFSETS}/")]) > 1


def _planned(checkpoint: str, part: Path, batch: int) -> dict[str, Placed]:
    """Take along the batch that is planned after the point, if one is: a sink that knows batches by their number may have
    written it, so it has to run again with the same rows. One that has gone meanwhile is done, and need not."""
    source = local_path(checkpoint)
    for _ in range(COPIES_MAX):  # a log of a source may be compacted meanwhile: then it is listed again
        if not is_planned(source, batch + 1):
            break
        placing = Placing(source, part, link=False, digests=True, durable=True)
        try:
            for name in _planned_files(source, batch):
                if not (part / name).exists():
                    placing.take(name, immutable=False)
            return placing.finish()
        except (Gone, FileNotFoundError):
            for name in placing.taken:
                (part / name).unlink(missing_ok=True)
    return {}


def _planned_files(source: Path, batch: int) -> Iterator[str]:
    """What the batch after `batch` needs besides the point: of sources what their logs hold up to its end, of others everything.
    Raises Gone or FileNotFoundError."""
    planned = f"{OFFSETS}/{batch + 1}"
    yield planned
    if batch < 0:
        yield METADATA
    ends = offset_entry((source / planned).read_text(), planned).log_ends
    listing = listing_of(source)
    for name in listing.below(SOURCES):
        directory = f"{SOURCES}/{name}"
        if name in ends:
            yield from (f"{directory}/{each}" for each in log_files(listing.files(directory), ends[name], directory))
        else:
            yield from listing.everything(directory)


def _with_log(query: SavepointQuery, output: str | tuple[str, Path] | None, partial: Path) -> SavepointQuery:
    if output is None:
        return query
    place, elsewhere = (output, None) if isinstance(output, str) else output
    log, files = sinklogs.take(place, query.point.batch, partial / query.directory, elsewhere)
    return msgspec.structs.replace(query, sink_log=log, files=(*query.files, *files))
