"""An empty user function in a process of its own: submission to result, one at a time and from several clients."""

import asyncio
import tempfile
import time
from pathlib import Path

import firesteel as fs
from benchmarks.report import Report, Series, Verdict
from benchmarks.warm import FUNCTION_MS_MAX, empty_job, run
from firesteel.minicluster import MiniCluster
from firesteel.pipeline.build import BuiltJob

JOBS, CLIENTS, SLOTS = 50, 8, 8
"""Jobs a round, and of how many clients and in how many slots at once."""
WARM_UP_JOBS = 20
JOBS_PER_SECOND_MIN = 50


def measure(rounds: int) -> Report:
    """Milliseconds of a job, jobs a second of several clients."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> Report:
    alone: list[float] = []
    rates: list[float] = []
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        folder = Path(scratch)
        settings = {
            "cluster.work-dir": str(folder / "work"),
            "taskmanager.numberOfTaskSlots": str(SLOTS),
            "taskmanager.task-process.spares": str(SLOTS),
        }
        job = empty_job(folder)
        async with MiniCluster(fs.Configuration(settings)) as cluster:
            for _ in range(WARM_UP_JOBS):
                await run(cluster, job)
            for _ in range(rounds):
                alone += [await run(cluster, job) for _ in range(JOBS)]
                started = time.perf_counter()
                async with asyncio.TaskGroup() as group:
                    for _ in range(CLIENTS):
                        group.create_task(_client(cluster, job))
                rates.append(CLIENTS * JOBS / (time.perf_counter() - started))
    series = (
        Series("an empty function", "ms", tuple(alone)),
        Series(f"empty functions of {CLIENTS} clients", "jobs/s", tuple(rates)),
    )
    return Report(
        case="functions",
        series=series,
        verdicts=(
            Verdict("an empty function, p50", series[0].median, "ms", at_most=FUNCTION_MS_MAX),
            Verdict("empty functions", series[1].median, "jobs/s", at_least=JOBS_PER_SECOND_MIN),
        ),
    )


async def _client(cluster: MiniCluster, job: BuiltJob) -> None:
    for _ in range(JOBS):
        await run(cluster, job)
