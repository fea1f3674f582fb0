"""The log of Spark's own file sink, in a savepoint and put back."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.streams.inheritance import keep, log_beside
from firesteel.adapters.spark.streams.snapshots import sinklogs
from firesteel.adapters.spark.streams.snapshots.errors import OutputRefused, SavepointDamaged
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import query_of, verify, write_savepoint
from firesteel.adapters.spark.streams.snapshots.sinklogs import put_back
from tests.adapters.snapshots.checkpoints import FakeCheckpoint, tree

HEADER = SavepointHeader(job_id="a" * 32, job_name="j", spark_version="4.3.0", created_ms=0)


class Output:
    """What Spark's file sink leaves: a file a batch, and a log that is compacted every third."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: list[str] = []
        (root / "_spark_metadata").mkdir(parents=True)

    def write(self, batch: int) -> None:
        data = self.root / f"part {batch}.parquet"
        data.write_text(f"rows of {batch}")
        self.entries.append(json.dumps({"path": data.as_uri(), "size": 1, "action": "add"}))
        compacted = (batch + 1) % 3 == 0
        lines = self.entries if compacted else self.entries[-1:]
        (self.root / f"_spark_metadata/{batch}{'.compact' * compacted}").write_text("\n".join(["v1", *lines]))


@pytest.fixture
def output(tmp_path: Path) -> Output:
    made = Output(tmp_path / "out")
    for batch in range(8):
        made.write(batch)
    return made


@pytest.fixture
def savepoint(tmp_path: Path, output: Output) -> str:
    query = FakeCheckpoint(tmp_path / "checkpoint").commit(7)  # the log of batch 7 is there, its commit is not yet
    path = str(tmp_path / "savepoint")
    write_savepoint(path, {"result": str(query.root)}, HEADER, outputs={"result": str(output.root)})
    return path


def saved_log(savepoint: str) -> Path:
    return Path(savepoint) / "queries/0-result/sink-log"


def log_of(root: Path) -> dict[str, bytes]:
    return tree(root / "_spark_metadata")


def test_the_log_up_to_the_batch_belongs_to_the_savepoint(savepoint: str) -> None:
    verify(savepoint)
    saved = sorted(path.name for path in (Path(savepoint) / "queries/0-result/sink-log").iterdir())
    assert saved == ["5.compact", "6"]


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(file.read_bytes()[:-20]), "is not what was written"),
        (lambda file: file.write_bytes(bytes(reversed(file.read_bytes()))), "is not what was written"),
    ],
)
def test_a_log_that_was_harmed_is_not_kept(
    savepoint: str, tmp_path: Path, harm: Callable[[Path], object], told: str
) -> None:
    """Rows that it does not name any more would be missing, and nobody would be told."""
    harm(saved_log(savepoint) / "5.compact")
    with pytest.raises(SavepointDamaged, match=rf"sink-log/5\.compact {told}"):
        keep(tmp_path / "job/result", savepoint)
    assert os.listdir(tmp_path / "job/result") == []


def test_what_lies_beside_a_log_is_not_kept(savepoint: str, tmp_path: Path) -> None:
    (saved_log(savepoint) / "7").write_text("v1")
    keep(tmp_path / "result", savepoint)
    assert sorted(path.name for path in log_beside(tmp_path / "result").iterdir()) == ["5.compact", "6"]


def test_in_the_same_output_the_log_is_what_it_was(savepoint: str, output: Output) -> None:
    before = tree(output.root)
    for batch in range(8, 13):
        output.write(batch)
    put_back(saved_log(savepoint), query_of(savepoint, "result"), str(output.root))
    assert log_of(output.root) == {name: before[f"_spark_metadata/{name}"] for name in ("5.compact", "6")}
    assert (output.root / "part 9.parquet").exists()
    assert not [name for name in os.listdir(output.root) if name.startswith(".")]


def test_files_that_are_gone_refuse_it(savepoint: str, output: Output) -> None:
    (output.root / "part 2.parquet").unlink()
    before = log_of(output.root)
    with pytest.raises(OutputRefused, match=r"of what its log held 1 file cannot be found, .*part 2\.parquet"):
        put_back(saved_log(savepoint), query_of(savepoint, "result"), str(output.root))
    assert log_of(output.root) == before


@pytest.mark.parametrize(
    ("interval", "log"),
    [(10, {"0", "1", "2", "3", "4", "5", "6"}), (7, {"6.compact"}), (3, {"5.compact", "6"}), (1, {"6.compact"})],
)
def test_a_new_output_begins_with_what_comes_after(
    savepoint: str, tmp_path: Path, interval: int, log: set[str]
) -> None:
    put_back(saved_log(savepoint), query_of(savepoint, "result"), str(tmp_path / "new"), compact_interval=interval)
    assert log_of(tmp_path / "new") == dict.fromkeys(log, b"v1")


def test_a_new_output_that_nobody_has_written_to_since_begins_again(savepoint: str, tmp_path: Path) -> None:
    """An attempt may end between that and its first batch, or be refused by Spark."""
    new = tmp_path / "new"
    for _ in range(2):
        put_back(saved_log(savepoint), query_of(savepoint, "result"), str(new))
    assert log_of(new) == {str(batch): b"v1" for batch in range(7)}
    (new / "_spark_metadata/7").write_text("v1")
    with pytest.raises(OutputRefused, match="of another query"):
        put_back(saved_log(savepoint), query_of(savepoint, "result"), str(new))


def test_the_output_of_another_query_is_refused(savepoint: str, tmp_path: Path) -> None:
    Output(tmp_path / "other").write(0)
    before = tree(tmp_path / "other")
    with pytest.raises(OutputRefused, match="of another query"):
        put_back(saved_log(savepoint), query_of(savepoint, "result"), str(tmp_path / "other"))
    assert tree(tmp_path / "other") == before


def test_a_log_that_is_not_there_is_told(tmp_path: Path, output: Output) -> None:
    query = FakeCheckpoint(tmp_path / "query").commit(5)
    with pytest.raises(OutputRefused, match="Spark's own file sink has never written there"):
        write_savepoint(str(tmp_path / "s"), {"r": str(query.root)}, HEADER, outputs={"r": str(tmp_path / "none")})
    (output.root / "_spark_metadata/3").unlink()
    with pytest.raises(OutputRefused, match="_spark_metadata/3"):
        write_savepoint(str(tmp_path / "s"), {"r": str(query.root)}, HEADER, outputs={"r": str(output.root)})
    assert not (tmp_path / "s").exists()


def test_a_log_that_is_compacted_meanwhile_is_taken_at_a_newer_batch(
    tmp_path: Path, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, path = FakeCheckpoint(tmp_path / "query").commit(5), str(tmp_path / "savepoint")
    take = sinklogs.take

    def overtaken(*given: Any) -> Any:
        if query.batch == 4:
            query.commit(2)
            (output.root / "_spark_metadata/2.compact").unlink()
        return take(*given)

    monkeypatch.setattr(sinklogs, "take", overtaken)
    made = write_savepoint(path, {"result": str(query.root)}, HEADER, outputs={"result": str(output.root)})
    assert made.queries[0].point.batch == 6
    verify(path)
    assert sorted(tree(Path(path) / "queries/0-result/sink-log")) == ["5.compact", "6"]
