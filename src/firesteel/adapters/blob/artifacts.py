"""The worker's artifact cache: a job's code, unpacked once per content, whatever number of jobs and attempts use it."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from firesteel.adapters.blob.archives import BadArchive, unpack
from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, BlobSource
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact
from firesteel.runtime.ports import TaskFailedError

MAX_UNUSED = 16
"""Unpacked artifacts kept after their last job, since the next run of a pipeline often has the same code."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A file or an archive on this machine, for attempts' working directories."""

    target: str
    """What it is called there."""
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
    """Unpacks into `directory`, by SHA-256; counts which jobs use what."""

    def __init__(self, directory: Path, blobs: BlobSource) -> None:
        self._directory, self._blobs = directory, blobs
        self._users: dict[str, set[JobID]] = {}
        """By SHA-256, least recently used first."""
        self._unpacking = asyncio.Lock()

    async def use(self, job_id: JobID, artifacts: Sequence[Artifact]) -> JobCode:
        """The job's code, ready. Raises TaskFailedError when a blob is missing or broken."""
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

    async def release(self, job_id: JobID) -> None:
        """The job is over: drop the longest unused code beyond MAX_UNUSED."""
        for users in self._users.values():
            users.discard(job_id)
        unused = [sha256 for sha256, users in self._users.items() if not users]
        for sha256 in unused[: max(0, len(unused) - MAX_UNUSED)]:
            del self._users[sha256]
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
        """It is unpacked, and its packed form lies beside it."""
        async with self._unpacking:
            if not self._archive(artifact).is_file() or not self._unpacked(artifact.sha256).is_dir():
                blob = await self._blobs.fetch(artifact.sha256)
                await asyncio.to_thread(self._unpack, blob, artifact)
            self._touch(artifact.sha256, job_id)

    async def _fetch(self, sha256: str, job_id: JobID) -> Path:
        """A blob that is used as it is."""
        blob = await self._blobs.fetch(sha256)
        self._touch(sha256, job_id)
        return blob

    def _touch(self, sha256: str, job_id: JobID) -> None:
        users = self._users.pop(sha256, set())
        users.add(job_id)
        self._users[sha256] = users

    def _unpack(self, blob: Path, artifact: Artifact) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        _link(blob, self._archive(artifact))
        if self._unpacked(artifact.sha256).is_dir():
            return
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
