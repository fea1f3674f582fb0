"""A plain word count script on a warm cluster: `firesteel run --master` against `spark-submit` of the same file.

Whole processes, from start to exit, in turn. Both write Parquet, which is compared; the texts are a folder of their own
in each round, so that nobody has a plan of before.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cold import BIN, timed, word_counts
from benchmarks.report import ROOT, Report, Series, Verdict
from benchmarks.texts import copy_a_few

SCRIPT = ROOT / "benchmarks" / "spark_wordcount.py"
WARM_UP_ROUNDS = 40
RATIO_MIN = 20
START_TIMEOUT_S = 300


def measure(rounds: int) -> Report:
    """Seconds for each side."""
    seconds: dict[str, list[float]] = {"spark-submit": [], "firesteel run --master": []}
    inside: list[float] = []
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as directory:
        scratch = Path(directory)
        # As in an activated virtual environment, on both sides.
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "PYSPARK_PYTHON": sys.executable, "XDG_STATE_HOME": str(scratch / "state")}
        (scratch / "code").mkdir()
        with session_cluster(scratch, environment) as master:
            script = Path(shutil.copy(SCRIPT, scratch / "code"))
            for number in range(-WARM_UP_ROUNDS, rounds):
                texts = copy_a_few(scratch / f"texts{number}")
                output = scratch / f"out{number}"
                elapsed = timed(firesteel_run(master, script, texts, output), environment)
                if number >= 0:
                    seconds["firesteel run --master"].append(elapsed)
                    inside.append(last_job_s(master, environment))
                    bare = scratch / f"bare{number}"
                    seconds["spark-submit"].append(timed(spark_submit(script, texts, bare), environment))
                    assert word_counts(output) == word_counts(bare), "the sides wrote different results"
    series = (
        *(Series(name, "s", tuple(values)) for name, values in seconds.items()),
        Series("of that, the job", "s", tuple(inside)),
    )
    return Report(
        case="script",
        series=series,
        verdicts=(
            Verdict("spark-submit / firesteel run", series[0].median / series[1].median, "×", at_least=RATIO_MIN),
        ),
    )


@contextmanager
def session_cluster(scratch: Path, environment: dict[str, str]) -> Iterator[str]:
    """A master and a worker in the background; gives HOST:PORT of the REST endpoint."""
    ports = ("-D", "jobmanager.rpc.port=0", "-D", "rest.port=0")
    command([str(BIN / "firesteel"), "cluster", "start", "--taskmanagers", "1", *ports], environment)
    try:
        records = json.loads((scratch / "state" / "firesteel" / "cluster" / "processes.json").read_text())
        yield str(records[0]["where"]).rpartition("//")[2]
    finally:
        command([str(BIN / "firesteel"), "cluster", "stop"], environment)


def last_job_s(master: str, environment: dict[str, str]) -> float:
    """Seconds from the newest job's submission to its end, as its master has them."""
    listed = command([str(BIN / "firesteel"), "list", "--all", "--json", "--master", master], environment)
    newest = json.loads(listed)[0]
    return float(newest["end_time_ms"] - newest["start_time_ms"]) / 1_000


def firesteel_run(master: str, script: Path, texts: Path, output: Path) -> list[str]:
    return [str(BIN / "firesteel"), "run", "--master", master, str(script), str(texts), str(output)]


def spark_submit(script: Path, texts: Path, output: Path) -> list[str]:
    """On a local Spark with as many cores as firesteel's worker takes."""
    return [str(BIN / "spark-submit"), "--master", f"local[{os.cpu_count()}]", str(script), str(texts), str(output)]


def command(words: list[str], environment: dict[str, str]) -> str:
    """What a command prints; one that fails stops the benchmark."""
    done = subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
