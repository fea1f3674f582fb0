"""Blobs in a store of objects, by way of a directory of this process that has what was used here."""

import asyncio
import contextlib
import threading
from pathlib import Path

from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, LocalBlobStore, checked_blob
from firesteel.adapters.blob.outputs import Outputs, checked_output
from firesteel.adapters.storage.objects import Objects, Version

BLOBS, OUTPUTS = "blobs/", "outputs/"

PART_BYTES = 1 << 18
"""Size of an object with what a script prints: all have as many bytes, but for the last one."""


class ObjectBlobStore:
    """A `BlobStore` of which `objects` has everything, and `cache` what was put or read here."""

    def __init__(self, objects: Objects, cache: LocalBlobStore) -> None:
        self._objects, self._cache = objects, cache
        self._fetching = threading.Lock()
        self.outputs: Outputs = ObjectOutputs(objects)

    def put(self, source: Path, sha256: str | None = None) -> str:
        found = self._cache.put(source, sha256)
        self._objects.upload(BLOBS + found, self._cache.path(found))
        return found

    def path(self, sha256: str) -> Path:
        with contextlib.suppress(BlobMissing):
            return self._cache.path(sha256)
        with self._fetching:
            with contextlib.suppress(BlobMissing):  # fetched while this one waited
                return self._cache.path(sha256)
            return self._fetch(sha256)

    def delete(self, sha256: str) -> None:
        self._objects.delete(BLOBS + checked_blob(sha256))
        self._cache.delete(sha256)

    def put_before(self, moment_ms: int) -> list[str]:
        return [each.name.removeprefix(BLOBS) for each in self._objects.listed(BLOBS) if each.modified_ms < moment_ms]

    def free_bytes(self) -> int:
        return self._cache.free_bytes()

    def used_bytes(self) -> int:
        return sum(each.size_bytes for each in self._objects.listed(BLOBS))

    def _fetch(self, sha256: str) -> Path:
        """Raises BlobMissing or OSError."""
        new = self._cache.new_file()
        try:
            self._objects.download(BLOBS + checked_blob(sha256), new)
            return self._cache.adopt(new, sha256)
        except FileNotFoundError:
            raise BlobMissing(sha256) from None
        except BlobCorrupt as error:
            raise OSError(str(error)) from None
        finally:
            new.unlink(missing_ok=True)


class ObjectOutputs:
    """`Outputs` as objects `JOB/ATTEMPT.STREAM/NUMBER` of PART_BYTES each."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def append(self, job_id: str, name: str, offset: int, data: bytes) -> None:
        await asyncio.to_thread(self._write, OUTPUTS + checked_output(job_id, name), offset, data)

    async def read(self, job_id: str, name: str, offset: int) -> bytes:
        number, place = divmod(offset, PART_BYTES)
        found = await asyncio.to_thread(self._part, _name(OUTPUTS + checked_output(job_id, name), number))
        return found.data[place:] if found is not None else b""

    async def delete(self, job_id: str) -> None:
        await asyncio.to_thread(self._delete, f"{OUTPUTS}{job_id}/")

    async def jobs_before(self, moment_ms: int) -> list[str]:
        return await asyncio.to_thread(self._jobs_before, moment_ms)

    def _jobs_before(self, moment_ms: int) -> list[str]:
        newest: dict[str, int] = {}
        for each in self._objects.listed(OUTPUTS):
            job_id = each.name.split("/")[1]
            newest[job_id] = max(newest.get(job_id, 0), each.modified_ms)
        return [job_id for job_id, modified_ms in newest.items() if modified_ms < moment_ms]

    def _write(self, output: str, offset: int, data: bytes) -> None:
        while data:
            number, place = divmod(offset, PART_BYTES)
            fits, name = data[: PART_BYTES - place], _name(output, number)
            found = self._part(name)
            before = found.data if found is not None else b""
            content = before[:place].ljust(place, b"\0") + fits + before[place + len(fits) :]
            if content != before:
                self._objects.put(name, content, found.tag if found is not None else None)
            offset, data = offset + len(fits), data[len(fits) :]

    def _part(self, name: str) -> Version | None:
        try:
            return self._objects.get(name)
        except FileNotFoundError:
            return None

    def _delete(self, prefix: str) -> None:
        self._objects.delete(*(each.name for each in self._objects.listed(prefix)))


def _name(output: str, number: int) -> str:
    return f"{output}/{number:06d}"
