"""A word count from nothing: `firesteel run` against `spark-submit`, whole processes.

First time: the cache directory is empty, as after installing. Later: the JVM's class-data archive is
there, which a process of low priority makes after the first run; it is waited for, and what it costs is
reported. All sides write the same Parquet, which is compared.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset

from benchmarks.report import ROOT, Report, Series, Verdict
from benchmarks.texts import copy_standard_library

BIN = Path(sys.executable).parent
FIRST = "firesteel run, first"
RATIO_MAX = 0.6
TIMEOUT_S = 180
ARCHIVE_TIMEOUT_S = 240


def measure(rounds: int) -> Report:
    """Seconds for each side; every round runs all sides, on fresh directories."""
    seconds: dict[str, list[float]] = {"spark-submit": [], FIRST: [], "firesteel run, later": []}
    archiving: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
            archiving.append(one_round(Path(scratch), seconds))
    series = tuple(Series(name, "s", tuple(values)) for name, values in seconds.items())
    spark, first, later = (each.median for each in series)
    series += (Series("archive ready after the first", "s", tuple(archiving)),)
    return Report(
        case="cold",
        series=series,
        verdicts=(
            Verdict("later / spark-submit", later / spark, "ratio", at_most=RATIO_MAX),
            Verdict("first / spark-submit", first / spark, "ratio"),
        ),
    )


def one_round(scratch: Path, seconds: dict[str, list[float]]) -> float:
    """Run each side once and see that they wrote the same; returns how long the archive took after the first."""
    # As in an activated virtual environment, on both sides.
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "PYSPARK_PYTHON": sys.executable, "XDG_CACHE_HOME": str(scratch / "cache")}
    outputs = {name: scratch / f"out-{index}" for index, name in enumerate(seconds)}
    archiving = 0.0
    texts = copy_standard_library(scratch / "texts")
    for name, output in outputs.items():
        command = spark_submit(texts, output) if name == "spark-submit" else firesteel_run(texts, output)
        seconds[name].append(timed(command, environment))
        if name == FIRST:
            archiving = until_archived(scratch / "cache")
    counts = {name: word_counts(output) for name, output in outputs.items()}
    assert all(count == counts["spark-submit"] for count in counts.values()), "the sides wrote different results"
    return archiving


def until_archived(cache: Path) -> float:
    """Seconds until the class-data archive is there."""
    started = time.perf_counter()
    while not list(cache.rglob("*.jsa")):
        if time.perf_counter() - started > ARCHIVE_TIMEOUT_S:
            raise RuntimeError("no class-data archive was made after the first run")
        time.sleep(0.2)
    return time.perf_counter() - started


def spark_submit(texts: Path, output: Path) -> list[str]:
    """The bare script on a local Spark with as many cores as firesteel's worker takes."""
    script = ROOT / "benchmarks" / "spark_wordcount.py"
    return [str(BIN / "spark-submit"), "--master", f"local[{os.cpu_count()}]", str(script), str(texts), str(output)]


def firesteel_run(texts: Path, output: Path) -> list[str]:
    """The same as a pipeline on a mini cluster."""
    parameters = ("--param", f"input={texts}", "--param", f"output={output}")
    return [str(BIN / "firesteel"), "run", str(ROOT / "examples" / "wordcount.py"), *parameters]


def timed(command: Sequence[str], environment: dict[str, str]) -> float:
    """Seconds from start to exit. A command that fails stops the benchmark with what it printed."""
    started = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    elapsed = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return elapsed


def word_counts(output: Path) -> dict[str, int]:
    """What was written."""
    table = pyarrow.dataset.dataset(output, format="parquet").to_table().to_pydict()
    return dict(zip(table["word"], table["count"], strict=True))
