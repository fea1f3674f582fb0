"""fs.fan_out without Spark: what each output has when writes fail at any place, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import firesteel as fs
from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.storage.batchclaims import Superseded
from firesteel.adapters.storage.batchfiles import BatchFiles


class Rows:
    """A batch, or the stream that it is of: as much of a DataFrame as is asked for."""

    isStreaming = True

    def __init__(self, values: list[int], kept: list[str] | None = None) -> None:
        self.values, self.kept = values, [] if kept is None else kept
        self.mode = self.format = ""
        self.batch_function: Callable[[Any, int], None] | None = None

    @property
    def write(self) -> "Writer":
        return Writer(self)

    @property
    def writeStream(self) -> "Rows":
        return self

    def outputMode(self, mode: str) -> "Rows":
        self.mode = mode
        return self

    def foreachBatch(self, function: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        return function

    def where(self, wanted: Callable[[int], bool]) -> "Rows":
        return Rows([each for each in self.values if wanted(each)], self.kept)

    def persist(self) -> None:
        self.kept.append("persisted")

    def unpersist(self) -> None:
        self.kept.append("released")


class Writer:
    """Writes a file of JSON, unless there is a negative number."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def mode(self, mode: str) -> "Writer":
        return self

    def format(self, format: str) -> "Writer":
        return self

    def options(self, **options: str) -> "Writer":
        return self

    def save(self, path: str) -> None:
        assert self.rows.kept[-1:] == ["persisted"]
        Path(path).mkdir(parents=True)
        (Path(path) / "part-0.json").write_text(json.dumps(self.rows.values))
        if min(self.rows.values, default=0) < 0:
            raise OSError("the disk is full")


def read(root: Path) -> list[int]:
    """What a reader of the directory sees."""
    return [number for file in sorted(root.glob("batch-*")) for number in json.loads(file.read_text())]


def test_each_output_has_its_rows_of_each_batch(tmp_path: Path) -> None:
    called: list[tuple[int, list[int]]] = []
    outputs: dict[str, Any] = {
        "all": fs.to_files(str(tmp_path / "all"), "json"),
        "odd": fs.to_files(str(tmp_path / "odd"), "json", rows=lambda batch: batch.where(lambda each: each % 2)),
        "shown": lambda batch, number: called.append((number, batch.values)),
    }
    write = fs.fan_out(Rows([]), outputs)
    for number, values in enumerate(([1, 2], [3, 4])):
        batch = Rows(values)
        write(batch, number)
        assert batch.kept == ["persisted", "released"]
    assert (read(tmp_path / "all"), read(tmp_path / "odd")) == ([1, 2, 3, 4], [1, 3])
    assert called == [(0, [1, 2]), (1, [3, 4])]


@pytest.mark.parametrize("broken", ["second", "function"])
def test_a_write_that_fails_leaves_no_output_ahead_of_the_others(tmp_path: Path, broken: str) -> None:
    fails = [True]

    def select(batch: Rows) -> Rows:
        return Rows([-1], batch.kept) if broken == "second" and fails else batch

    def call(batch: Rows, number: int) -> None:
        if broken == "function" and fails:
            raise OSError("nobody answers")

    outputs: dict[str, Any] = {
        "first": fs.to_files(str(tmp_path / "first"), "json"),
        "second": fs.to_files(str(tmp_path / "second"), "json", rows=select),
        "function": call,
    }
    write = fs.fan_out(Rows([]), outputs)
    batch = Rows([1])
    with pytest.raises(OSError, match=r"full|answers") as raised:
        write(batch, 0)
    assert raised.value.__notes__ == [f"(output '{broken}' of fs.fan_out)"]
    assert batch.kept == ["persisted", "released"]
    assert (read(tmp_path / "first"), read(tmp_path / "second")) == ([], [])
    fails.clear()
    write(Rows([1]), 0)
    assert (read(tmp_path / "first"), read(tmp_path / "second")) == ([1], [1])


def test_a_batch_that_was_given_to_the_first_only_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "first", tmp_path / "second"]
    commit = BatchFiles.commit

    def dies(output: BatchFiles, batch: int, staging: Path, planned: str) -> None:
        if output.root == places[1] and batch == 1:
            raise OSError("killed")
        commit(output, batch, staging, planned)

    def started() -> Any:
        return fs.fan_out(Rows([]), {each.name: fs.to_files(str(each), "json") for each in places})

    first = started()
    first(Rows([1]), 0)
    monkeypatch.setattr(BatchFiles, "commit", dies)
    with pytest.raises(OSError, match="killed"):
        first(Rows([2]), 1)
    assert [read(each) for each in places] == [[1, 2], [1]]
    monkeypatch.setattr(BatchFiles, "commit", commit)
    second = started()
    second(Rows([2]), 1)
    assert [read(each) for each in places] == [[1, 2], [1, 2]]
    with pytest.raises(Superseded):
        first(Rows([2]), 1)
    assert not [each for each in places if (each / ".firesteel-staging").exists()]


FILES = fs.to_files("out")


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({}, "outputs have names"),
        ([FILES], "outputs have names"),
        ({1: FILES}, "1 is no name of an output"),
        ({"a": "out"}, "output 'a' is a str, and must be made by fs.to_files"),
        ({"a": lambda batch: None}, "'a' is called with a batch's DataFrame and its number, and does not take them"),
        ({"a": FILES, "b": fs.to_files("./x/../out")}, "outputs 'a' and 'b' would both write to"),
        ({"a": fs.to_files("s3a://bucket/out")}, "to_files: s3a://bucket/out is no directory"),
    ],
)
def test_what_is_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outputs: dict[Any, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SinkRefused, match=words):
        fs.fan_out(Rows([]), outputs)
    assert not list(tmp_path.iterdir())


def test_arguments_are_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(SinkRefused, match="to_files: format='txt' is none of"):
        fs.to_files("out", "txt")
    with pytest.raises(SinkRefused, match="rows='x' must be a function of the batch"):
        fs.to_files("out", rows="x")  # type: ignore[arg-type]
    still = Rows([])
    still.isStreaming = False
    with pytest.raises(SinkRefused, match="these rows are none"):
        fs.fan_out(still, {"a": FILES})
    write = fs.fan_out(Rows([]), {"a": fs.to_files(str(tmp_path / "out"), rows=lambda batch: None)})
    with pytest.raises(TypeError, match="returned NoneType"):
        write(Rows([1]), 0)


def test_functions_that_tell_nothing_of_their_arguments_are_taken() -> None:
    fs.fan_out(Rows([]), {"a": max})
