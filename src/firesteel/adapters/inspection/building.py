"""Jobs of files that were uploaded: built on a worker, in a process of its own, since that runs the user's code."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import msgspec

from firesteel.adapters.blob.local import BlobSource
from firesteel.model.inquiries import AnyAnswer, BuildFailed, BuildJob, JobBuilt
from firesteel.model.jobgraph import encode_job_graph
from firesteel.pipeline.build import BuildFailure, decode_build_reply
from firesteel.pipeline.uploaded import UploadedFile
from firesteel.runtime.ports import TaskBackend, TaskFailedError

BUILD_ENTRY_POINT = "firesteel.pipeline.uploaded:build_in_child"

BUILDS_AT_ONCE = 2
BUILD_LIMIT_S = 60.0
"""Time that a file has to declare its pipeline, when its turn has come."""


class UploadedFiles:
    """Builds below `directory`, in processes of `backend`, with blobs of `blobs`."""

    def __init__(self, directory: Path, backend: TaskBackend, blobs: BlobSource) -> None:
        self._directory, self._backend, self._blobs = directory, backend, blobs
        self._turn = asyncio.Semaphore(BUILDS_AT_ONCE)

    async def build(self, inquiry: BuildJob) -> AnyAnswer:
        """The job, its artifacts in the master's blob store. Raises BlobMissing, BlobCorrupt or OSError."""
        async with self._turn:
            scratch = await asyncio.to_thread(self._scratch)
            try:
                async with asyncio.timeout(BUILD_LIMIT_S):
                    return await self._build(inquiry, scratch)
            except TimeoutError:
                text = f"{inquiry.file_name} has not declared its pipeline within {BUILD_LIMIT_S:g} s"
                return BuildFailed(message=text)
            finally:
                await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    async def _build(self, inquiry: BuildJob, scratch: Path) -> AnyAnswer:
        blob = await self._blobs.fetch(inquiry.sha256)
        try:
            await asyncio.to_thread(shutil.copyfile, blob, scratch / inquiry.file_name)
        finally:
            await self._blobs.let_go(inquiry.sha256)
        uploaded = UploadedFile(
            file=str(scratch / inquiry.file_name),
            entry=inquiry.entry,
            scratch=str(scratch),
            request=msgspec.Raw(inquiry.request),
        )
        try:
            answer = await self._backend.call(BUILD_ENTRY_POINT, msgspec.json.encode(uploaded))
        except TaskFailedError as error:  # its code has ended the process, say
            return BuildFailed(message=f"{inquiry.file_name}: {error.failure.headline()}", trace=error.failure.trace)
        reply = decode_build_reply(answer)
        if isinstance(reply, BuildFailure):
            texts = (reply.message, reply.location, reply.trace)
            message, location, trace = (_shortened(text, scratch) for text in texts)
            return BuildFailed(message=message, location=location, trace=trace)
        for sha256, path in reply.artifact_paths().items():
            await self._blobs.keep(path, sha256)
        return JobBuilt(graph=encode_job_graph(reply.graph), artifacts=tuple(reply.artifacts))

    def _scratch(self) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self._directory))


def _shortened(text: str, scratch: Path) -> str:
    """The text without the place where the file happened to lie while it was looked at."""
    return text.replace(f"{scratch / 'content'}/", "").replace(f"{scratch}/", "")
