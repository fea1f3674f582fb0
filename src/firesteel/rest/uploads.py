"""Multipart requests, streamed to disk unless they are small; a file has its SHA-256, whatever the client calls it."""

import asyncio
import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from firesteel.rest.bodies import chunks
from firesteel.rest.errors import RestError, bad_request

FILES_MAX = 256
FIELD_BYTES_MAX = 1 << 20
HEADER_BYTES_MAX = 16 << 10
BOUNDARY_BYTES_MAX = 70
"""Longest boundary, by RFC 2046."""
WRITE_BYTES = 1 << 20
"""Bytes that are written at once; an upload of less stays in memory."""

AT_ONCE_MAX = 64
"""Uploads that are taken at the same time."""


class _Directory:
    """A directory of one upload, made when the first file of it is written. Blocks."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._made: Path | None = None

    def path(self) -> Path:
        if self._made is None:
            self._made = Path(tempfile.mkdtemp(dir=self._parent, prefix="upload-"))
        return self._made

    async def delete(self) -> None:
        if self._made is not None:
            await asyncio.to_thread(shutil.rmtree, self._made, ignore_errors=True)


class UploadedFile:
    """A file that has come: in memory while it is small, else on disk."""

    def __init__(self, name: str, number: int, directory: _Directory) -> None:
        self.name, self.sha256, self.size_bytes = name, "", 0
        self.pending = bytearray()
        self._number, self._directory = number, directory
        self._digest = hashlib.sha256()
        self._writer: BinaryIO | None = None

    @property
    def is_on_disk(self) -> bool:
        return self._writer is not None

    def take(self, data: bytes) -> None:
        self.pending += data
        self.size_bytes += len(data)

    def finish(self) -> None:
        """Take note that all of it has come."""
        self.sha256 = self._digested().hexdigest()

    def write(self) -> None:
        """Move what is in memory to the disk. Blocks."""
        if self._writer is None:
            self._writer = (self._directory.path() / str(self._number)).open("wb")
        self._digest = self._digested()
        self._writer.write(self.pending)
        self.pending.clear()

    def content(self) -> bytes:
        """Content of the file. Blocks, unless it is in memory."""
        return bytes(self.pending) if self._writer is None else self.path().read_bytes()

    def path(self) -> Path:
        """Path of the file; written there first when it is not. Blocks."""
        if self._writer is None or self.pending:
            self.write()
        assert self._writer is not None, "it was written"
        self._writer.flush()
        return Path(self._writer.name)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _digested(self) -> "hashlib._Hash":
        digest = self._digest.copy()
        digest.update(self.pending)
        return digest


class Upload(msgspec.Struct):
    """Upload of a request: files by the names the client gave them, and fields of text."""

    files: dict[str, UploadedFile] = {}
    fields: dict[str, bytes] = {}


class Uploads:
    """Takes uploads of at most `limit_bytes` each, in `work_dir/uploads`."""

    def __init__(self, work_dir: Path, limit_bytes: int) -> None:
        self._directory, self._limit_bytes = work_dir / "uploads", limit_bytes
        self._under_way = 0

    def clear(self) -> None:
        """Delete what an endpoint that was killed has left. Blocks."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)

    @contextlib.asynccontextmanager
    async def received(self, request: Request) -> AsyncIterator[Upload]:
        """Take a multipart request; its files are gone after the block. Raises RestError."""
        boundary = _boundary(request)
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self._limit_bytes:
            raise _too_large(self._limit_bytes)
        if self._under_way >= AT_ONCE_MAX:
            raise RestError(429, f"{AT_ONCE_MAX} uploads are under way: try again in a moment.")
        self._under_way += 1
        directory = _Directory(self._directory)
        reader = _Reader(directory, boundary)
        try:
            await _read(request, reader, self._limit_bytes)
            yield reader.upload
        finally:
            self._under_way -= 1
            reader.close()
            await directory.delete()


async def _read(request: Request, reader: "_Reader", limit_bytes: int) -> None:
    """Raises RestError for what is too large, is no multipart text, or ends in the middle."""
    total = 0
    try:
        async for chunk in chunks(request):
            total += len(chunk)
            if total > limit_bytes:
                raise _too_large(limit_bytes)
            reader.feed(chunk)
            if reader.pending_bytes >= WRITE_BYTES:
                await asyncio.to_thread(reader.flush)
    except ClientDisconnect:
        raise bad_request("The client has gone in the middle of the upload.") from None
    reader.finish()


class _Reader:
    """Parts of one request, as they come. What belongs to a file is kept until `flush`."""

    def __init__(self, directory: _Directory, boundary: bytes) -> None:
        self.upload = Upload({}, {})
        self.pending_bytes = 0
        self._directory = directory
        self._ended = False
        self._headers: dict[str, str] = {}
        self._header_name, self._header_value = bytearray(), bytearray()
        self._field: bytearray | None = None
        self._file: UploadedFile | None = None
        self._name = ""
        self._parser = MultipartParser(
            boundary,
            callbacks={
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
        )

    def feed(self, chunk: bytes) -> None:
        """Raises RestError for what is no multipart text."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise bad_request(f"The body is no multipart/form-data: {error}") from None

    def flush(self) -> None:
        """Write what is kept. Blocks."""
        for file in self.upload.files.values():
            if file.pending:
                file.write()
        self.pending_bytes = 0

    def finish(self) -> None:
        """Everything has come. Raises RestError when the last boundary is missing."""
        if not self._ended:
            raise bad_request("The upload ends in the middle: its last boundary is missing.")
        for file in self.upload.files.values():
            file.finish()

    def close(self) -> None:
        for file in self.upload.files.values():
            file.close()

    # ── callbacks of the parser ──────────────────────────────────────────────────────────────
    def _on_part_begin(self) -> None:
        self._headers.clear()
        self._field = self._file = None

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]
        self._check_header()

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]
        self._check_header()

    def _check_header(self) -> None:
        if len(self._header_name) + len(self._header_value) > HEADER_BYTES_MAX:
            raise bad_request("A part's header is too long.")

    def _on_header_end(self) -> None:
        self._headers[self._header_name.decode("latin-1").lower()] = self._header_value.decode("latin-1")
        self._header_name.clear()
        self._header_value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", ""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" not in options:
            self._begin_field()
        else:
            self._begin_file(options[b"filename"].decode("utf-8", "replace"))

    def _begin_field(self) -> None:
        if not self._name:
            raise bad_request("A part of the upload has no name.")
        if self._name in self.upload.fields:
            raise bad_request(f"The part {self._name!r} comes twice.")
        self._field = bytearray()
        self.upload.fields[self._name] = b""

    def _begin_file(self, name: str) -> None:
        if not _is_plain(name):
            raise bad_request(f"{name!r} is no plain file name.")
        files = self.upload.files
        if name in files:
            raise bad_request(f"The file {name!r} comes twice.")
        if len(files) == FILES_MAX:
            raise bad_request(f"An upload has at most {FILES_MAX} files.")
        self._file = files[name] = UploadedFile(name, len(files), self._directory)

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.take(data[start:end])
            self.pending_bytes += end - start
        elif self._field is not None:
            self._field += data[start:end]
            if len(self._field) > FIELD_BYTES_MAX:
                raise RestError(413, f"The part {self._name!r} has more than {FIELD_BYTES_MAX} bytes.")

    def _on_part_end(self) -> None:
        if self._field is not None:
            self.upload.fields[self._name] = bytes(self._field)

    def _on_end(self) -> None:
        self._ended = True


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not 0 < len(boundary) <= BOUNDARY_BYTES_MAX:
        raise bad_request(f"Send multipart/form-data with a boundary of at most {BOUNDARY_BYTES_MAX} bytes.")
    return boundary


def _is_plain(name: str) -> bool:
    """Whether it is no path, and nothing that a terminal or a file system takes for something else."""
    return 0 < len(name) <= 255 and name not in (".", "..") and name.isprintable() and not set(name) & set("/\\")


def _too_large(limit_bytes: int) -> RestError:
    return RestError(413, f"The upload has more than {limit_bytes} bytes: see rest.server.max-content-length.")
