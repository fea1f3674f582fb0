"""What a stream costs under firesteel beside the same query started by hand, on the same warm Spark.

Batches are small, so that what is not the query's own shows: the time from one batch to the next, and batches a second.
"""

import asyncio
import statistics
import tempfile
from asyncio.subprocess import Process
from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet

import firesteel as fs
from benchmarks.report import ROOT, Report, Series, Verdict
from benchmarks.warm import bare_client, run
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.pipeline.build import BuildRequest, BuiltJob, build_file

BATCHES, FIRST = 60, 10
"""Batches of a run, and how many of them are not counted."""
ROWS, KEYS = 2_000, 50
THROUGHPUT_MIN, LATENCY_MAX = 0.98, 1.05
PERCENTILE = 99
LIMIT_S = 300.0


def measure(rounds: int) -> Report:
    """Milliseconds from batch to batch, and batches a second; turn and turn about, after one round that is not counted."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> Report:
    sides: dict[str, list[list[float]]] = {"bare": [], "firesteel": []}
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        folder = Path(scratch)
        _write_input(folder / "input")
        job = _built(folder)
        settings = {"cluster.work-dir": str(folder / "work"), "spark.sql.shuffle.partitions": "2"}
        async with MiniCluster(fs.Configuration(settings)) as cluster:
            await run(cluster, job, notes=str(folder / "first"))
            async with bare_client(cluster, "benchmarks.barestream") as bare:
                for number in range(-1, rounds):
                    ours, theirs = folder / f"ours{number}", folder / f"bare{number}"
                    await _run_bare(bare, folder / "input", theirs)
                    await run(cluster, job, notes=str(ours))
                    if number >= 0:
                        sides["bare"].append(_intervals_ms(theirs))
                        sides["firesteel"].append(_intervals_ms(ours))
    return _report(sides)


def _report(sides: dict[str, list[list[float]]]) -> Report:
    series = []
    for side, runs in sides.items():
        together = [value for each in runs for value in each]
        series += [
            Series(f"{side}, batches a second", "1/s", tuple(1_000 / statistics.mean(each) for each in runs)),
            Series(f"{side}, batch to batch", "ms", tuple(together)),
        ]
    (bare_rate, bare_ms, our_rate, our_ms) = series
    last = [_percentile(each.values) for each in (bare_ms, our_ms)]
    return Report(
        case="streaming",
        series=tuple(series),
        verdicts=(
            Verdict("throughput / bare", our_rate.median / bare_rate.median, "", at_least=THROUGHPUT_MIN),
            Verdict("p50 / bare", our_ms.median / bare_ms.median, "", at_most=LATENCY_MAX),
            Verdict(f"p{PERCENTILE} / bare", last[1] / last[0], "", at_most=LATENCY_MAX),
        ),
    )


def _percentile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100)[PERCENTILE - 1]


def _intervals_ms(notes: Path) -> list[float]:
    times = [float(line) for line in notes.read_text().splitlines()]
    assert len(times) == BATCHES, "each batch was noted once"
    return [(later - earlier) * 1_000 for earlier, later in zip(times[FIRST:], times[FIRST + 1 :], strict=False)]


def _write_input(directory: Path) -> None:
    directory.mkdir()
    for batch in range(BATCHES):
        ids = range(batch * ROWS, (batch + 1) * ROWS)
        columns = {"id": ids, "k": [each % KEYS for each in ids], "v": [each % 97 for each in ids]}
        parquet.write_table(
            pyarrow.table({name: list(values) for name, values in columns.items()}), directory / f"{batch:03}.parquet"
        )


def _built(folder: Path) -> BuiltJob:
    (folder / "artifacts").mkdir()
    request = BuildRequest(
        file=str(ROOT / "benchmarks" / "streamjob.py"),
        job_id=JobID("0" * 32),
        parameters={"input": str(folder / "input"), "notes": "later"},
        configuration={"execution.streaming.trigger": "available-now"},
        output_dir=str(folder / "artifacts"),
    )
    return build_file(request)


async def _run_bare(bare: Process, source: Path, notes: Path) -> None:
    assert bare.stdin is not None
    assert bare.stdout is not None
    bare.stdin.write(f"{source}\t{notes}\t{notes}-checkpoint\n".encode())
    async with asyncio.timeout(LIMIT_S):
        await bare.stdout.readline()
