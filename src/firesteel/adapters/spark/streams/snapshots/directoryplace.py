"""A savepoint in a directory of this machine, or mounted on it: made under a hidden name, and renamed when it is whole."""

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.errors import SavepointGivenUp
from firesteel.adapters.spark.streams.snapshots.manifest import (
    CLAIM_FILE,
    MANIFEST,
    QUERIES,
    SavepointFile,
    SavepointManifest,
    encode,
)
from firesteel.adapters.spark.streams.snapshots.partials import PREFIX, partial_directory
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.storage.durability import sync, sync_files
from firesteel.model.streams import RETAINED_NAME

_CLAIM, _, _FILE = CLAIM_FILE.partition("/")


class DirectoryPlace:
    """A `SavepointPlace`, by an absolute path or `file:` URI."""

    queries = QUERIES

    def __init__(self, location: str) -> None:
        """Raises StorageUnsupported."""
        self._location, self._root = location, local_path(location)

    def __str__(self) -> str:
        return self._location

    @property
    def path(self) -> str:
        return str(self._root)

    def is_taken(self) -> bool:
        return os.path.lexists(self._root)

    @contextlib.contextmanager
    def making(self, checkpoints: Sequence[str]) -> Iterator[Path]:
        self._root.parent.mkdir(parents=True, exist_ok=True)
        with partial_directory(self._root.parent) as made:
            yield made

    def publish(self, made: Path, manifest: SavepointManifest, is_wanted: Callable[[], bool]) -> SavepointManifest:
        write_manifest(made, manifest)
        if not is_wanted():
            raise SavepointGivenUp(self._location, "it took too long, and was given up")
        os.rename(made, self._root)
        sync(self._root.parent)
        return manifest

    def replace_manifest(self, manifest: SavepointManifest) -> None:
        write_manifest(self._root, manifest)

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def sizes(self, names: Collection[str]) -> Mapping[str, int]:
        found = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found[name] = os.stat(self._root / name).st_size
        return found

    def digest(self, file: SavepointFile) -> str:
        with contextlib.suppress(FileNotFoundError):
            return digest_of(self._root / file.name)
        return ""

    @contextlib.contextmanager
    def fetched(self, directory: str, files: Sequence[SavepointFile], beside: Path) -> Iterator[Path]:
        yield self._root / directory

    def names(self) -> list[str]:
        found = (os.path.join(parent, name) for parent, _, names in os.walk(self._root) for name in names)
        return [name for name in (os.path.relpath(path, self._root) for path in found) if not is_hidden(name)]

    def remove(self, names: Iterable[str]) -> None:
        with partial_directory(self._root.parent) as gone:
            os.rename(
                self._root, gone / self._root.name
            )  # from here on it is no savepoint, and the next one here clears what a death leaves
            sync(self._root.parent)
            shutil.rmtree(gone)
        if RETAINED_NAME.fullmatch(self._root.name):
            with contextlib.suppress(OSError):  # its job's directory has others, or has a new job's
                self._root.parent.rmdir()

    def claim(self, data: bytes) -> None:
        """By one renaming, which fails where there is another one."""
        with partial_directory(self._root) as made:
            (made / _FILE).write_bytes(data)
            sync_files(made, [_FILE])
            try:
                os.rename(made, self._root / _CLAIM)
                sync(self._root)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another job was faster
                    raise

    def give_back(self) -> None:
        with contextlib.suppress(FileNotFoundError), partial_directory(self._root) as gone:
            os.rename(self._root / _CLAIM, gone / _CLAIM)
            sync(self._root)


def write_manifest(root: Path, manifest: SavepointManifest) -> None:
    """In one step, on the disk; and with it, where file systems keep a journal, the names made before. Raises OSError."""
    written = root / f".{MANIFEST}.new"
    with open(written, "wb") as file:
        file.write(encode(manifest))
        file.flush()
        os.fsync(file.fileno())
    os.rename(written, root / MANIFEST)
    sync(root)


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_hidden(name: str) -> bool:
    """Checksums of the local file system, which whoever looked at it with Spark has left; and our own partial ones."""
    last = name.rpartition("/")[2]
    return (last.startswith(".") and last.endswith(".crc")) or any(part.startswith(PREFIX) for part in Path(name).parts)
