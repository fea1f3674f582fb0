"""What a worker notes of its sinks goes with the job that it was noted for."""

import asyncio
from pathlib import Path
from typing import Any

from firesteel.adapters.spark.staged.notes import SINKS, STAGED, note_staged
from firesteel.adapters.spark.worker.sinkoutput import SinkOutput
from firesteel.model.ids import JobID

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
