"""A worker's backend that runs one attempt, as a process: `workerprocess URL DIRECTORY TASKS KEY=VALUE...`."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from firesteel.runtime.ports import TaskFailedError
from tests.clusters.conftest import SMALL
from tests.clusters.work import counting_job, rows_staged
from tests.integration.spark.jobs import JobMaker, run


async def main(url: str, folder: Path, tasks: int, definitions: Sequence[str]) -> None:
    options = {**SMALL, "taskmanager.spark.master": url, **dict(each.split("=", 1) for each in definitions)}
    blobs = LocalBlobStore(folder / "blobs")
    backend = SparkTaskBackend(Configuration(options), folder / "work", blobs)
    try:
        await backend.start()
        outcome = await run(backend, counting_job(JobMaker(blobs, folder), folder, tasks=tasks, seconds=0.2))
        print(f"rows: {rows_staged(outcome)}; {backend.applications()}")
    except TaskFailedError as error:
        print(f"refused: {error.failure.message}")
    finally:
        await backend.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
