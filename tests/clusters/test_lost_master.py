"""A Spark master that goes and comes back: one that recovers finds its applications again, one that does not knows of none."""

import asyncio
import time
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.clusters.lostmaster import RECOVERY_S
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.failures import FailureKind
from firesteel.model.options import Configuration
from firesteel.runtime.ports import TaskFailedError
from tests.clusters.conftest import ON_EXECUTORS
from tests.clusters.work import begun, counting_job, rows_staged
from tests.integration.spark.jobs import JobMaker, Runner, run
from tools.standalone import standalone

LOOKS_S = 30.0
"""Beside that time: looks at the master, the end of a driver, and a machine that others use."""


@pytest.mark.parametrize("recovers", [False, True])
def test_a_master_that_was_restarted_keeps_no_job_waiting_for_ever(
    blobs: LocalBlobStore, do: Runner, tmp_path: Path, recovers: bool
) -> None:
    """In its default Spark's master knows of no application then, and a driver would wait for it to say something."""

    async def story() -> None:
        configuration = {**ON_EXECUTORS, "taskmanager.spark.master": spark.url}
        backend = SparkTaskBackend(Configuration(configuration), tmp_path / "work", blobs)
        await backend.start()
        try:
            (before,) = backend.applications()
            running = asyncio.get_running_loop().create_task(
                run(backend, counting_job(JobMaker(blobs, tmp_path), tmp_path, tasks=60, seconds=2.0))
            )
            await begun(tmp_path)
            spark.kill_master()
            spark.start_master()
            back = time.monotonic()
            if recovers:
                assert rows_staged(await running) == 4
            else:
                with pytest.raises(TaskFailedError) as failed:
                    await running
                assert time.monotonic() - back < RECOVERY_S + LOOKS_S
                failure = failed.value.failure
                assert failure.kind is FailureKind.ENVIRONMENT
                assert f"does not know the application {before.application}" in failure.message
                assert not failure.is_suspect, "no attempt is to blame"
            another = tmp_path / "another"
            another.mkdir()
            assert rows_staged(await run(backend, counting_job(JobMaker(blobs, another), another))) == 4
            (after,) = backend.applications()
            assert (after.application == before.application) == recovers
        finally:
            await backend.close()

    with standalone(tmp_path / "cluster", recovers=recovers) as spark:
        do(story())
