"""A savepoint in HDFS: made on this machine, uploaded into a hidden directory beside its own place, and renamed when it is whole.

The hidden directory is known by its id once it is there: who was taken for dead, and whose directory the next savepoint in that
place has deleted, finds none by that id, and makes none anew. Of two that write one savepoint, one renames: that fails where
something is.
"""

import contextlib
import posixpath
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.directoryplace import is_hidden
from firesteel.adapters.spark.streams.snapshots.errors import TargetTaken
from firesteel.adapters.spark.streams.snapshots.manifest import (
    CLAIM_FILE,
    MANIFEST,
    QUERIES,
    SavepointManifest,
    encode,
)
from firesteel.adapters.spark.streams.snapshots.partials import PREFIX
from firesteel.adapters.spark.streams.snapshots.remoteplace import RemotePlace, at_once, is_left
from firesteel.adapters.storage.hdfstree import BY_ID, HdfsTree
from firesteel.adapters.storage.schemes import authority_and_path
from firesteel.adapters.storage.webhdfs import Status, WebHdfs

_CLAIM, _, _FILE = CLAIM_FILE.partition("/")


class HdfsPlace(RemotePlace):
    """A `SavepointPlace`, by an `hdfs://` URI."""

    queries = QUERIES

    def __init__(
        self,
        location: str,
        client: WebHdfs,
        *,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raises TargetRefused."""
        super().__init__(location, wait)
        authority, self._steps = authority_and_path(location)
        self._files = f"hdfs://{authority}"
        self._root = f"{self._files}/{self._steps}"
        self._above = posixpath.dirname(self._root)
        self._client = client
        self._once, self._patient = HdfsTree(client, tries_max=1, wait=wait), HdfsTree(client, wait=wait)
        """Who is asked first, and says at once what is wrong; and in the midst, when it is waited for."""

    @property
    def path(self) -> str:
        return f"/{self._steps}"

    def is_taken(self) -> bool:
        with self._asking():
            return self._once.is_there(self._root)

    # ── made ─────────────────────────────────────────────────────────────────────────────────
    def publish(self, made: Path, manifest: SavepointManifest, is_wanted: Callable[[], bool]) -> SavepointManifest:
        tree = HdfsTree(self._client, self._check_of(is_wanted), wait=self._wait)
        with self._asking(), self._hidden(self._above) as hidden:
            self._once.make_directory(hidden)
            tree.check_heeds_options(hidden, self._location)
            try:
                found = self._found(tree, hidden)
                self._sweep(found.modified_ms)  # it was made just now, by the clock that the others have
                own = self._by_id(found)
                sealed = self._uploaded(lambda name, source: tree.upload(f"{own}/{name}", source), made, manifest)
                tree.write(f"{own}/{MANIFEST}", encode(sealed))
                self._name(tree, found)
            except FileNotFoundError as error:
                if error.errno is not None:
                    raise
                raise self._cleared() from None
        return sealed

    def _name(self, tree: HdfsTree, hidden: Status) -> None:
        """Give the hidden directory its name; where the answer was lost, what is there by that name tells."""
        try:
            tree.rename_onto_nothing(self._by_id(hidden), self._root)
        except FileExistsError:
            there = tree.status(self._root)
            if there is None or there.file_id != hidden.file_id:
                raise TargetTaken(self._location) from None

    @contextlib.contextmanager
    def _hidden(self, above: str) -> Iterator[str]:
        """A name below `above`. What is there by it in the end goes at once, or as what a death leaves."""
        hidden = f"{above}/{PREFIX}{self._mark}-{secrets.token_hex(4)}"
        try:
            yield hidden
        finally:
            with contextlib.suppress(OSError):
                self._once.remove(hidden)

    def _clear(self, now_ms: int) -> None:
        for each in self._once.below(self._above):
            if each.name.startswith(PREFIX) and is_left(each.modified_ms, now_ms):
                self._once.remove(f"{self._above}/{each.name}")

    def replace_manifest(self, manifest: SavepointManifest) -> None:
        with self._asking(), self._hidden(self._by_id(self._found(self._once, self._root))) as hidden:
            self._once.write(hidden, encode(manifest))
            self._once.rename(hidden, f"{self._root}/{MANIFEST}")

    # ── read ─────────────────────────────────────────────────────────────────────────────────
    def read(self, name: str) -> bytes:
        with self._asking():
            return self._once.read(f"{self._root}/{name}")

    def _range(self, name: str, begin: int, end: int) -> bytes:
        return self._patient.read_range(f"{self._root}/{name}", begin, end)

    def _all(self, below: str = "") -> Mapping[str, int]:
        """Directories of one depth are listed at once."""
        found: dict[str, int] = {}
        directories = [below]
        with self._asking():
            while directories:
                listed = at_once(lambda name: self._patient.below(posixpath.join(self._root, name)), directories)
                here = [
                    (posixpath.join(directory, each.name), each)
                    for directory, inside in zip(directories, listed, strict=True)
                    for each in inside
                ]
                found |= {name: each.size_bytes for name, each in here if not each.is_directory}
                directories = [name for name, each in here if each.is_directory]
        return {name: size for name, size in found.items() if not is_hidden(name)}

    # ── whose ────────────────────────────────────────────────────────────────────────────────
    def remove(self, names: Iterable[str]) -> None:
        with self._asking(), self._hidden(self._above) as aside:
            with contextlib.suppress(FileNotFoundError):  # somebody else was faster
                self._patient.rename(self._root, aside)  # from here on it is no savepoint
            self._patient.remove(aside)

    def claim(self, data: bytes) -> None:
        """By one renaming, which fails where there is another one."""
        with self._asking(), self._hidden(self._by_id(self._found(self._once, self._root))) as hidden:
            self._once.write(f"{hidden}/{_FILE}", data)
            with contextlib.suppress(FileExistsError):  # another job was faster
                self._once.rename_onto_nothing(hidden, f"{self._root}/{_CLAIM}")

    def give_back(self) -> None:
        with self._asking():
            self._once.remove(f"{self._root}/{_CLAIM}")

    def _by_id(self, found: Status) -> str:
        return f"{self._files}{BY_ID}/{found.file_id}"

    def _found(self, tree: HdfsTree, location: str) -> Status:
        """Raises FileNotFoundError."""
        found = tree.status(location)
        if found is None:
            raise FileNotFoundError(f"{location} is not there")
        return found
