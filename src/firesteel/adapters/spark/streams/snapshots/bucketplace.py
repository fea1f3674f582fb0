"""A savepoint in a bucket: made on this machine, uploaded file by file, and there with its manifest, which is put last.

Before, it is no savepoint. A *note* beside it says what is being uploaded, below a name that nobody else uses; whoever dies
in the midst leaves it, and the next one to make a savepoint in that place deletes what it names when it is old enough. The manifest is put on condition that there is none: of two that write one savepoint, one does.
"""

import contextlib
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    TargetTaken,
)
from firesteel.adapters.spark.streams.snapshots.manifest import (
    CLAIM_FILE,
    MANIFEST,
    QUERIES,
    SavepointFile,
    SavepointManifest,
    decode,
    encode,
)
from firesteel.adapters.spark.streams.snapshots.partials import PREFIX, partial_directory
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.keys import Keys, Patient
from firesteel.adapters.storage.objects import Conflict, put_once
from firesteel.adapters.storage.schemes import bucket_and_path

logger = logging.getLogger(__name__)

T = TypeVar("T")

TRANSFERS_MAX = 8
"""Files that are uploaded, or downloaded, at once."""
RANGE_BYTES = 8 << 20
"""A download is made of requests for so much."""
UPLOAD_LIMIT_S = 12 * 3_600.0
"""An upload that takes longer is given up by who makes it."""
LEFT_AFTER_S = 24 * 3_600.0
"""What was begun so long ago is not finished any more: twice the limit, since clocks differ."""


class _Note(msgspec.Struct):
    """Beside a savepoint: what is in this directory of it is being uploaded, or deleted, and counts only where the manifest
    names it. An empty one: all of it."""

    begun_ms: int
    savepoint: str
    """The last step of its location."""
    directory: str


class BucketPlace:
    """A `SavepointPlace`, by an `s3://` or `s3a://` URI."""

    def __init__(
        self,
        location: str,
        keys: Keys,
        *,
        clock: Callable[[], float] = time.time,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raises TargetRefused."""
        self._location, self._clock, self._wait = location, clock, wait
        self._bucket, self._key = bucket_and_path(location)
        self._keys = keys
        self._mark = secrets.token_hex(8)

    def __str__(self) -> str:
        return self._location

    @property
    def path(self) -> str:
        return f"/{self._bucket}/{self._key}"

    @property
    def queries(self) -> str:
        return f"{QUERIES}-{self._mark}"

    def is_taken(self) -> bool:
        with self._asking():
            return any(found.key == self._of(MANIFEST) for found in self._keys.found(self._of(MANIFEST), at_most=1))

    @contextlib.contextmanager
    def making(self, checkpoints: Sequence[str]) -> Iterator[Path]:
        """Beside the first of the checkpoints, where links are possible."""
        beside = local_path(checkpoints[0]).parent
        if not beside.is_dir():
            raise CheckpointMissing(checkpoints[0])
        with partial_directory(beside) as made:
            yield made

    # ── made ─────────────────────────────────────────────────────────────────────────────────
    def publish(self, made: Path, manifest: SavepointManifest, is_wanted: Callable[[], bool]) -> SavepointManifest:
        begun = time.monotonic()

        def check() -> None:
            if not is_wanted() or time.monotonic() - begun > UPLOAD_LIMIT_S:
                raise SavepointGivenUp(self._location, "it took too long, and was given up")

        keys = Patient(self._keys, check, self._wait)
        with self._asking():
            self._sweep()
            note = self._write_note(keys, self.queries)
            try:
                sealed = self._uploaded(keys, made, manifest)
                self._check_noted(keys, note)
            except BaseException:
                self._withdraw(note)
                raise
            try:  # without an answer it may be there, or come to be: then nothing is withdrawn
                put_once(keys, self._of(MANIFEST), encode(sealed), None)
            except Conflict:
                self._withdraw(note)
                raise TargetTaken(self._location) from None
            with contextlib.suppress(OSError):  # the next one here finds the manifest, and deletes the note
                self._keys.delete([note])
        return sealed

    def _check_noted(self, keys: Keys, note: str) -> None:
        try:
            keys.get(note)
        except FileNotFoundError:  # this one was taken for dead: its files are gone, too
            raise SavepointGivenUp(self._location, "it took too long, and what there was of it was deleted") from None

    def _uploaded(self, keys: Keys, made: Path, manifest: SavepointManifest) -> SavepointManifest:
        """The manifest with the digests of what was uploaded."""

        def upload(file: SavepointFile) -> str:
            digest = file.sha256 or digest_of(made / file.name)
            keys.upload(self._of(file.name), made / file.name)
            return digest

        digests = _at_once(upload, manifest.files)
        return manifest.with_digests(dict(zip((file.name for file in manifest.files), digests, strict=True)))

    def _write_note(self, keys: Keys, directory: str) -> str:
        """Its key."""
        name = self._key.rpartition("/")[2]
        note = _Note(begun_ms=round(self._clock() * 1_000), savepoint=name, directory=directory)
        key = self._beside(f"{PREFIX}{name}-{self._mark}")
        keys.write(key, msgspec.json.encode(note))
        return key

    def _withdraw(self, note: str) -> None:
        """What could not be finished goes at once, or as what a death leaves."""
        with contextlib.suppress(OSError):
            _delete_below(self._keys, f"{self._of(self.queries)}/")
            self._keys.delete([note])

    def _sweep(self) -> None:
        """Delete what others have left in this place. That must not keep anybody from a savepoint."""
        try:
            for found in list(self._keys.found(self._beside(PREFIX))):
                with contextlib.suppress(FileNotFoundError):  # it was done meanwhile
                    self._sweep_one(found.key)
        except (OSError, msgspec.MsgspecError, SnapshotError) as error:
            logger.warning("what is left of other savepoints beside %s stays there for now: %s", self._location, error)

    def _sweep_one(self, key: str) -> None:
        note = msgspec.json.decode(self._keys.get(key).data, type=_Note)
        if self._clock() * 1_000 - note.begun_ms < LEFT_AFTER_S * 1_000 or "/" in note.savepoint:
            return
        root = self._beside(f"{note.savepoint}/")
        below = f"{note.directory}/".removeprefix("/")
        try:
            manifest = decode(self._keys.get(root + MANIFEST).data, self._keys.uri(root + MANIFEST))
            counts = any(each.directory.startswith(below) for each in manifest.queries)
        except FileNotFoundError:
            counts = False
        if not counts:
            _delete_below(self._keys, root + below)
        self._keys.delete([key])

    def replace_manifest(self, manifest: SavepointManifest) -> None:
        with self._asking():
            self._keys.write(self._of(MANIFEST), encode(manifest))

    # ── read ─────────────────────────────────────────────────────────────────────────────────
    def read(self, name: str) -> bytes:
        with self._asking():
            return self._keys.get(self._of(name)).data

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
            sizes = self._all(f"{directory}/")
            with self._asking():
                found = _at_once(lambda file: file.wrong_size(sizes) or self._fetch(file, copy), here)
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
        keys = Patient(self._keys, lambda: None, self._wait)
        for begin in range(0, file.size_bytes, RANGE_BYTES):
            take(keys.get_range(self._of(file.name), begin, min(file.size_bytes, begin + RANGE_BYTES)))

    def names(self) -> list[str]:
        return list(self._all())

    def _all(self, below: str = "") -> dict[str, int]:
        """Sizes by name; what stands for a directory is none."""
        with self._asking():
            listed = self._keys.found(self._of(below))
            found = {each.key.removeprefix(self._of("")): each.size_bytes for each in listed}
        return {name: size for name, size in found.items() if name and name[-1] != "/"}

    # ── whose ────────────────────────────────────────────────────────────────────────────────
    def remove(self, names: Iterable[str]) -> None:
        keys = Patient(self._keys, lambda: None, self._wait)
        with self._asking():
            note = self._write_note(keys, "")
            keys.delete([self._of(MANIFEST)])  # from here on it is no savepoint
            keys.delete(self._of(name) for name in names)
            keys.delete([note])

    def claim(self, data: bytes) -> None:
        with self._asking(), contextlib.suppress(Conflict):  # another job was faster
            put_once(self._keys, self._of(CLAIM_FILE), data, None)

    def give_back(self) -> None:
        with self._asking():
            self._keys.delete([self._of(CLAIM_FILE)])

    def _of(self, name: str) -> str:
        return f"{self._key}/{name}"

    def _beside(self, name: str) -> str:
        """The key of what is in the same place as the savepoint."""
        return f"{self._key.rpartition('/')[0]}/{name}".removeprefix("/")

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


def _delete_below(keys: Keys, prefix: str) -> None:
    keys.abort_uploads(prefix)
    keys.delete([found.key for found in keys.found(prefix)])


def _at_once(work: Callable[[SavepointFile], T], files: Sequence[SavepointFile]) -> list[T]:
    """What it returns for each, in order. After an error nothing more is begun."""
    with ThreadPoolExecutor(TRANSFERS_MAX, thread_name_prefix="transfer") as threads:
        running = [threads.submit(work, file) for file in files]
        try:
            return [each.result() for each in running]
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise
