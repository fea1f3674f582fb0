"""Outputs of Spark's own file sink: no batch is left out for what another query has written there."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.proto import WriteStreamOperationStart

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.adapters.spark.streams.checkpoints import output_of
from firesteel.adapters.spark.streams.outputs import FileOutputs
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import write_savepoint
from tests.adapters.snapshots.checkpoints import FakeCheckpoint


def writer(name: str = "parquet", path: object = "", **more: Any) -> Any:
    """What a sink returns, as far as it matters here."""
    return SimpleNamespace(_write_proto=WriteStreamOperationStart(format=name, options={"path": str(path)}, **more))


def absolute(path: str) -> str:
    return path


def log(output: Path, *batches: int) -> Path:
    """Write the log of a file sink that has written these."""
    found = output / "_spark_metadata"
    found.mkdir(parents=True, exist_ok=True)
    for batch in batches:
        (found / str(batch)).write_text("v1")
    return found


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    made = tmp_path / "job" / "result" / "0"
    made.mkdir(parents=True)
    return str(made)


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """Of a query that has written batches 0 to 2 into `old`, and goes on."""
    running = FakeCheckpoint(tmp_path / "running").commit(3)
    log(tmp_path / "old", 0, 1, 2)
    header = SavepointHeader(job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0)
    write_savepoint(
        str(tmp_path / "savepoint"), {"result": str(running.root)}, header, outputs={"result": str(tmp_path / "old")}
    )
    log(tmp_path / "old", 3, 4)
    return tmp_path / "savepoint"


def test_a_new_output_is_claimed_once(tmp_path: Path, checkpoint: str) -> None:
    outputs = FileOutputs("", absolute, StreamOutputs())
    outputs.claim("result", checkpoint, writer(path=tmp_path / "out"))
    assert output_of(Path(checkpoint).parent) == str(tmp_path / "out")
    log(tmp_path / "out", 0)
    outputs.claim("result", checkpoint, writer(path=tmp_path / "out"))  # the next attempt, which goes on with it


def test_the_output_of_another_query_is_refused(tmp_path: Path, checkpoint: str) -> None:
    log(tmp_path / "out", 0, 1)
    with pytest.raises(PipelineRefused, match="take the first batches of this one for written"):
        FileOutputs("", absolute, StreamOutputs()).claim("result", checkpoint, writer(path=tmp_path / "out"))
    assert output_of(Path(checkpoint).parent) is None


def test_other_sinks_have_no_log(tmp_path: Path, checkpoint: str) -> None:
    log(tmp_path / "out", 0)
    for other in (writer("delta", tmp_path / "out"), writer("console"), writer("", "")):
        FileOutputs("", absolute, StreamOutputs()).claim("result", checkpoint, other)
    batches = writer("parquet", tmp_path / "out")
    batches._write_proto.foreach_batch.python_function.command = b"x"
    FileOutputs("", absolute, StreamOutputs()).claim("result", checkpoint, batches)
    FileOutputs("", absolute, StreamOutputs()).claim("result", checkpoint, writer("parquet", "s3a://bucket/out"))
    assert output_of(Path(checkpoint).parent) is None


def test_the_log_is_what_it_was_at_the_savepoint(tmp_path: Path, checkpoint: str, savepoint: Path) -> None:
    FileOutputs(str(savepoint), absolute, StreamOutputs()).claim("result", checkpoint, writer(path=tmp_path / "old"))
    assert sorted(path.name for path in (tmp_path / "old/_spark_metadata").iterdir()) == ["0", "1", "2"]


def test_a_new_output_begins_behind_the_savepoint(tmp_path: Path, checkpoint: str, savepoint: Path) -> None:
    FileOutputs(str(savepoint), absolute, StreamOutputs()).claim("result", checkpoint, writer(path=tmp_path / "new"))
    assert sorted(path.name for path in (tmp_path / "new/_spark_metadata").iterdir()) == ["0", "1", "2"]


def test_what_can_not_be_put_right_is_refused(tmp_path: Path, checkpoint: str, savepoint: Path) -> None:
    log(tmp_path / "strange", 7)
    outputs = FileOutputs(str(savepoint), absolute, StreamOutputs())
    with pytest.raises(PipelineRefused, match="of another query"):
        outputs.claim("result", checkpoint, writer(path=tmp_path / "strange"))
    with pytest.raises(PipelineRefused, match="in directories only"):
        outputs.claim("result", checkpoint, writer(path="s3a://bucket/out"))
    outputs.claim("unknown", checkpoint, writer(path=tmp_path / "begins anew"))
    assert not (tmp_path / "begins anew").exists()
