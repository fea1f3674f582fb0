"""Files that were uploaded to be run later: kept by this master, or by all that share a storage."""

import contextlib
import re
import uuid
from pathlib import Path

import msgspec

from firesteel.adapters.storage.files import Files
from firesteel.model.stored import UNREADABLE, StoredRecord
from firesteel.pipeline.uploaded import UPLOAD_ENDINGS, NotUsable, declared_pipelines
from firesteel.rest.errors import RestError, bad_request, not_found

FILES_MAX = 1_000
TOTAL_BYTES_MAX = 10 << 30
NAME_BYTES_MAX = 200
"""Largest length of a file's name: that under which it is kept is longer, and file systems take 255."""

NOTE = ".json"
"""Ends the name of what is written down of a file."""

_ID = re.compile(r"[0-9a-f]{32}_.+")


class UploadedJar(StoredRecord, frozen=True, kw_only=True):
    """Record beside each file."""

    id: str
    name: str
    sha256: str
    size_bytes: int
    uploaded_ms: int
    owner: str = ""
    entries: tuple[str, ...] = ()
    """The pipelines that it seems to declare."""


class Jars:
    """The files, each with a note. All methods block."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, UploadedJar] = {}
        """By the names of their notes, which never change."""

    def add(self, source: Path, name: str, *, sha256: str, owner: str, now_ms: int) -> UploadedJar:
        """Keep a copy of a file. Raises RestError for what is no file of a pipeline, or has no room."""
        if not name.endswith(UPLOAD_ENDINGS) or len(name.encode()) > NAME_BYTES_MAX:
            endings = ", ".join(UPLOAD_ENDINGS)
            is_java = name.endswith(".jar")
            why = "jobs here are PySpark pipelines, and no jar files of Java classes; " if is_java else ""
            raise bad_request(f"{name!r}: {why}upload a file of a pipeline, whose name ends in one of {endings}.")
        known, size = self.list(), source.stat().st_size
        if len(known) >= FILES_MAX or sum(jar.size_bytes for jar in known) + size > TOTAL_BYTES_MAX:
            limit = f"{FILES_MAX:,} files, {TOTAL_BYTES_MAX >> 30} GiB"
            raise RestError(413, f"There is no room for more uploads (at most {limit}): delete some first.")
        jar_id = f"{uuid.uuid4().hex}_{name}"
        try:
            self._files.write(jar_id, source)
            jar = UploadedJar(
                id=jar_id,
                name=name,
                sha256=sha256,
                size_bytes=size,
                uploaded_ms=now_ms,
                owner=owner,
                entries=declared_pipelines(self._files.path(jar_id)),
            )
            self._files.write(jar_id + NOTE, msgspec.json.encode(jar))
        except NotUsable as error:
            self._files.delete(jar_id)
            raise bad_request(f"{str(error).replace(jar_id, name)}.") from None
        except BaseException:
            with contextlib.suppress(OSError):
                self._files.delete(jar_id)
            raise
        return jar

    def list(self) -> list[UploadedJar]:
        """Newest first."""
        found = {}
        for note in self._files.names():
            if note.endswith(NOTE):
                with contextlib.suppress(FileNotFoundError, *UNREADABLE):  # deleted just now, or none of ours
                    found[note] = self._known.get(note) or self._read(note)
        self._known = found
        return sorted(found.values(), key=lambda jar: jar.uploaded_ms, reverse=True)

    def find(self, jar_id: str) -> tuple[UploadedJar, Path]:
        """Raises RestError 404."""
        if _ID.fullmatch(jar_id) is not None and "/" not in jar_id and "\0" not in jar_id:
            with contextlib.suppress(FileNotFoundError, *UNREADABLE):
                return self._read(jar_id + NOTE), self._files.path(jar_id)
        raise not_found(f"There is no uploaded file {jar_id!r}: see GET /jars.")

    def delete(self, jar: UploadedJar) -> None:
        self._files.delete(jar.id + NOTE)
        self._files.delete(jar.id)

    def _read(self, note: str) -> UploadedJar:
        return msgspec.json.decode(self._files.read(note), type=UploadedJar)
