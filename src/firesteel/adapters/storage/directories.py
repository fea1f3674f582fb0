"""The contract of a storage in which Spark writes directories of files. `LocalDirectories`, `ObjectDirectories` and
`HdfsDirectories` are the three."""

from typing import BinaryIO, Protocol


class Directories(Protocol):
    """Locations are texts: absolute paths or URIs. Names are relative to them, with `/` between their steps.

    Blocking: call from a thread. Raises OSError when something failed that may not fail again, `Unusable` when it will.
    """

    @property
    def at_once(self) -> int:
        """Requests that are best under way at the same time."""

    def as_spark(self, location: str) -> str:
        """How Spark names it, when it reads and writes there and when it complains."""

    def files(self, location: str) -> dict[str, int]:
        """Data files below it, where Spark has written: sizes in bytes, by names. Raises FileNotFoundError where it can be told
        that Spark has not written there."""

    def sizes(self, location: str, names: tuple[str, ...]) -> dict[str, int]:
        """Sizes in bytes of those of the files that are there."""

    def end_of(self, location: str, name: str) -> BinaryIO:
        """One of the files, or as much of its end as tells what is in it."""

    def read(self, location: str, name: str) -> bytes:
        """Raises FileNotFoundError."""

    def write(self, location: str, name: str, data: bytes) -> None:
        """Write a file below a location at which there is something, whatever is there by that name."""

    def create(self, location: str, name: str, data: bytes) -> bytes:
        """Make a file that is not there, and what is above it; returns what it holds, if it is another's then that."""

    def remove(self, location: str) -> None:
        """Delete all that is there or below, and what marks it; idempotent."""


def is_hidden(name: str) -> bool:
    """Spark's own rule for what is not data: `_a=1` is a partition of a column named `_a`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
