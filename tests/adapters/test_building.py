"""A job is made of an uploaded file in a process that ends with its time, whatever the file's code does."""

import asyncio
import os
from pathlib import Path

import msgspec
import psutil
import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.inspection.building import UploadedFiles
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.model.inquiries import BuildFailed, BuildJob, JobBuilt
from firesteel.testing.backend import FakeTaskBackend, TaskScript

SLOW = """
import firesteel, os, pathlib, time
pathlib.Path({note!r}).write_text(str(os.getpid()))
time.sleep(999)
"""
GOOD = "import firesteel as fs\npipeline = fs.Pipeline('good')\npipeline.add(fs.noop('a'))\n"


def uploaded(tmp_path: Path, text: str, blobs: LocalBlobStore) -> BuildJob:
    file = tmp_path / "upload"
    file.write_text(text)
    request = {"file": "", "job_id": "0" * 32, "output_dir": "artifacts"}
    return BuildJob(sha256=blobs.put(file), file_name="job.py", entry="", request=msgspec.json.encode(request))


def test_who_gives_up_waiting_ends_the_process(tmp_path: Path) -> None:
    """As a build does when its time is over."""
    note, blobs = tmp_path / "pid", LocalBlobStore(tmp_path / "blobs")

    async def story() -> None:
        backend = FakeTaskBackend(TaskScript(), tmp_path / "worker")
        files = UploadedFiles(tmp_path / "builds", backend, blobs)
        building = asyncio.ensure_future(files.build(uploaded(tmp_path, SLOW.format(note=str(note)), blobs)))
        while not (note.exists() and note.read_text()):
            await asyncio.sleep(0.05)
        pid = int(note.read_text())
        assert pid != os.getpid()
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
        while psutil.pid_exists(pid):
            await asyncio.sleep(0.05)
        assert os.listdir(tmp_path / "builds") == []
        assert isinstance(await files.build(uploaded(tmp_path, GOOD, blobs)), JobBuilt)
        await backend.close()

    asyncio.run(story())


def test_a_file_has_its_time_from_when_its_turn_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.adapters.inspection.building.BUILD_LIMIT_S", 0.1)
    calls: list[str] = []

    async def never(server: ForkServer, entry_point: str, payload: bytes) -> bytes:
        calls.append("begun")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            calls.append("ended")
        raise AssertionError

    monkeypatch.setattr(ForkServer, "call", never)
    blobs = LocalBlobStore(tmp_path / "blobs")

    async def story() -> None:
        files = UploadedFiles(tmp_path / "builds", FakeTaskBackend(TaskScript(), tmp_path / "worker"), blobs)
        build = uploaded(tmp_path, SLOW, blobs)
        answers = await asyncio.gather(*(files.build(build) for _ in range(3)))
        assert answers == [BuildFailed(message="job.py has not declared its pipeline within 0.1 s")] * 3
        assert sorted(calls) == ["begun"] * 3 + ["ended"] * 3

    asyncio.run(story())
