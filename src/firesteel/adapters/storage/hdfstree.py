"""HDFS as a `Tree`: what a NameNode renames in one step. Paths are whole URIs."""

import contextlib
import posixpath
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.patience import tried
from firesteel.adapters.storage.rivals import NOTE
from firesteel.adapters.storage.schemes import authority_and_path
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.adapters.storage.webhdfs import Status, WebHdfs

T = TypeVar("T")

TRIES_MAX = 15
"""Times that a request is made before it is given up, in most of a minute: a NameNode takes that to start or to fail over."""
BY_ID = "/.reserved/.inodes"
"""Directory in which HDFS names each file and directory by its id."""


class HdfsTree:
    """A `Tree`. Before each request `check` may say no; what fails is tried `tries_max` times."""

    def __init__(
        self,
        client: WebHdfs,
        check: Callable[[], None] = lambda: None,
        tries_max: int = TRIES_MAX,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._check, self._tries_max, self._wait = client, check, tries_max, wait

    def is_there(self, path: str) -> bool:
        return self.status(path) is not None

    def is_directory(self, path: str) -> bool:
        found = self.status(path)
        return found is not None and found.is_directory

    def names(self, path: str) -> list[str]:
        return [each.name for each in self.below(path)]

    def sizes(self, root: str, names: Iterable[str]) -> dict[str, int]:
        """A request for each directory they are in."""
        wanted = list(names)
        found: dict[str, int] = {}
        for directory in sorted({posixpath.dirname(name) for name in wanted}):
            below = self.below(posixpath.join(root, directory))
            found.update(
                {posixpath.join(directory, each.name): each.size_bytes for each in below if not each.is_directory}
            )
        return {name: found[name] for name in wanted if name in found}

    def status(self, path: str) -> Status | None:
        return self._tried(lambda: self._client.status(_path(path)))

    def below(self, path: str) -> list[Status]:
        """What is directly below, sorted by name; nothing where there is no directory."""
        try:
            found = self._tried(lambda: self._client.listed(_path(path)))
        except FileNotFoundError:
            return []
        return [each for each in found if each.name]

    def read(self, path: str) -> bytes:
        return self.read_from(path, 0)

    def read_from(self, path: str, offset: int) -> bytes:
        return self._tried(lambda: self._client.read(_path(path), offset))

    def read_range(self, path: str, begin: int, end: int) -> bytes:
        """The bytes from `begin` up to `end`."""
        return self._tried(lambda: self._client.read(_path(path), begin, end - begin))

    def write(self, path: str, data: bytes) -> None:
        self._tried(lambda: self._client.write(_path(path), data))

    def upload(self, path: str, source: Path) -> None:
        self._tried(lambda: self._client.upload(_path(path), source))

    def make_directory(self, path: str) -> None:
        self._tried(lambda: self._client.make_directory(_path(path)))

    def rename(self, old: str, new: str) -> None:
        """A try whose answer was lost is told from one that failed by what is there: nobody else renames to `new`."""
        was_lost = False

        def once() -> None:
            nonlocal was_lost
            try:
                self._client.rename(_path(old), _path(new), replaces=True)
            except FileNotFoundError:
                if not (was_lost and self._client.status(_path(new))):
                    raise
            except OSError:
                was_lost = True
                raise

        self._tried(once)

    def rename_onto_nothing(self, old: str, new: str) -> None:
        """Raises FileExistsError where there is something."""
        self._tried(lambda: self._client.rename(_path(old), _path(new), replaces=False))

    def check_heeds_options(self, path: str, target: str) -> None:
        """Raises Unusable when a rename replaces what it should not, tried with what is at `path`: so does a gateway that drops
        what it does not know. `target`: what is to be written."""
        try:
            self.rename_onto_nothing(path, path)
        except FileExistsError:
            return
        raise Unusable(
            f"{target}: what answers there for WebHDFS does not heed renameoptions, so two workers could spoil one commit; set"
            " fs.hdfs.webhdfs-address to the NameNode's own"
        )

    def put_in_place(self, new: str, place: str, aside: str) -> None:
        """In two steps: for a moment there is nothing at `place`. The first names what it moves by its id, so that it moves
        nothing else should it come late, when another worker has gone on."""
        old = self.status(place)
        if old is not None:
            self._tried(lambda: self._client.delete(_path(aside), recursive=True))
            self.make_directory(posixpath.dirname(aside))
            self._tried(lambda: self._move_once(old.file_id, _path(aside)))
        self.rename(new, place)

    def remove(self, path: str) -> None:
        self._tried(lambda: self._client.delete(_path(path), recursive=True))
        steps = path.split("/")
        if STAGING_NAME not in steps:
            return
        self._tried(lambda: self._client.delete(_path(path + NOTE), recursive=True))
        for end in range(len(steps) - 1, steps.index(STAGING_NAME), -1):
            parent = _path("/".join(steps[:end]))
            with contextlib.suppress(FileExistsError):  # others stage there
                self._tried(lambda parent=parent: self._client.delete(parent, recursive=False))  # type: ignore[misc]
                continue
            return

    def check_writable(self, directories: Iterable[str]) -> None:
        """The NameNode says no to the first rename that is not allowed, and those before it are taken back."""

    def remove_empty(self, directory: str) -> None:
        with contextlib.suppress(OSError):
            self._tried(lambda: self._client.delete(_path(directory), recursive=False))

    def settle(self, root: str, names: Iterable[str]) -> None:
        """HDFS has as many copies of what was closed as it was told to make."""

    def settle_directories(self, root: str, names: Iterable[str]) -> None:
        """The NameNode's journal has it when it answers."""

    def _move_once(self, file_id: int, aside: str) -> None:
        try:
            self._client.rename(f"{BY_ID}/{file_id}", aside, replaces=False)
        except (FileNotFoundError, FileExistsError):
            found = self._client.status(aside)
            if found is None or found.file_id != file_id:
                raise

    def _tried(self, call: Callable[[], T]) -> T:
        return tried(call, self._check, self._wait, self._tries_max)


def _path(uri: str) -> str:
    return f"/{authority_and_path(uri)[1]}"
