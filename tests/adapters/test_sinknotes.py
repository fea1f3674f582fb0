"""What a worker notes of its sinks, and what it takes to remove their output, goes with the job that it was noted for."""

import asyncio
import zipfile
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.blob import artifacts
from firesteel.adapters.blob.artifacts import ArtifactCache
from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.staged.notes import SINKS, STAGED, note_staged
from firesteel.adapters.spark.staged.references import TWO_PHASE_SCHEME, WrittenByUser, encode
from firesteel.adapters.spark.worker.sinkoutput import SinkOutput
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import Artifact

JOB, OTHER = JobID("a" * 32), JobID("b" * 32)
UNUSED: Any = None


def test_a_released_job_leaves_neither_notes_nor_what_they_tell_of(tmp_path: Path) -> None:
    output = SinkOutput(UNUSED, UNUSED, tmp_path / SINKS / "intended", UNUSED)
    for job_id in (JOB, OTHER):
        staged = tmp_path / "out" / job_id / "0-0"
        staged.mkdir(parents=True)
        note_staged(tmp_path / SINKS / STAGED / f"{job_id}-0-0", str(staged))
        output.note(job_id, {str(staged): {}})
    asyncio.run(output.release(JOB))
    assert [note.name for note in (tmp_path / SINKS / STAGED).iterdir()] == [f"{OTHER}-0-0"]
    assert not (tmp_path / "out" / JOB / "0-0").exists()
    assert (tmp_path / "out" / OTHER / "0-0").exists()
    asyncio.run(output.release(JOB))


def test_who_removes_output_of_a_user_s_sink_after_its_job_was_released_keeps_nothing_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MAX_UNUSED", 0)
    packed = tmp_path / "code.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("module.py", "")
    blobs = LocalBlobStore(tmp_path / "blobs")
    code = Artifact(name="code", kind="code", sha256=blobs.put(packed), size_bytes=1)
    cache = ArtifactCache(tmp_path / "cache", blobs, 1 << 20)
    there = []

    class Forks:
        async def call(self, entry_point: str, payload: bytes) -> bytes:
            there.append((tmp_path / "cache" / code.sha256).is_dir())
            await output.release(JOB)
            await cache.release(JOB)
            there.append((tmp_path / "cache" / code.sha256).is_dir())
            return b""

    forks: Any = Forks()
    output = SinkOutput(forks, cache, tmp_path / SINKS / "intended", UNUSED)
    references = [
        encode(TWO_PHASE_SCHEME, WrittenByUser(job_id=JOB, artifacts=(code,), sink=b"", committable=committable))
        for committable in (b"1", b"2")
    ]

    async def story() -> None:
        await cache.use(JOB, [code])
        await output.discard(references)

    asyncio.run(story())
    assert there == [True] * 4
    assert list((tmp_path / "cache").iterdir()) == []
