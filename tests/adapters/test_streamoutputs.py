"""Outputs of Spark's own file sink: no batch is left out for what another query has written there."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pyspark.sql.connect.proto import WriteStreamOperationStart

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.adapters.spark.streams.inheritance import keep
from firesteel.adapters.spark.streams.notes import note_output, output_of, sink_of
from firesteel.adapters.spark.streams.outputs import FileOutputs
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import write_savepoint
from firesteel.adapters.storage.batchclaims import Start, Superseded
from firesteel.adapters.storage.batchfiles import BatchFiles
from firesteel.model.branches import Branch
from firesteel.model.ids import JobID
from firesteel.model.streams import SPARK_FILES, STREAM_FILES, StreamOutput
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
def restored(tmp_path: Path, checkpoint: str) -> None:
    """From the savepoint of a query that had written batches 0 to 2 into `old`, and goes on there."""
    running = FakeCheckpoint(tmp_path / "running").commit(3)
    log(tmp_path / "old", 0, 1, 2)
    header = SavepointHeader(job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0)
    write_savepoint(
        str(tmp_path / "savepoint"), {"result": str(running.root)}, header, outputs={"result": str(tmp_path / "old")}
    )
    log(tmp_path / "old", 3, 4)
    keep(Path(checkpoint).parent, str(tmp_path / "savepoint"))


def test_a_new_output_is_claimed_once(tmp_path: Path, checkpoint: str) -> None:
    outputs = FileOutputs(absolute, StreamOutputs())
    outputs.claim("result", checkpoint, writer(path=tmp_path / "out"))
    assert output_of(Path(checkpoint).parent) == str(tmp_path / "out")
    log(tmp_path / "out", 0)
    outputs.claim("result", checkpoint, writer(path=tmp_path / "out"))  # the next attempt, which goes on with it


def test_the_output_of_another_query_is_refused(tmp_path: Path, checkpoint: str) -> None:
    log(tmp_path / "out", 0, 1)
    with pytest.raises(PipelineRefused, match="take the first batches of this one for written"):
        FileOutputs(absolute, StreamOutputs()).check("result", checkpoint, writer(path=tmp_path / "out"))
    assert output_of(Path(checkpoint).parent) is None


def test_other_sinks_have_no_log(tmp_path: Path, checkpoint: str) -> None:
    log(tmp_path / "out", 0)
    for other in (writer("delta", tmp_path / "out"), writer("console"), writer("", "")):
        FileOutputs(absolute, StreamOutputs()).claim("result", checkpoint, other)
    batches = writer("parquet", tmp_path / "out")
    batches._write_proto.foreach_batch.python_function.command = b"x"
    FileOutputs(absolute, StreamOutputs()).claim("result", checkpoint, batches)
    FileOutputs(absolute, StreamOutputs()).claim("result", checkpoint, writer("parquet", "s3a://bucket/out"))
    assert output_of(Path(checkpoint).parent) is None


def test_the_log_is_what_it_was_at_the_savepoint(tmp_path: Path, checkpoint: str, restored: None) -> None:
    FileOutputs(absolute, StreamOutputs()).claim("result", checkpoint, writer(path=tmp_path / "old"))
    assert sorted(path.name for path in (tmp_path / "old/_spark_metadata").iterdir()) == ["0", "1", "2"]


def test_a_new_output_begins_behind_the_savepoint(tmp_path: Path, checkpoint: str, restored: None) -> None:
    FileOutputs(absolute, StreamOutputs()).claim("result", checkpoint, writer(path=tmp_path / "new"))
    assert sorted(path.name for path in (tmp_path / "new/_spark_metadata").iterdir()) == ["0", "1", "2"]


def test_what_can_not_be_put_right_is_refused(tmp_path: Path, checkpoint: str, restored: None) -> None:
    log(tmp_path / "strange", 7)
    outputs = FileOutputs(absolute, StreamOutputs())
    with pytest.raises(PipelineRefused, match="of another query"):
        outputs.check("result", checkpoint, writer(path=tmp_path / "strange"))
    with pytest.raises(PipelineRefused, match="in directories only"):
        outputs.check("result", checkpoint, writer(path="s3a://bucket/out"))
    (tmp_path / "job/unknown/0").mkdir(parents=True)
    outputs.claim("unknown", str(tmp_path / "job/unknown/0"), writer(path=tmp_path / "begins anew"))
    assert not (tmp_path / "begins anew").exists()


def test_the_log_of_a_job_that_writes_is_not_taken_from_it(tmp_path: Path, checkpoint: str, restored: None) -> None:
    others = tmp_path / "running job" / "its sink"
    others.mkdir(parents=True)
    note_output(others, (tmp_path / "old").as_uri())
    outputs = FileOutputs(absolute, StreamOutputs())
    with pytest.raises(
        PipelineRefused, match="batches up to 4 were written there since, by sink its sink of job running"
    ):
        outputs.check("result", checkpoint, writer(path=tmp_path / "old"))
    outputs.check("result", checkpoint, writer(path=tmp_path / "new"))
    for name in ("3", "4"):
        (tmp_path / "old/_spark_metadata" / name).unlink()
    outputs.check("result", checkpoint, writer(path=tmp_path / "old"))  # it was stopped with that savepoint


def test_a_batch_that_the_query_did_not_write_is_not_left_out(tmp_path: Path, checkpoint: str) -> None:
    query = FakeCheckpoint(Path(checkpoint)).commit(3)
    note_output(query.root.parent, str(tmp_path / "out"))
    outputs = FileOutputs(absolute, StreamOutputs())
    log(tmp_path / "out", 0, 1, 2)
    outputs.check("result", checkpoint, writer(path=tmp_path / "out"))
    log(tmp_path / "out", 3)
    with pytest.raises(PipelineRefused, match="has batches up to 3, and this query has planned none after 2"):
        outputs.check("result", checkpoint, writer(path=tmp_path / "out"))
    query.plan(3)
    outputs.check("result", checkpoint, writer(path=tmp_path / "out"))


# ── fs.stream_files ──────────────────────────────────────────────────────────────────────────
def started(root: Path, attempt: int = 0) -> StreamOutputs:
    """Of a sink that was called."""
    outputs = StreamOutputs()
    outputs.take("result", StreamOutput(kind=STREAM_FILES, place=str(root)), [Start(root, "job", attempt)])
    return outputs


def written(root: Path, batches: int, query: str) -> BatchFiles:
    """What a query has written, which may go on with it."""
    running = BatchFiles.claim(root, "other job")
    for batch in range(batches):
        staging = running.begin(batch, query)
        staging.mkdir()
        running.commit(batch, staging)
    return running


def test_who_is_refused_leaves_the_one_that_writes_alone(tmp_path: Path, checkpoint: str) -> None:
    running = written(tmp_path / "out", 3, "theirs")
    outputs = FileOutputs(absolute, started(tmp_path / "out"))
    with pytest.raises(PipelineRefused, match="holds the batches of another query"):
        outputs.check("result", checkpoint, writer(path=tmp_path / "out"))
    running.begin(3, "theirs")


def test_a_query_without_the_batches_between_is_refused_before_it_starts(tmp_path: Path, checkpoint: str) -> None:
    query = FakeCheckpoint(Path(checkpoint)).commit(3)
    running = written(tmp_path / "out", 1, query.query_id)
    outputs = FileOutputs(absolute, started(tmp_path / "out"))
    with pytest.raises(PipelineRefused, match="holds batches up to 0, and the query goes on with 3"):
        outputs.check("result", checkpoint, writer())
    running.begin(1, query.query_id)


def test_the_one_that_writes_ends_when_all_may_start(tmp_path: Path, checkpoint: str) -> None:
    query = FakeCheckpoint(Path(checkpoint)).commit(3)
    zombie = written(tmp_path / "out", 4, query.query_id)
    known = started(tmp_path / "out", attempt=1)
    outputs = FileOutputs(absolute, known)
    outputs.check("result", checkpoint, writer())
    zombie.begin(4, query.query_id)
    outputs.claim("result", checkpoint, writer())
    with pytest.raises(Superseded, match="generation 2"):
        zombie.begin(4, query.query_id)
    BatchFiles.of(known.starts["result"][0]).begin(3, query.query_id)  # in the process that writes


def test_an_output_that_is_gone_is_not_begun_anew(tmp_path: Path, checkpoint: str) -> None:
    root, first = tmp_path / "out", Path(checkpoint)
    FakeCheckpoint(first).commit(3)  # it starts from a savepoint, into a new directory
    for attempt in range(3):
        outputs = FileOutputs(absolute, started(root, attempt=attempt))
        outputs.check("result", checkpoint, writer())
        outputs.claim("result", checkpoint, writer())
        shutil.rmtree(root)  # which has nothing yet
    second = first.with_name("1")
    FakeCheckpoint(second).commit(4)
    with pytest.raises(PipelineRefused, match=r"out was deleted while the query ran.* batches up to 3 are gone"):
        FileOutputs(absolute, started(root, attempt=3)).check("result", str(second), writer())
    FileOutputs(absolute, started(tmp_path / "other", attempt=3)).check("result", str(second), writer())


def test_an_output_that_had_batches_before_is_missed_at_once(tmp_path: Path, checkpoint: str) -> None:
    query = FakeCheckpoint(Path(checkpoint)).commit(3)
    written(tmp_path / "out", 3, query.query_id)
    FileOutputs(absolute, started(tmp_path / "out")).claim("result", checkpoint, writer())
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(PipelineRefused, match="batches up to 2 are gone"):
        FileOutputs(absolute, started(tmp_path / "out", attempt=1)).check("result", checkpoint, writer())


def test_two_sinks_have_an_output_each(tmp_path: Path) -> None:
    outputs = started(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for there in (StreamOutput(kind=STREAM_FILES, place=str(tmp_path / "link")), StreamOutput(kind=SPARK_FILES)):
        outputs.take("elsewhere", StreamOutput(kind=STREAM_FILES, place=str(tmp_path / "out/elsewhere")))
        with pytest.raises(PipelineRefused, match="sinks other and result would both write to"):
            outputs.take("other", msgspec.structs.replace(there, place=str(tmp_path / "link")))


def test_so_have_two_that_different_workers_run(tmp_path: Path, checkpoint: str) -> None:
    theirs = tmp_path / "job" / "another" / "0"
    theirs.mkdir(parents=True)
    FileOutputs(absolute, StreamOutputs()).note("another", str(theirs), writer(path=tmp_path / "out"))
    ours = SimpleNamespace(_write_proto=WriteStreamOperationStart())
    with pytest.raises(PipelineRefused, match="sinks another and result would both write to"):
        FileOutputs(absolute, started(tmp_path / "out")).note("result", checkpoint, ours)


def test_files_beside_the_queries_are_no_queries(tmp_path: Path, checkpoint: str) -> None:
    """A former job of the id may have left a mark that its checkpoints stay."""
    (tmp_path / "job" / ".kept").touch()
    FileOutputs(absolute, StreamOutputs()).note("result", checkpoint, writer(path=tmp_path / "out"))
    assert sink_of(Path(checkpoint).parent) is not None


@pytest.mark.parametrize(
    ("branch", "cleans", "is_refused"),
    [
        (Branch(of=JobID("a" * 32)), "DELETE", True),
        (Branch(of=JobID("a" * 32)), "off", False),
        (Branch(of=JobID("a" * 32), promoted=True), "delete", False),
        (None, "delete", False),
    ],
)
def test_a_branch_takes_no_files_away(
    checkpoint: str, monkeypatch: pytest.MonkeyPatch, branch: Branch | None, cleans: str, is_refused: bool
) -> None:
    monkeypatch.setattr(internals, "streams_read", lambda _: [("json", ["/in"], {"cleanSource": cleans})])
    outputs = FileOutputs(absolute, StreamOutputs(branch))
    if is_refused:
        with pytest.raises(PipelineRefused, match=r"reads /in with cleanSource=delete, .* files that job a+,"):
            outputs.note("result", checkpoint, writer("noop"))
    else:
        outputs.note("result", checkpoint, writer("noop"))
        assert sink_of(Path(checkpoint).parent) == StreamOutput(kind="noop", mode="append")


@pytest.mark.parametrize(("told", "name"), [({"options": {"sep": ";"}}, "option"), ({"format": "json"}, "format")])
def test_what_does_nothing_on_a_writer_of_ours_is_refused(
    tmp_path: Path, checkpoint: str, told: dict[str, Any], name: str
) -> None:
    known = StreamOutputs()
    known.take("result", StreamOutput(kind=STREAM_FILES, place=str(tmp_path / "out"), format="csv"))
    ours = SimpleNamespace(_write_proto=WriteStreamOperationStart(**told))
    ours._write_proto.foreach_batch.python_function.command = b"x"
    with pytest.raises(PipelineRefused, match=rf"{name}\(...\) of a writer that fs.stream_files"):
        FileOutputs(absolute, known).note("result", checkpoint, ours)


def test_a_writer_with_foreach_batch_has_no_partitions(checkpoint: str) -> None:
    theirs = SimpleNamespace(_write_proto=WriteStreamOperationStart(partitioning_column_names=["day"]))
    theirs._write_proto.foreach_batch.python_function.command = b"x"
    with pytest.raises(PipelineRefused, match=r"sink result: a writer with foreachBatch has no partitionBy"):
        FileOutputs(absolute, StreamOutputs()).note("result", checkpoint, theirs)
