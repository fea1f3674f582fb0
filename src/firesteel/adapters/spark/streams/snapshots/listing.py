"""What there is in a checkpoint directory: names by directory, without sizes, since looking at each file takes longer."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.checkpointlog import batch_of

OFFSETS, STATE = "offsets", "state"
FENCE = "firesteel: a later attempt goes on from here\n"
"""What a fence says: a file of `offsets` that is no batch's (see `fences`)."""
NAMED_ELSEWHERE = frozenset({"SSTs", "logs"})
"""Directories of RocksDB's immutable files: the snapshots name those that count, so nobody need list them."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Names of files by the directory they are in, relative to the checkpoint; "" is the checkpoint itself. Hidden files,
    which are Spark's temporary ones and checksums of the local file system, are not in it."""

    directories: Mapping[str, tuple[str, ...]]

    def files(self, directory: str) -> tuple[str, ...]:
        return self.directories.get(directory, ())

    def below(self, directory: str) -> list[str]:
        """Names of the directories right below one."""
        prefix = f"{directory}/" if directory else ""
        found = (path[len(prefix) :] for path in self.directories if path.startswith(prefix) and path != directory)
        return sorted(name for name in found if name and "/" not in name)

    def everything(self, directory: str) -> list[str]:
        """Paths of all files in a directory and below it."""
        if directory not in self.directories:  # asked for each store of each partition, of which hardly any has one
            return []
        inside = sorted(path for path in self.directories if path == directory or path.startswith(f"{directory}/"))
        return [f"{path}/{name}" for path in inside for name in self.directories[path]]


def listing_of(checkpoint: Path) -> Listing:
    """Directories that vanish meanwhile are left out, and so is a fence: no query has planned that batch."""
    directories: dict[str, tuple[str, ...]] = {}
    pending = [""]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(checkpoint / directory) as entries:
                files = []
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if not entry.is_dir():
                        files.append(entry.name)
                    elif not (entry.name in NAMED_ELSEWHERE and directory.startswith(f"{STATE}/")):
                        pending.append(f"{directory}/{entry.name}" if directory else entry.name)
        except FileNotFoundError:
            continue
        directories[directory] = tuple(sorted(files))
    if OFFSETS in directories:
        directories[OFFSETS] = _planned(checkpoint, directories[OFFSETS])
    return Listing(directories)


def is_fence(path: Path) -> bool:
    """Whether a file of `offsets` is one; one that its maker did not come to write is empty."""
    try:
        return path.stat().st_size <= len(FENCE) and FENCE.startswith(path.read_text())
    except FileNotFoundError:
        return False


def _planned(checkpoint: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """All of these but a fence, which is the last, as nothing is planned after it."""
    last = max(names, key=lambda name: batch_of(name) or 0, default="")
    is_fenced = last != "" and is_fence(checkpoint / OFFSETS / last)
    return tuple(name for name in names if not (is_fenced and name == last))
