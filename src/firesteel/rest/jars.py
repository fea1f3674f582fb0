"""Files that were uploaded to be run later: kept by this master, or by all that share a storage directory."""

import contextlib
import re
import shutil
import uuid
from pathlib import Path

import msgspec

from firesteel.pipeline.uploaded import UPLOAD_ENDINGS, NotUsable, declared_pipelines
from firesteel.rest.errors import RestError, bad_request, not_found

FILES_MAX = 1_000
TOTAL_BYTES_MAX = 10 << 30
NAME_BYTES_MAX = 200
"""Of a file's name: the name under which it is kept is longer, and file systems take 255."""

_ID = re.compile(r"[0-9a-f]{32}_.+")


class UploadedJar(msgspec.Struct, frozen=True, kw_only=True):
    """What is written down beside each file."""

    id: str
    name: str
    sha256: str
    size_bytes: int
    uploaded_ms: int
    owner: str = ""
    entries: tuple[str, ...] = ()
    """The pipelines that it seems to declare."""


class Jars:
    """The files in `directory`. All methods block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, source: Path, name: str, *, sha256: str, owner: str, now_ms: int) -> UploadedJar:
        """Keep a copy of a file. Raises RestError for what is no file of a pipeline, or has no room."""
        if not name.endswith(UPLOAD_ENDINGS) or len(name.encode()) > NAME_BYTES_MAX:
            endings = ", ".join(UPLOAD_ENDINGS)
            raise bad_request(f"{name!r}: upload a file of a pipeline, whose name ends in one of {endings}.")
        known, size = self.list(), source.stat().st_size
        if len(known) >= FILES_MAX or sum(jar.size_bytes for jar in known) + size > TOTAL_BYTES_MAX:
            limit = f"{FILES_MAX:,} files, {TOTAL_BYTES_MAX >> 30} GiB"
            raise RestError(413, f"There is no room for more uploads (at most {limit}): delete some first.")
        jar_id = f"{uuid.uuid4().hex}_{name}"
        self._directory.mkdir(parents=True, exist_ok=True)
        kept = self._directory / jar_id
        try:
            shutil.copyfile(source, kept)
            jar = UploadedJar(
                id=jar_id,
                name=name,
                sha256=sha256,
                size_bytes=size,
                uploaded_ms=now_ms,
                owner=owner,
                entries=declared_pipelines(kept),
            )
            self._note(jar).write_bytes(msgspec.json.encode(jar))
        except NotUsable as error:
            kept.unlink()
            raise bad_request(f"{str(error).replace(jar_id, name)}.") from None
        except BaseException:
            kept.unlink(missing_ok=True)
            raise
        return jar

    def list(self) -> list[UploadedJar]:
        """Newest first."""
        found = []
        for note in self._directory.glob("*.json"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):  # being written or deleted just now
                found.append(msgspec.json.decode(note.read_bytes(), type=UploadedJar))
        return sorted(found, key=lambda jar: jar.uploaded_ms, reverse=True)

    def find(self, jar_id: str) -> tuple[UploadedJar, Path]:
        """Raises RestError 404."""
        note = self._directory / f"{jar_id}.json"
        if _ID.fullmatch(jar_id) is not None and "/" not in jar_id and "\0" not in jar_id:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                return msgspec.json.decode(note.read_bytes(), type=UploadedJar), self._directory / jar_id
        raise not_found(f"There is no uploaded file {jar_id!r}: see GET /jars.")

    def delete(self, jar: UploadedJar) -> None:
        self._note(jar).unlink(missing_ok=True)
        (self._directory / jar.id).unlink(missing_ok=True)

    def _note(self, jar: UploadedJar) -> Path:
        return self._directory / f"{jar.id}.json"
