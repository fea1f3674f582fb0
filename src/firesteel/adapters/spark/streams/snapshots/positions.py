"""What a query had read when each of its newest batches ended: equal for two queries that have read the same, whatever batches
they made of it.

Spark's offsets say it of most sources. Those of a file source are numbers of its own log, which another query has
other files under; so the files in that log are counted and added up by their digests, in any order. What a query with state
has written depends on its watermark, too: windows that a batch has closed are written by the next one, which may read nothing.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.checkpointlog import batch_of, offset_entry
from firesteel.adapters.spark.streams.snapshots.listing import OFFSETS, STATE
from firesteel.adapters.spark.streams.snapshots.pointfiles import COMMITS, SOURCES, log_files
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone
from firesteel.model.streams import QueryPosition

POSITIONS_MAX = 100
"""Newest batches that are looked at."""
_MODULUS = 1 << 128


def positions(checkpoint: Path) -> tuple[QueryPosition, ...]:
    """Of the query with that checkpoint directory, which may be running: batches that have gone meanwhile are left out."""
    try:
        names = os.listdir(checkpoint / COMMITS)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    batches = sorted(number for number in map(batch_of, names) if number is not None)[-POSITIONS_MAX:]
    logs: dict[str, _FileLog] = {}
    found = []
    for batch in batches:
        try:
            read = _read_by(checkpoint, batch, logs)
        except (Gone, FileNotFoundError):
            continue
        found.append(QueryPosition(batch, read))
    return tuple(found)


def _read_by(checkpoint: Path, batch: int, logs: "dict[str, _FileLog]") -> str:
    """Raises Gone or FileNotFoundError."""
    path = f"{OFFSETS}/{batch}"
    text = (checkpoint / path).read_text()
    ends = offset_entry(text, path).log_ends
    parts = [f"watermark:{_watermark_ms(text)}"] if (checkpoint / STATE).is_dir() else []
    for place, offset in _offsets(text).items():
        if place in ends:
            log = logs.setdefault(place, _FileLog(checkpoint / SOURCES / place))
            parts.append(f"{place}:{log.up_to(ends[place])}")
        else:
            parts.append(f"{place}:{offset}")
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def _watermark_ms(text: str) -> int:
    """By which the batch has evicted state: of event time."""
    return int(json.loads(text.split("\n")[1]).get("batchWatermarkMs", 0))


def _offsets(text: str) -> Mapping[str, str]:
    """Of each source, by its place, as one text whatever the order of its keys; a source that had nothing yet is left out."""
    lines = text.split("\n")
    found = {}
    for place, line in enumerate(lines[2:]):
        key, _, offset = (str(place), "", line) if lines[0] == "v1" else line.partition(":")
        if offset and offset != "-":
            found[key] = _canonical(offset)
    return found


def _canonical(offset: str) -> str:
    try:
        return json.dumps(json.loads(offset), sort_keys=True)
    except ValueError:
        return offset


class _FileLog:
    """The log of a file source; each of its files is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, tuple[int, int]] = {}

    def up_to(self, end: int) -> str:
        """Number and sum of the files up to that entry. Raises Gone or FileNotFoundError."""
        count = total = 0
        for name in log_files(os.listdir(self._directory), end, str(self._directory)):
            if name not in self._known:
                self._known[name] = self._counted(name)
            more, of_them = self._known[name]
            count, total = count + more, (total + of_them) % _MODULUS
        return f"{count}-{total:x}"

    def _counted(self, name: str) -> tuple[int, int]:
        count = total = 0
        for line in (self._directory / name).read_text().splitlines()[1:]:
            digest = hashlib.blake2b(json.loads(line)["path"].encode(), digest_size=16)
            count, total = count + 1, (total + int.from_bytes(digest.digest())) % _MODULUS
        return count, total
