"""What a sink has staged is committed by the job that staged it, and nobody else's is taken for it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import firesteel as fs
from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.storage.sinks import commit_sink
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.adapters.storage.unremoved import note_unremoved, unremoved
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark


def write(local: InProcess, number: int, target: Path, mode: str) -> None:
    """In a job that always has the same id."""
    pipeline = fs.Pipeline("again")

    @pipeline.source
    def rows(spark: Any) -> Any:
        return spark.createDataFrame([(number,)], "n int")

    @pipeline.sink
    def result(rows: Any) -> None:
        fs.write_parquet(rows, str(target), mode=mode)

    for commit in local.run(pipeline, job_id="a" * 32):
        commit_sink(commit)


@pytest.mark.parametrize(("mode", "expected"), [("append", [1, 2]), ("overwrite", [2])])
def test_a_later_job_of_the_same_id_commits_its_own_rows(
    local: InProcess, tmp_path: Path, mode: str, expected: list[int]
) -> None:
    """Once the master has forgotten a job, its id may be given to a new one."""
    for number in (1, 2):
        write(local, number, tmp_path / "out", mode)
    assert sorted(row.n for row in local.spark.read.parquet(str(tmp_path / "out")).collect()) == expected


@pytest.mark.parametrize("rows", [0, 3])
def test_columns_of_partitions_are_told_once_and_with_their_types(local: InProcess, tmp_path: Path, rows: int) -> None:
    """Of rows their directories have the values; a result without any is a file that has every column."""
    pipeline = fs.Pipeline("days")

    @pipeline.source
    def days(spark: Any) -> Any:
        return spark.range(rows).selectExpr("date'2020-01-01' as day", "id", "cast(id as decimal(5,2)) as part")

    @pipeline.sink
    def result(days: Any) -> None:
        fs.write_parquet(days, str(tmp_path / "out"), partition_by=["part", "DAY"])

    (commit,) = local.run(pipeline)
    assert commit.columns == (("id", "bigint"), ("part", "decimal(5,2)"), ("DAY", "date"))


def test_who_stages_beside_what_nobody_needs_removes_it(
    local: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be removed when its job ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    left = tmp_path / STAGING_NAME / ("b" * 32) / "0-0" / "0"
    left.mkdir(parents=True)
    (left / "part-0.parquet").write_text("rows")
    note_unremoved(str(left), "it is read-only")
    write(local, 1, tmp_path / "out", "overwrite")
    assert unremoved() == []
    assert not (tmp_path / STAGING_NAME).exists()


def test_threads_of_a_sink_stage_as_the_sink_does(local: InProcess, tmp_path: Path) -> None:
    pipeline = fs.Pipeline("threads")

    @pipeline.source
    def rows(spark: Any) -> Any:
        return spark.range(90).selectExpr("id", "id % 9 as k")

    @pipeline.sink
    def result(rows: Any) -> None:
        with ThreadPoolExecutor(9) as pool:
            write = lambda k: fs.write_parquet(rows.where(f"k = {k}"), f"{tmp_path}/{k}", mode="append")  # noqa: E731
            list(pool.map(write, range(9)))

    commits = local.run(pipeline)
    assert not list(tmp_path.glob("?/*.parquet")), "rows are seen before they are committed"
    for commit in commits:
        commit_sink(commit)
    for k in range(9):
        found = local.spark.read.parquet(f"{tmp_path}/{k}").collect()
        assert sorted(row.id for row in found) == list(range(k, 90, 9))


def test_threads_of_a_sink_are_not_left_behind(local: InProcess, tmp_path: Path) -> None:
    """Nobody would commit what they write. One that begins when the function has returned is told so itself."""
    late: list[SinkRefused] = []
    begun, returned = threading.Event(), threading.Event()
    pipeline = fs.Pipeline("threads")

    @pipeline.source
    def rows(spark: Any) -> Any:
        return spark.range(3)

    @pipeline.sink
    def result(rows: Any, when: str) -> None:
        class Rows:
            """Rows of which nobody knows the columns before the function has returned."""

            sparkSession = rows.sparkSession

            @property
            def write(self) -> Any:
                begun.set()
                returned.wait()
                return rows.write

        def work() -> None:
            if when == "late":
                returned.wait()
            try:
                fs.write_parquet(Rows(), str(tmp_path / "out"))
            except SinkRefused as refused:
                late.append(refused)

        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()
        if when == "early":
            begun.wait()

    threads: list[threading.Thread] = []
    with pytest.raises(SinkRefused, match="result has returned while threads of it still write"):
        local.run(pipeline, parameters={"when": "early"})
    returned.set()
    threads[-1].join()
    returned.clear()
    assert local.run(pipeline, parameters={"when": "late"}) == ()
    returned.set()
    threads[-1].join()
    assert "the function that began it has returned" in str(late[-1])
    assert not list(tmp_path.glob("out/*"))
