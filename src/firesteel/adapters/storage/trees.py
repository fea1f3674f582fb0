"""The contract of a file system that renames in one step. `LocalTree` and `HdfsTree` are the two."""

from collections.abc import Iterable
from typing import Protocol


class Tree(Protocol):
    """Paths are absolute, names relative to one; both with `/` between their steps. Blocking; raises OSError."""

    def is_there(self, path: str) -> bool:
        """Whether there is something of that name."""

    def is_directory(self, path: str) -> bool:
        """False where there is nothing."""

    def names(self, path: str) -> list[str]:
        """What is directly below, sorted; nothing where there is no directory."""

    def sizes(self, root: str, names: Iterable[str]) -> dict[str, int]:
        """Sizes in bytes of those of the files that are there."""

    def check_writable(self, directories: Iterable[str]) -> None:
        """Raises PermissionError when files can't be renamed into one, as far as that can be told beforehand."""

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file, whatever was there; its directory is."""

    def make_directory(self, path: str) -> None:
        """Also those above it; idempotent."""

    def rename(self, old: str, new: str) -> None:
        """In one step: onto nothing, an empty directory or, of a file, another file. Raises FileNotFoundError."""

    def put_in_place(self, new: str, place: str, aside: str) -> None:
        """`new` becomes `place`; what was there is afterwards at `new` or at `aside`. Repeating after a crash goes on."""

    def remove(self, path: str) -> None:
        """Delete a file or directory; of staging directories also what marks them, and those that they leave empty. A staged one
        that can't be deleted now may be noted instead, for later."""

    def remove_empty(self, directory: str) -> None:
        """Delete it if it is there and empty."""

    def settle(self, root: str, names: Iterable[str]) -> None:
        """What was written to these files, and their directories up to `root`, outlasts a loss of power."""

    def settle_directories(self, root: str, names: Iterable[str]) -> None:
        """The same of the directories alone: files were renamed there."""


def holds_data(tree: Tree, path: str) -> bool:
    """Whether there is something that the modes `error` and `ignore` leave alone."""
    return bool(tree.names(path)) or (tree.is_there(path) and not tree.is_directory(path))
