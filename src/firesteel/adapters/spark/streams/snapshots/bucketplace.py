"""A savepoint in a bucket: made on this machine, uploaded file by file, and there with its manifest, which is put last.

Before, it is no savepoint. A *note* beside it says what is being uploaded, below a name that nobody else uses; whoever dies
in the midst leaves it, and the next one to make a savepoint in that place deletes what it names when it is old enough. The manifest is put on condition that there is none: of two that write one savepoint, one does.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from firesteel.adapters.spark.streams.snapshots.errors import TargetTaken
from firesteel.adapters.spark.streams.snapshots.manifest import (
    CLAIM_FILE,
    MANIFEST,
    QUERIES,
    SavepointManifest,
    decode,
    encode,
)
from firesteel.adapters.spark.streams.snapshots.partials import PREFIX
from firesteel.adapters.spark.streams.snapshots.remoteplace import RemotePlace, is_left
from firesteel.adapters.storage.keys import Keys, Patient
from firesteel.adapters.storage.objects import Conflict, put_once
from firesteel.adapters.storage.schemes import bucket_and_path


class _Note(msgspec.Struct):
    """Beside a savepoint: what is in this directory of it is being uploaded, or deleted, and counts only where the manifest
    names it. An empty one: all of it."""

    begun_ms: int
    savepoint: str
    """The last step of its location."""
    directory: str


class BucketPlace(RemotePlace):
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
        super().__init__(location, wait)
        self._clock = clock
        self._bucket, self._key = bucket_and_path(location)
        self._keys = keys

    @property
    def path(self) -> str:
        return f"/{self._bucket}/{self._key}"

    @property
    def queries(self) -> str:
        return f"{QUERIES}-{self._mark}"

    def is_taken(self) -> bool:
        with self._asking():
            return any(found.key == self._of(MANIFEST) for found in self._keys.found(self._of(MANIFEST), at_most=1))

    # ── made ─────────────────────────────────────────────────────────────────────────────────
    def publish(self, made: Path, manifest: SavepointManifest, is_wanted: Callable[[], bool]) -> SavepointManifest:
        keys = Patient(self._keys, self._check_of(is_wanted), self._wait)
        with self._asking():
            self._sweep(self._now_ms())
            note = self._write_note(keys, self.queries)
            try:
                sealed = self._uploaded(lambda name, source: keys.upload(self._of(name), source), made, manifest)
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
        except FileNotFoundError:  # its files are gone, too
            raise self._cleared() from None

    def _write_note(self, keys: Keys, directory: str) -> str:
        """Its key."""
        name = self._key.rpartition("/")[2]
        note = _Note(begun_ms=self._now_ms(), savepoint=name, directory=directory)
        key = self._beside(f"{PREFIX}{name}-{self._mark}")
        keys.write(key, msgspec.json.encode(note))
        return key

    def _withdraw(self, note: str) -> None:
        """What could not be finished goes at once, or as what a death leaves."""
        with contextlib.suppress(OSError):
            _delete_below(self._keys, f"{self._of(self.queries)}/")
            self._keys.delete([note])

    def _now_ms(self) -> int:
        return round(self._clock() * 1_000)

    def _clear(self, now_ms: int) -> None:
        for found in list(self._keys.found(self._beside(PREFIX))):
            with contextlib.suppress(FileNotFoundError):  # it was done meanwhile
                self._clear_one(found.key, now_ms)

    def _clear_one(self, key: str, now_ms: int) -> None:
        note = msgspec.json.decode(self._keys.get(key).data, type=_Note)
        if not is_left(note.begun_ms, now_ms) or "/" in note.savepoint:
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

    def _range(self, name: str, begin: int, end: int) -> bytes:
        return Patient(self._keys, lambda: None, self._wait).get_range(self._of(name), begin, end)

    def _all(self, below: str = "") -> Mapping[str, int]:
        """What stands for a directory is none."""
        with self._asking():
            listed = self._keys.found(self._of(f"{below}/" if below else ""))
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


def _delete_below(keys: Keys, prefix: str) -> None:
    keys.abort_uploads(prefix)
    keys.delete([found.key for found in keys.found(prefix)])
