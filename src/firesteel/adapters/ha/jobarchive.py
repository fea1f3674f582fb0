"""Archived jobs: what is shown of a job that has ended, as long as it is known. A lost one is shown without its vertices."""

import asyncio
import contextlib
import logging
import os
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from firesteel.adapters.history.archivefile import Damaged, Extent, archive_head, extents, read_extents
from firesteel.model.ids import JobID
from firesteel.model.stored import UNREADABLE
from firesteel.model.views import JobView

SHARE_S = 0.02
"""Jobs that end within it share a file: with a file a job, a busy master did 255 jobs a second instead of 400."""
_FILE = re.compile(r"\d{10}-[0-9a-f]{8}\.jobs")
"""The directory may hold what is being written, and what is none of ours."""

logger = logging.getLogger(__name__)


class MemoryJobArchive:
    """Views in memory, as bytes, which take a fraction of the memory of the views they stand for."""

    def __init__(self) -> None:
        self._views: dict[JobID, bytes] = {}

    async def put(self, view: JobView) -> None:
        self._views[view.job_id] = msgspec.msgpack.encode(view)

    async def get(self, job_id: JobID) -> JobView | None:
        return _decoded(self._views[job_id]) if job_id in self._views else None

    async def delete(self, job_id: JobID) -> None:
        self._views.pop(job_id, None)

    async def keep(self, jobs: Collection[JobID]) -> None:
        self._views = {job_id: data for job_id, data in self._views.items() if job_id in jobs}


class _Place(NamedTuple):
    """Place of a job's view in a file."""

    file: str
    offset: int
    length: int


class FileJobArchive:
    """Files in `directory`, and the last views that were written or read in `cache_bytes` of memory.

    Jobs that end at about the same time share a file. It goes when none of them is kept any more, and since old ones are
    forgotten first, that comes.
    """

    def __init__(self, directory: Path, cache_bytes: int) -> None:
        self._directory, self._cache_bytes = directory, cache_bytes
        self._cache: OrderedDict[JobID, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._places: dict[JobID, _Place] | None = None
        """None until the directory has been looked through."""
        self._jobs_in: Counter[str] = Counter()
        self._waiting: dict[JobID, bytes] = {}
        self._turn = asyncio.Lock()
        self._written = 0
        """Number of the next file."""

    async def put(self, view: JobView) -> None:
        """Raises OSError when it is not written."""
        job_id, data = view.job_id, msgspec.msgpack.encode(view)
        self._waiting[job_id] = data
        async with self._turn:
            if job_id in self._waiting:
                try:
                    await self._write_all()
                finally:
                    self._waiting.pop(job_id, None)
        self._remember(job_id, data)

    async def get(self, job_id: JobID) -> JobView | None:
        data = self._cache.get(job_id) or self._waiting.get(job_id)
        if data is None:
            if self._places is None:
                async with self._turn:
                    await self._known()
            place = (await self._known()).get(job_id)
            data = await asyncio.to_thread(self._read, place) if place is not None else None
        if data is None:
            return None
        self._remember(job_id, data)
        return _decoded(data)

    async def delete(self, job_id: JobID) -> None:
        async with self._turn:
            await self._forget([job_id])

    async def keep(self, jobs: Collection[JobID]) -> None:
        async with self._turn:
            self._places = None  # another leader may have written there
            self._jobs_in.clear()
            await self._forget([job_id for job_id in await self._known() if job_id not in jobs])

    async def _write_all(self) -> None:
        """Write all views that wait. When it fails, each of the others tries it again."""
        await asyncio.sleep(SHARE_S)
        places, jobs = await self._known(), dict(self._waiting)
        written = await asyncio.to_thread(self._write, self._written, jobs)
        for job_id, data in jobs.items():
            if self._waiting.get(job_id) is data:
                del self._waiting[job_id]
        self._written += 1
        before = [places[each] for each in written if each in places]
        self._add(places, written)
        await self._leave(before)

    async def _forget(self, jobs: Collection[JobID]) -> None:
        places = await self._known()
        for job_id in jobs:
            self._drop(job_id)
        await self._leave([places.pop(job_id) for job_id in jobs if job_id in places])

    def _add(self, places: dict[JobID, _Place], written: Mapping[JobID, _Place]) -> None:
        places.update(written)
        self._jobs_in.update(place.file for place in written.values())

    async def _leave(self, places: Collection[_Place]) -> None:
        """Files in which there is no job any more go."""
        for place in places:
            self._jobs_in[place.file] -= 1
            if not self._jobs_in[place.file]:
                await asyncio.to_thread((self._directory / place.file).unlink, missing_ok=True)
                del self._jobs_in[place.file]

    async def _known(self) -> dict[JobID, _Place]:
        if self._places is None:
            places: dict[JobID, _Place] = {}
            found = await asyncio.to_thread(self._look_through)
            for written in found:
                self._add(places, written)
                self._written = max(self._written, *(int(each.file[:10]) + 1 for each in written.values()))
            self._places = places
        return self._places

    # ── in a thread ──────────────────────────────────────────────────────────────────────────
    def _write(self, number: int, jobs: Mapping[JobID, bytes]) -> dict[JobID, _Place]:
        """It appears whole; after a power cut it may be missing, as it may for other reasons."""
        path = self._directory / f"{number:010d}-{secrets.token_hex(4)}.jobs"
        lengths: dict[str, int] = {job_id: len(data) for job_id, data in jobs.items()}
        head = archive_head(lengths)
        written = path.with_suffix(".part")
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            with open(
                os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as file:  # parameters are in it
                file.writelines((head, *jobs.values()))
            os.replace(written, path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise
        return _placed(path.name, dict(extents(len(head), lengths)))

    def _read(self, place: _Place) -> bytes | None:
        with contextlib.suppress(FileNotFoundError), open(self._directory / place.file, "rb") as file:
            file.seek(place.offset)
            return file.read(place.length)
        return None

    def _look_through(self) -> list[dict[JobID, _Place]]:
        """Places of views, by file, oldest first. Files that can't be read, or are of a later firesteel, stay."""
        with contextlib.suppress(FileNotFoundError):
            names = sorted(path for path in self._directory.iterdir() if _FILE.fullmatch(path.name))
            return [places for path in names if (places := _places_in(path))]
        return []

    # ── memory ───────────────────────────────────────────────────────────────────────────────
    def _remember(self, job_id: JobID, data: bytes) -> None:
        self._drop(job_id)
        self._cache[job_id] = data
        self._cached_bytes += len(data)
        while self._cached_bytes > self._cache_bytes:
            self._drop(next(iter(self._cache)))

    def _drop(self, job_id: JobID) -> None:
        self._cached_bytes -= len(self._cache.pop(job_id, b""))


def _places_in(path: Path) -> dict[JobID, _Place]:
    """One file that can't be read keeps nobody from leading."""
    try:
        with open(path, "rb") as file:
            return _placed(path.name, read_extents(file))
    except (OSError, Damaged) as error:
        logger.warning("archived jobs in %s can't be read: %s", path, error)
        return {}


def _placed(file: str, jobs: Mapping[str, Extent]) -> dict[JobID, _Place]:
    return {JobID(job_id): _Place(file, place.offset, place.length) for job_id, place in jobs.items()}


def _decoded(data: bytes) -> JobView | None:
    try:
        return msgspec.msgpack.decode(data, type=JobView)
    except UNREADABLE as error:
        logger.warning("an archived job can't be read any more, and is shown without its vertices: %s", error)
        return None
