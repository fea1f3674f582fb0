"""The first job of a worker that has had time to warm its Spark up, beside one that it has run often.

Each round has a cluster of its own. The first job is a word count with nothing run before it; the later one is the median of some
that follow more than as many again.
"""

import asyncio
import statistics
import tempfile
from pathlib import Path

import firesteel as fs
from benchmarks.report import Report, Series, Verdict
from benchmarks.texts import copy_a_few
from benchmarks.warm import WARM_UP_ROUNDS, fresh_copy, run, word_count
from firesteel.minicluster import MiniCluster

REST_S = 30
RATIO_MAX = 1.5
LATER_ROUNDS = 5


def measure(rounds: int) -> Report:
    """Milliseconds from submission to the result."""
    first, later = zip(*(asyncio.run(_round()) for _ in range(rounds)), strict=True)
    ratios = tuple(mine / other for mine, other in zip(first, later, strict=True))
    series = (
        Series(f"first job, {REST_S} s after its worker", "ms", first),
        Series("later job", "ms", later),
        Series("first / later", "ratio", ratios),
    )
    return Report(
        case="rested",
        series=series,
        verdicts=(Verdict("first / later", statistics.median(ratios), "ratio", at_most=RATIO_MAX),),
    )


async def _round() -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        folder = Path(scratch)
        texts = copy_a_few(folder / "texts")
        job = word_count(folder, texts)
        # A worker's default is none of a mini cluster's, most of which are gone after one job.
        options = {"cluster.work-dir": str(folder / "work"), "taskmanager.spark.warm-up": "true"}
        async with MiniCluster(fs.Configuration(options)) as cluster:
            await asyncio.sleep(REST_S)
            first, *rest = [
                await run(cluster, job, input=fresh_copy(texts), output=str(folder / f"job{number}"))
                for number in range(1 + WARM_UP_ROUNDS + LATER_ROUNDS)
            ]
    return first, statistics.median(rest[WARM_UP_ROUNDS:])
