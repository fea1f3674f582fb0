"""Records of a generation of an output: which files a batch has, and whether they count.

A record's name tells its batches, what was planned for them, and its state; so each change of state is one rename, and of
several who want to change it one does. That decides between who publishes a batch, who goes on from it, and who takes it back.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import msgspec

from firesteel.adapters.storage.batchclaims import publish

_NAME = re.compile(r"([._]?)(\d+)(?:-(\d+))?(?:\.([0-9a-f]+))?\.json")


class State(Enum):
    """Of what a record names, by what its name begins with."""

    INTENDED = "."
    """Files are being given these names."""
    WRITTEN = ""
    """It is there, and counts."""
    WITHDRAWN = "_"
    """It counts no more, and its files are being deleted."""


@dataclass(frozen=True, slots=True)
class Record:
    """A file with the names of the files of some batches."""

    directory: Path
    first: int
    last: int
    planned: str = ""
    """Of a single batch: what it was planned to read, as a digest. Empty where nobody knows."""
    state: State = State.WRITTEN

    @property
    def path(self) -> Path:
        batches = str(self.first) if self.is_single else f"{self.first}-{self.last}"
        return self.directory / f"{self.state.value}{batches}{self.planned and '.'}{self.planned}.json"

    @property
    def is_single(self) -> bool:
        return self.first == self.last

    def read(self) -> dict[int, list[str]]:
        """Names of files by batch. Raises FileNotFoundError when its state has changed."""
        return msgspec.json.decode(self.path.read_bytes(), type=dict[int, list[str]])

    def write(self, batches: Mapping[int, list[str]]) -> None:
        publish(self.path, msgspec.json.encode(batches))

    def become(self, state: State, directory: Path | None = None) -> "Record":
        """Change the state, and the generation. Raises FileNotFoundError when somebody else was first."""
        changed = replace(self, state=state, directory=directory or self.directory)
        os.rename(self.path, changed.path)
        return changed


def records_in(directory: Path) -> list[Record]:
    """Raises FileNotFoundError of a generation that was given up."""
    found = []
    for name in sorted(os.listdir(directory)):
        match = _NAME.fullmatch(name)
        if match:
            first = int(match[2])
            found.append(Record(directory, first, int(match[3] or first), match[4] or "", State(match[1])))
    return found
