"""A leader that dies between the end of a job and its archive: the next one archives it, once."""

import asyncio
from pathlib import Path

from firesteel.adapters.history.record import decode_job
from firesteel.model.states import JobStatus
from tests.durable.masters import site
from tests.durable.test_standby import get
from tests.network.processes import until
from tests.rest.cluster import graph


def test_a_leader_that_is_killed_before_the_archive_is_written(tmp_path: Path) -> None:
    """The directory can't be written to until then."""
    archive, job = tmp_path / "archive", graph("lines => result", "ended")
    archive.touch()

    async def story() -> None:
        async with site(tmp_path, **{"jobmanager.archive.fs.dir": str(archive)}) as it:
            first, second = await it.start_master("first"), await it.start_master("second")
            await it.start_worker(first)
            result = await first.run(job)
            await first.until_logged(f"archiving job {job.job_id} failed, again in")
            await first.kill()
            archive.unlink()

            async def is_archived() -> bool:
                return (archive / f"{job.job_id}.job").exists()

            await until(is_archived)
            written = (archive / f"{job.job_id}.job").read_bytes()
            found = decode_job(written)
            assert (found.result, found.view.status) == (result, JobStatus.FINISHED)
            assert [vertex.name for vertex in found.view.vertices] == ["lines", "result"]
            assert [subtask.state.name for vertex in found.view.vertices for subtask in vertex.subtasks] == [
                "FINISHED"
            ] * 2
            await second.until_it_leads()
            assert (await get(second, f"/jobs/{job.job_id}/logs")).status_code == 200
            assert it.attempts() == ["lines", "result"]
            await first.start()
            await first.until_it_leads()
            assert (archive / f"{job.job_id}.job").read_bytes() == written

    asyncio.run(story())
