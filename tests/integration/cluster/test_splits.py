"""Sources that draw input splits, on a mini cluster with a real Spark: each split is read once, whatever dies."""

from pathlib import Path

import pytest

from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_jobs import rows_of

pytestmark = pytest.mark.spark

BODY = """
import os, signal

@pipeline.source(parallelism=2, splits=fs.range_splits("n", 0, fs.param("upto"), 40))
def numbers(spark: SparkSession, splits: fs.RangeSplits, context, scratch: str) -> DataFrame:
    mine = os.path.join(scratch, f"{context.subtask}-{context.attempt}")
    with open(mine, "a+") as draws:
        draws.write("draw\\n")
        draws.seek(0)
        count = len(draws.readlines())
    if count == 2:
        try:
            os.close(os.open(os.path.join(scratch, "killed"), os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    return splits.read(spark)

@pipeline.transform(parallelism=2, inputs={"numbers": fs.forward()})
def doubled(numbers: DataFrame) -> DataFrame:
    return numbers.select((F.col("n") * 2).alias("n"))

@pipeline.sink
def result(doubled: DataFrame, output: str) -> None:
    fs.write_parquet(doubled, output)
"""


def test_a_task_process_that_is_killed_between_two_draws_costs_no_row(files: Files, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    parameters = {"upto": "1000", "scratch": str(scratch), "output": str(tmp_path / "out")}
    configuration = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"}
    done = files.do(files.run(files.write(BODY), parameters, configuration))
    assert done.status is JobStatus.FINISHED, done
    assert done.restarts == 1
    assert (scratch / "killed").exists(), "nobody was killed"
    assert sorted(row["n"] for row in rows_of(tmp_path / "out")) == [2 * n for n in range(1_000)]
