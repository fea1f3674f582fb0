"""What a worker has left that was killed, and the one beside it that clears it. Real processes, attempts that are files."""

import asyncio
import signal
from pathlib import Path

from firesteel.adapters.spark.staged.notes import SINKS, STAGED, note_staged
from firesteel.adapters.spark.worker.workdirs import FORMER
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from tests.network.processes import Cluster, cluster, until
from tests.runtime.cluster import FIXED_DELAY, graph

OPTIONS = {**FIXED_DELAY, "jobmanager.reconciliation.timeout": "500 ms"}


def leave(directory: Path, job_id: JobID) -> None:
    """What a backend has in its worker's directory in the middle of a job."""
    (directory / "partitions" / job_id / "0-0").mkdir(parents=True)
    (directory / "local").mkdir()
    note_staged(directory / SINKS / STAGED / f"{job_id}-0-0", str(directory.parent / "staged"))


async def until_gone(path: Path) -> None:
    async def is_gone() -> bool:
        return not path.exists()

    await until(is_gone)


async def until_it_runs(it: Cluster) -> str:
    """The worker that runs the first attempt."""

    async def runs() -> bool:
        return bool(it.attempts())

    await until(runs)
    return it.attempts()[0].split()[1]


def test_it_goes_when_its_job_is_over_and_not_before(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, OPTIONS) as it:
            workers = {name: await it.start_worker(name) for name in ("one", "two")}
            await it.until_slots(4)
            it.hold("lines")
            job_id = await it.client.submit_job(graph("lines => result"), {})
            name = await until_it_runs(it)
            killed = tmp_path / "work" / name
            leave(killed, job_id)
            workers[name].send_signal(signal.SIGKILL)
            await until_gone(killed / "local")
            assert (killed / "partitions" / job_id).exists(), "its job runs, and may read that"
            it.release("lines")
            assert (await it.client.request_job_result(job_id)).status is JobStatus.FINISHED
            await until_gone(killed)
            (heir,) = {"one", "two"} - {name}
            assert (tmp_path / "work" / heir / FORMER / name / "taskmanager.log").exists()

    asyncio.run(story())


def test_it_goes_when_its_job_was_over_before_anybody_could_clear_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, OPTIONS) as it:
            only = await it.start_worker("only")
            await it.until_slots(2)
            it.hold("lines")
            job_id = await it.client.submit_job(graph("lines => result"), {})
            await until_it_runs(it)
            leave(tmp_path / "work" / "only", job_id)
            only.send_signal(signal.SIGKILL)
            await it.client.cancel_job(job_id)
            assert (await it.client.request_job_result(job_id)).status is JobStatus.CANCELED
            await it.start_worker("next")
            await until_gone(tmp_path / "work" / "only")

    asyncio.run(story())
