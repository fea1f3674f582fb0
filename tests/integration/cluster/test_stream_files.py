"""fs.stream_files in a job: an attempt that has written and failed is followed by one that leaves what is whole, and writes the rest."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow.parquet
import pytest

from firesteel.model.failures import FailureKind
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from tests.integration.cluster.files import HEADER, Files
from tests.integration.cluster.test_streams import until

pytestmark = [pytest.mark.spark, pytest.mark.streams]
LINES = """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", 1).text(input)

"""
FAILS_ONCE = (
    LINES
    + """@pipeline.sink
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
)
SHOWN_AND_FAILED = (
    LINES
    + """@pipeline.sink
def result(lines: DataFrame, output: str, failed: str):
    import pathlib
    from firesteel.adapters.spark.sinks.streamfiles import FilesWriter, checked_files, take

    files = FilesWriter.of(checked_files("stream_files", output, "parquet", (), {}))
    take(files.output, [files.start])

    def shows(rows, batch):
        files(rows, batch)
        if batch == 2 and not pathlib.Path(failed).exists():
            pathlib.Path(failed).write_text("\\n".join(each.name for each in pathlib.Path(output).glob("batch-*")))
            raise ValueError("this once, before Spark has heard of it")

    return lines.dropDuplicates(["value"]).writeStream.outputMode("append").foreachBatch(shows)
"""
)
NOW = {"execution.streaming.trigger": "available-now", "restart-strategy.type": "fixed-delay"}
NOW |= {"restart-strategy.fixed-delay.delay": "100 ms", "restart-strategy.fixed-delay.attempts": "3"}


def ran(
    files: Files, directory: Path, body: str, letters: str = "abcde", settings: Mapping[str, str] = NOW
) -> JobResult:
    """The pipeline reads files with a letter each from `in`, a batch each, and writes `output`."""
    (directory / "in").mkdir(exist_ok=True)
    for place, letter in enumerate(letters):
        file = directory / "in" / str(place)
        file.write_text(f"{letter}\n")
        os.utime(file, (1_000_000_000 + place, 1_000_000_000 + place))  # which is the order they are read in
    path = files.write("")
    path.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + body)
    parameters = {name: str(directory / name) for name in ("output", "failed")} | {"input": str(directory / "in")}
    result: JobResult = files.do(files.run(path, parameters, settings))
    return result


def test_an_attempt_that_failed_leaves_no_row_twice(files: Files, tmp_path: Path) -> None:
    result, output = ran(files, tmp_path, FAILS_ONCE), tmp_path / "output"
    assert result.status is JobStatus.FINISHED, result.failure
    assert (tmp_path / "failed").exists()
    read = pyarrow.parquet.read_table([str(file) for file in output.glob("batch-*.parquet")])
    assert sorted(read.column("value").to_pylist()) == list("abcde")
    owners = [msgspec.json.decode(file.read_bytes()) for file in sorted(output.glob("_firesteel/streams/*/owner.json"))]
    assert [owner["first_batch"] for owner in owners] == [0, 2]
    assert len({owner["query_id"] for owner in owners}) == 1
    assert owners[0]["query_id"]
    assert not (output / ".firesteel-staging").exists()


def test_files_that_were_shown_keep_their_names_and_the_query_its_state(files: Files, tmp_path: Path) -> None:
    result = ran(files, tmp_path, SHOWN_AND_FAILED, "abcdec")
    assert (result.status, result.restarts) == (JobStatus.FINISHED, 1), result.failure
    assert_all_shown_stays(tmp_path)


def test_so_they_do_where_another_job_goes_on(files: Files, tmp_path: Path) -> None:
    settings = {"execution.checkpointing.dir": str(tmp_path / "shared"), "restart-strategy.type": "none"}
    failed = ran(files, tmp_path, SHOWN_AND_FAILED, "abcdec", settings)
    assert failed.status is JobStatus.FAILED
    files.do(until(Path(failed.retained).exists, "what stays of it is not made"))
    result = ran(files, tmp_path, SHOWN_AND_FAILED, "abcdec", NOW | {"execution.state-recovery.path": failed.retained})
    assert result.status is JobStatus.FINISHED, result.failure
    assert_all_shown_stays(tmp_path)


def assert_all_shown_stays(directory: Path) -> None:
    shown = (directory / "failed").read_text().split("\n")
    written = {file.name for file in (directory / "output").glob("batch-*.parquet")}
    assert any(name.startswith("batch-00000002-1-") for name in shown)
    assert written >= set(shown)
    read = pyarrow.parquet.read_table([str(directory / "output" / name) for name in written])
    assert sorted(read.column("value").to_pylist()) == list("abcde"), "the last file has a letter that was seen"


def test_an_output_that_is_deleted_while_the_query_runs_is_told(files: Files, tmp_path: Path) -> None:
    """Going on in an empty directory would leave it without the batches that it had."""
    deletes = FAILS_ONCE.replace(
        "            pathlib.Path(failed).touch()\n",
        "            pathlib.Path(failed).touch()\n            __import__('shutil').rmtree(output)\n",
    )
    result, output = ran(files, tmp_path, deletes), tmp_path / "output"
    assert (result.status, result.restarts) == (JobStatus.FAILED, 1)
    assert result.failure is not None
    assert result.failure.message == (
        f"sink result: the output {output} was deleted while the query ran, or this worker has another directory by that"
        " name: its batches up to 1 are gone; put it back and start from the job's last checkpoint (--from-savepoint), or"
        " submit the job anew"
    )
    assert not output.exists(), "nothing was begun there"


def test_checkpoints_of_ones_own_are_refused(files: Files, tmp_path: Path) -> None:
    """They would not be used, and a job that is run each day would write all rows again."""
    own = FAILS_ONCE.replace(", output)\n", ", output).option('CheckpointLocation', output + '/own')\n")
    failure = ran(files, tmp_path, own).failure
    assert failure is not None
    assert failure.kind is FailureKind.NON_RECOVERABLE
    assert "sink result sets checkpointLocation, and firesteel keeps the checkpoints" in failure.message
    assert not list(tmp_path.glob("output/batch-*"))
