"""Tasks per second through the control plane alone: built-in no-ops, which the worker finishes itself."""

import asyncio
import tempfile
import uuid
from pathlib import Path

import firesteel as fs
from benchmarks.report import Report, Series, Verdict
from benchmarks.warm import run
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.pipeline.build import BuiltJob

TASKS = 10_000
SLOTS = 64
TASKS_PER_SECOND_MIN = 5_000
SETTLE_S = 15
"""A Spark backend starts beside the cluster; it is left to finish before anything is measured."""


def measure(rounds: int) -> Report:
    """Tasks per second of whole jobs of TASKS tasks, and milliseconds of a job of one."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> Report:
    rates: list[float] = []
    singles: list[float] = []
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        folder = Path(scratch)
        many, one = no_ops(folder, TASKS), no_ops(folder, 1)
        settings = {"cluster.work-dir": str(folder / "work"), "taskmanager.numberOfTaskSlots": str(SLOTS)}
        async with MiniCluster(fs.Configuration(settings)) as cluster:
            await asyncio.sleep(SETTLE_S)
            await run(cluster, one)
            for _ in range(rounds):
                rates.append(TASKS / (await run(cluster, many)) * 1_000)
                singles += [await run(cluster, one) for _ in range(10)]
    series = (
        Series(f"{TASKS:,} no-ops in {SLOTS} slots", "tasks/s", tuple(rates)),
        Series("a job of one no-op", "ms", tuple(singles)),
    )
    return Report(
        case="tasks",
        series=series,
        verdicts=(Verdict("no-ops", series[0].median, "tasks/s", at_least=TASKS_PER_SECOND_MIN),),
    )


def no_ops(folder: Path, parallelism: int) -> BuiltJob:
    """A job of that many tasks that do nothing."""
    pipeline = fs.Pipeline("no-ops")
    pipeline.add(fs.noop("nothing", parallelism=parallelism))
    artifacts = folder / f"no-ops-{parallelism}"
    artifacts.mkdir()
    return fs.build_job(pipeline, job_id=JobID(uuid.uuid4().hex), output_dir=artifacts)
