"""WorkerDesk: answers what a master asks a worker on behalf of somebody who looks."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, BlobSource
from firesteel.adapters.inspection.building import UploadedFiles
from firesteel.adapters.inspection.logfiles import GROWTH_LOOK_S, LogFiles, NoSuchFile
from firesteel.adapters.inspection.sparkpages import read_page
from firesteel.adapters.inspection.sparkwork import look
from firesteel.adapters.inspection.threads import thread_dump
from firesteel.adapters.spark.streams.snapshots.errors import SnapshotError
from firesteel.adapters.spark.streams.snapshots.places import place_at
from firesteel.adapters.spark.streams.snapshots.savepoints import dispose
from firesteel.adapters.storage.serving import NOTHING_SET
from firesteel.model.inquiries import (
    READ_WAIT_MAX_MS,
    AnyAnswer,
    AnyInquiry,
    BuildJob,
    DescribeSpark,
    DisposeSavepoint,
    DumpThreads,
    FileList,
    FilePart,
    InquiryRefused,
    ListFiles,
    LookAtQueries,
    LookAtSparkWork,
    QueriesSeen,
    ReadFile,
    ReadSparkPage,
    ReadState,
    SampleStacks,
    SavepointDisposed,
    SparkDescription,
    StacksSampled,
    StateRead,
)
from firesteel.runtime.ports import TaskBackend, TaskFailedError


class WorkerDesk:
    """The InquiryDesk of a worker whose files lie in `work_dir`."""

    def __init__(
        self, work_dir: Path, backend: TaskBackend, blobs: BlobSource, *, storage: Mapping[str, str] = NOTHING_SET
    ) -> None:
        """`storage`: settings by which savepoints in other storages are reached."""
        self._backend, self._storage = backend, storage
        self._logs = LogFiles(work_dir / "logs")
        self._uploaded = UploadedFiles(work_dir / "builds", backend, blobs)

    async def answer(self, inquiry: AnyInquiry) -> AnyAnswer:
        try:
            return await self._answer(inquiry)
        except NoSuchFile:
            return InquiryRefused(reason="File not found.", is_missing=True)
        except BlobMissing:
            return InquiryRefused(reason="the uploaded file is gone from the blob store", is_missing=True)
        except SnapshotError as error:
            return InquiryRefused(reason=str(error))
        except TaskFailedError as error:
            return InquiryRefused(reason=error.failure.message)
        except (OSError, BlobCorrupt) as error:
            return InquiryRefused(reason=f"the worker could not do it: {error}")

    async def _answer(self, inquiry: AnyInquiry) -> AnyAnswer:
        match inquiry:
            case ListFiles(prefix=prefix):
                return FileList(files=await asyncio.to_thread(self._logs.list, prefix))
            case ReadFile():
                return await read_when_grown(self._logs, inquiry)
            case DumpThreads():
                return thread_dump()
            case DescribeSpark():
                return SparkDescription(applications=tuple(self._backend.applications()))
            case ReadSparkPage():
                return await read_page(inquiry, self._backend.applications())
            case LookAtSparkWork():
                return await look(inquiry, self._backend.applications())
            case BuildJob():
                return await self._uploaded.build(inquiry)
            case DisposeSavepoint(path=path):
                await asyncio.to_thread(self._dispose, path)
                return SavepointDisposed()
            case ReadState(order=order):
                return StateRead(state=await self._backend.read_state(order))
            case LookAtQueries(order=order):
                return QueriesSeen(queries=await self._backend.look_at_queries(order))
            case SampleStacks(order=order):
                return StacksSampled(stacks=await self._backend.sample_stacks(order))

    def _dispose(self, location: str) -> None:
        dispose(place_at(location, self._storage))


async def read_when_grown(files: LogFiles, inquiry: ReadFile) -> FilePart:
    """A part of a file, once there is one or the time is over. Raises NoSuchFile."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + min(inquiry.wait_ms, READ_WAIT_MAX_MS) / 1_000
    while True:
        part = await asyncio.to_thread(files.read, inquiry.name, inquiry.offset)
        if part.data or loop.time() >= until_s:
            return part
        await asyncio.sleep(GROWTH_LOOK_S)
