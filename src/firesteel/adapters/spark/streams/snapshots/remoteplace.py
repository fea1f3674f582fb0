"""What places in a storage that is asked over a network have in common.

A savepoint is made on this machine, with links, and uploaded when all of it is there: retention can't overtake that. What is fetched
again is compared with its manifest.
"""

import contextlib
import hashlib
import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from firesteel.adapters.spark.streams.snapshots.directoryplace import digest_of
from firesteel.adapters.spark.streams.snapshots.errors import (
    CheckpointMissing,
    SavepointDamaged,
    SavepointGivenUp,
    SnapshotError,
    StorageFailed,
    StorageRefused,
)
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointFile, SavepointManifest
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.storage.errors import Unusable

logger = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")

TRANSFERS_MAX = 8
"""Files that are uploaded, or downloaded, at once."""
RANGE_BYTES = 8 << 20
"""A download is made of requests for so much."""
UPLOAD_LIMIT_S = 12 * 3_600.0
"""An upload that takes longer is given up by who makes it."""
LEFT_AFTER_S = 24 * 3_600.0
"""What was begun so long ago is not finished any more: twice the limit, since clocks differ."""


class RemotePlace(ABC):
    """The part of a `SavepointPlace` that is the same in each of these."""

    def __init__(self, location: str, wait: Callable[[float], None]) -> None:
        self._location, self._wait = location, wait
        self._mark = secrets.token_hex(8)
        """In names of what this one makes, which nobody else uses."""

    def __str__(self) -> str:
        return self._location

    @contextlib.contextmanager
    def making(self, checkpoints: Sequence[str]) -> Iterator[Path]:
        """Beside the first of the checkpoints, where links are possible."""
        beside = local_path(checkpoints[0]).parent
        if not beside.is_dir():
            raise CheckpointMissing(checkpoints[0])
        with partial_directory(beside) as made:
            yield made

    # ── what each does in its own way ────────────────────────────────────────────────────────
    @abstractmethod
    def _all(self, below: str = "") -> Mapping[str, int]:
        """Bytes of all files of the savepoint, by name, or of those below this directory of it; hidden ones are none."""

    @abstractmethod
    def _range(self, name: str, begin: int, end: int) -> bytes:
        """The bytes of a file from `begin` up to `end`. Raises FileNotFoundError."""

    @abstractmethod
    def _clear(self, now_ms: int) -> None:
        """Delete what others have left in this place: what is `is_left`."""

    # ── made ─────────────────────────────────────────────────────────────────────────────────
    def _check_of(self, is_wanted: Callable[[], bool]) -> Callable[[], None]:
        """What is asked before each request of an upload that begins now. It raises SavepointGivenUp."""
        begun = time.monotonic()

        def check() -> None:
            if not is_wanted() or time.monotonic() - begun > UPLOAD_LIMIT_S:
                raise SavepointGivenUp(self._location, "it took too long, and was given up")

        return check

    def _cleared(self) -> SavepointGivenUp:
        """This one was taken for dead."""
        return SavepointGivenUp(self._location, "it took too long, and what there was of it was deleted")

    def _sweep(self, now_ms: int) -> None:
        """What others have left must not keep anybody from a savepoint."""
        try:
            self._clear(now_ms)
        except (OSError, msgspec.MsgspecError, SnapshotError) as error:
            logger.warning("what is left of other savepoints beside %s stays there for now: %s", self._location, error)

    def _uploaded(
        self, upload: Callable[[str, Path], None], made: Path, manifest: SavepointManifest
    ) -> SavepointManifest:
        """The manifest with the digests of what was uploaded; `upload` does it by a file's name in the savepoint."""

        def work(file: SavepointFile) -> str:
            digest = file.sha256 or digest_of(made / file.name)
            upload(file.name, made / file.name)
            return digest

        digests = at_once(work, manifest.files)
        return manifest.with_digests(dict(zip((file.name for file in manifest.files), digests, strict=True)))

    # ── read ─────────────────────────────────────────────────────────────────────────────────
    def names(self) -> list[str]:
        return list(self._all())

    def sizes(self, names: Collection[str]) -> Mapping[str, int]:
        found = self._all()
        return {name: found[name] for name in names if name in found}

    def digest(self, file: SavepointFile) -> str:
        digest = hashlib.sha256()
        with self._asking():
            try:
                self._receive(file, digest.update)
            except FileNotFoundError:
                return ""
        return digest.hexdigest()

    @contextlib.contextmanager
    def fetched(self, directory: str, files: Sequence[SavepointFile], beside: Path) -> Iterator[Path]:
        here = [msgspec.structs.replace(file, name=f"{directory}/{file.name}") for file in files]
        with partial_directory(beside) as copy:
            sizes = self._all(directory)
            with self._asking():
                found = at_once(lambda file: file.wrong_size(sizes) or self._fetch(file, copy), here)
            if problems := tuple(filter(None, found)):
                raise SavepointDamaged(self._location, problems)
            (copy / directory).mkdir(parents=True, exist_ok=True)
            yield copy / directory

    def _fetch(self, file: SavepointFile, copy: Path) -> str:
        """What is wrong with it, or nothing."""
        target, digest = copy / file.name, hashlib.sha256()
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(target, "wb") as written:

                def take(data: bytes) -> None:
                    written.write(data)
                    digest.update(data)

                self._receive(file, take)
        except FileNotFoundError:
            return f"{file.name} is missing"
        if file.sha256 and digest.hexdigest() != file.sha256:
            return f"{file.name} is not what was written"
        return ""

    def _receive(self, file: SavepointFile, take: Callable[[bytes], object]) -> None:
        for begin in range(0, file.size_bytes, RANGE_BYTES):
            take(self._range(file.name, begin, min(file.size_bytes, begin + RANGE_BYTES)))

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """What the storage says as a SnapshotError, but that something is not there. This machine's errors have numbers."""
        try:
            yield
        except Unusable as error:
            raise StorageRefused(self._location, error) from None
        except OSError as error:
            if isinstance(error, FileNotFoundError) or error.errno is not None:
                raise
            raise StorageFailed(self._location, error) from None


def is_left(begun_ms: int, now_ms: int) -> bool:
    """Whether nobody is at work any more on what was begun then."""
    return now_ms - begun_ms >= LEFT_AFTER_S * 1_000


def at_once(work: Callable[[S], T], given: Sequence[S]) -> list[T]:
    """What it returns for each, in order. After an error nothing more is begun."""
    with ThreadPoolExecutor(TRANSFERS_MAX, thread_name_prefix="transfer") as threads:
        running = [threads.submit(work, each) for each in given]
        try:
            return [each.result() for each in running]
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise
