"""The worker's artifact cache: a job's code, unpacked once per content, whatever number of jobs and attempts use it."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from firesteel.adapters.blob.archives import BadArchive, unpack
from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, BlobSource
from firesteel.model import options
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact
from firesteel.runtime.ports import TaskFailedError

MAX_UNUSED = 16
"""Unpacked artifacts kept after their last job, since the next run of a pipeline often has the same code."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A file or an archive on this machine, for attempts' working directories."""

    target: str
    """Name of the artifact there."""
    path: str
    """The file, or the directory with what was in the archive: not to be changed."""
    archive: str = ""
    """The archive itself, under a name that says its format; empty for a file."""


class JobCode(msgspec.Struct, frozen=True, kw_only=True):
    """A job's artifacts on this machine."""

    directories: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    pickles: tuple[str, ...] = ()
    placed: tuple[Placed, ...] = ()


class ArtifactCache:
    """Unpacks into `directory`, by SHA-256; counts which jobs use what, and what all of it takes: at most `max_bytes`."""

    def __init__(self, directory: Path, blobs: BlobSource, max_bytes: int) -> None:
        self._directory, self._blobs, self._max_bytes = directory, blobs, max_bytes
        self._users: dict[str, set[JobID]] = {}
        """By SHA-256, least recently used first."""
        self._bytes: dict[str, int] = {}
        """What each takes, packed and unpacked."""
        self._changing = asyncio.Lock()
        """Held by who begins to use something, too: else what nobody uses might go under their hands."""

    async def use(self, job_id: JobID, artifacts: Sequence[Artifact]) -> JobCode:
        """The job's code, ready. Raises TaskFailedError when a blob is missing or broken, or there is no room for all."""
        async with self._changing:
            held = self._held_by(job_id)
            made = await self._made(job_id, artifacts)
            await self._drop_unused()
            total, new = sum(self._bytes.values()), self._held_by(job_id) - held
            if total > self._max_bytes and new:
                await self._let_go(job_id, new)  # not what attempts of it run with
                message = (
                    f"artifacts that jobs use on this worker would take {total} bytes with those of this job, and "
                    f"{options.ARTIFACT_CACHE_MAX.key} allows {self._max_bytes >> 20} MiB: raise it, or run fewer jobs here"
                )
                raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message=message))
            return made

    async def release(self, job_id: JobID) -> None:
        """The job is over: drop what is unused longest, beyond MAX_UNUSED or for want of room."""
        async with self._changing:
            await self._let_go(job_id, self._held_by(job_id))

    def _held_by(self, job_id: JobID) -> set[str]:
        return {sha256 for sha256, users in self._users.items() if job_id in users}

    async def _let_go(self, job_id: JobID, names: Collection[str]) -> None:
        for sha256 in names:
            self._users[sha256].discard(job_id)
        await self._drop_unused()

    async def _made(self, job_id: JobID, artifacts: Sequence[Artifact]) -> JobCode:
        code = [artifact for artifact in artifacts if artifact.kind == "code"]
        pickles = [artifact for artifact in artifacts if artifact.kind == "pickle"]
        try:
            for artifact in code:
                await self._ensure(artifact, job_id)
            files = [await self._fetch(artifact.sha256, job_id) for artifact in pickles]
            return JobCode(
                directories=tuple(str(self._unpacked(artifact.sha256)) for artifact in code),
                archives=tuple(str(self._archive(artifact)) for artifact in code),
                pickles=tuple(map(str, files)),
                placed=tuple([await self._place(artifact, job_id) for artifact in artifacts if artifact.is_placed]),
            )
        except BlobMissing as error:
            message = f"the job's artifact {error} is not there any more"
            raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message=message)) from error
        except BadArchive as error:
            raise TaskFailedError(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=str(error))) from error
        except (OSError, BlobCorrupt) as error:
            message = f"the job's code can't be fetched or unpacked: {error}"
            raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message=message)) from error

    async def _drop_unused(self) -> None:
        unused = [sha256 for sha256, users in self._users.items() if not users]
        for place, sha256 in enumerate(unused):
            if len(unused) - place <= MAX_UNUSED and sum(self._bytes.values()) <= self._max_bytes:
                return
            del self._users[sha256]
            self._bytes.pop(sha256, None)
            await self._forget(sha256)

    async def _forget(self, sha256: str) -> None:
        await asyncio.to_thread(self._remove, sha256)
        await self._blobs.let_go(sha256)

    async def _place(self, artifact: Artifact, job_id: JobID) -> Placed:
        if artifact.kind == "file":
            blob = await self._fetch(artifact.sha256, job_id)
            await asyncio.to_thread(blob.chmod, 0o444)  # many attempts read this one
            return Placed(target=artifact.target, path=str(blob))
        await self._ensure(artifact, job_id)
        path, archive = self._unpacked(artifact.sha256), self._archive(artifact)
        return Placed(target=artifact.target, path=str(path), archive=str(archive))

    async def _ensure(self, artifact: Artifact, job_id: JobID) -> None:
        """Unpack the artifact, and keep its packed form beside it, unless both are there."""
        is_known = artifact.sha256 in self._bytes  # else a former process has left it
        if not (is_known and self._archive(artifact).is_file() and self._unpacked(artifact.sha256).is_dir()):
            blob = await self._blobs.fetch(artifact.sha256)
            try:
                self._bytes[artifact.sha256] = await asyncio.to_thread(self._unpack, blob, artifact)
            except (OSError, BadArchive):
                if artifact.sha256 not in self._users:  # else it goes when these have gone
                    await self._forget(artifact.sha256)
                raise
        self._touch(artifact.sha256, job_id)

    async def _fetch(self, sha256: str, job_id: JobID) -> Path:
        """A blob that is used as it is."""
        blob = await self._blobs.fetch(sha256)
        self._bytes.setdefault(sha256, (await asyncio.to_thread(blob.stat)).st_size)
        self._touch(sha256, job_id)
        return blob

    def _touch(self, sha256: str, job_id: JobID) -> None:
        users = self._users.pop(sha256, set())
        users.add(job_id)
        self._users[sha256] = users

    def _unpack(self, blob: Path, artifact: Artifact) -> int:
        """Returns what it takes in bytes, packed and unpacked."""
        self._directory.mkdir(parents=True, exist_ok=True)
        _link(blob, self._archive(artifact))
        unpacked = self._unpacked(artifact.sha256)
        if not unpacked.is_dir():
            self._unpack_whole(blob, artifact)
        return blob.stat().st_size + sum(each.lstat().st_size for each in unpacked.rglob("*"))

    def _unpack_whole(self, blob: Path, artifact: Artifact) -> None:
        temporary = Path(tempfile.mkdtemp(dir=self._directory, prefix=".unpack-"))
        try:
            unpack(blob, artifact, temporary)
            os.replace(temporary, self._unpacked(artifact.sha256))
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    def _remove(self, sha256: str) -> None:
        for packed in self._directory.glob(f"{sha256}.*"):
            packed.unlink(missing_ok=True)
        shutil.rmtree(self._unpacked(sha256), ignore_errors=True)

    def _unpacked(self, sha256: str) -> Path:
        return self._directory / sha256

    def _archive(self, artifact: Artifact) -> Path:
        return self._directory / f"{artifact.sha256}{artifact.ending or '.zip'}"  # Spark tells formats by this


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)
