"""fs.stream_files in a job: an attempt that has written and failed is followed by one that replaces what is to be run again."""

import os
from pathlib import Path

import msgspec
import pyarrow.parquet
import pytest

from firesteel.model.states import JobStatus
from tests.integration.cluster.files import HEADER, Files

pytestmark = [pytest.mark.spark, pytest.mark.streams]
FAILS_ONCE = """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", 1).text(input)

@pipeline.sink
def result(lines: DataFrame, output: str, failed: str):
    @F.udf("string")
    def once(value):
        import pathlib
        if value == "c" and not pathlib.Path(failed).exists():
            pathlib.Path(failed).touch()
            raise ValueError("this once")
        return value

    return fs.stream_files(lines.select(once("value").alias("value")), output)
"""
NOW = {"execution.streaming.trigger": "available-now", "restart-strategy.type": "fixed-delay"}
NOW |= {"restart-strategy.fixed-delay.delay": "100 ms", "restart-strategy.fixed-delay.attempts": "3"}


def test_an_attempt_that_failed_leaves_no_row_twice(files: Files, tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for place, letter in enumerate("abcde"):
        (source / letter).write_text(f"{letter}\n")
        os.utime(source / letter, (1_000_000_000 + place, 1_000_000_000 + place))  # which is the order they are read in
    path = files.write("")
    path.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + FAILS_ONCE)
    parameters = {"input": str(source), "output": str(output), "failed": str(tmp_path / "failed")}
    result = files.do(files.run(path, parameters, NOW))
    assert result.status is JobStatus.FINISHED, result.failure
    assert (tmp_path / "failed").exists()
    read = pyarrow.parquet.read_table([str(file) for file in output.glob("batch-*.parquet")])
    assert sorted(read.column("value").to_pylist()) == list("abcde")
    owners = [msgspec.json.decode(file.read_bytes()) for file in sorted(output.glob("_firesteel/streams/*/owner.json"))]
    assert [owner["first_batch"] for owner in owners] == [0, 2]
    assert len({owner["query_id"] for owner in owners}) == 1
    assert owners[0]["query_id"]
    assert not list((output / ".firesteel-staging").iterdir())
