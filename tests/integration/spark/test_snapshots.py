"""Copies of committed points of running queries: Spark goes on from each of them, and ends as if nothing had happened.

`FIRESTEEL_TEST_ALL_STATES=1` tries every state store and format with 20 copies each; without it two of them with few.
"""

import contextlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import firesteel as fs
from firesteel.adapters.spark.streams.checkpoints import CheckpointDirectories
from firesteel.adapters.spark.streams.snapshots.errors import OutputRefused
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.points import copy_point, last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import query_of, restore, seal, verify, write_savepoint
from firesteel.adapters.spark.streams.snapshots.sinklogs import SINK_LOG, put_back
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import CHECKPOINTS_DIR, Configuration
from tests.adapters.test_checkpoints import STREAM, deployed
from tests.connectmode import connect_mode
from tests.integration.spark.streamqueries import (
    VARIANTS,
    Sessions,
    Variant,
    counted,
    expected,
    finished,
    joined,
    joined_rows,
    recorded,
    remembered,
    remembered_state,
    run_to_the_end,
    running,
    wait_for_batch,
    write_files,
)

pytestmark = [pytest.mark.spark, pytest.mark.streams]
ALL = os.environ.get("FIRESTEEL_TEST_ALL_STATES") == "1"
COPIES = int(os.environ.get("FIRESTEEL_TEST_COPIES", "20" if ALL else "3"))
FILES = 150
RECORD = os.environ.get("FIRESTEEL_TEST_RECORD_POINTS", "")
"""A directory in which the golden files of tests/adapters/snapshots are written anew."""
HEADER = SavepointHeader(job_id="0" * 32, job_name="test", spark_version="4.3.0", created_ms=0)


@pytest.fixture(scope="module")
def sessions(backend: SparkTaskBackend, do: Callable[[Any], Any]) -> Iterator[Sessions]:
    with connect_mode(), contextlib.closing(Sessions(backend, do)) as made:
        yield made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("source"), FILES)


def record(checkpoint: Path, name: str) -> None:
    """What a checkpoint that rests consists of, and what its logs say: for the pure tests of the files of a point."""
    if RECORD:
        Path(RECORD, f"{name}.json").write_text(json.dumps(recorded(checkpoint), indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("retention", [2, 100] if ALL else [2])
@pytest.mark.parametrize("variant", VARIANTS if ALL else [VARIANTS[0], VARIANTS[-1]], ids=str)
def test_spark_goes_on_from_every_copy(
    sessions: Sessions, source: Path, tmp_path: Path, variant: Variant, retention: int
) -> None:
    spark = sessions.open(variant.settings, retention)
    checkpoint = tmp_path / "checkpoint"
    copies = []
    with running(counted(spark, source, 1), checkpoint) as query:
        batch = 0
        for number in range(COPIES):
            batch = wait_for_batch(query, checkpoint, batch + (1 if number % 3 else 7))
            made = copy_point(str(checkpoint), str(tmp_path / f"copy-{number}"), link=number % 2 == 0)
            assert made.point.batch >= batch
            assert (made.linked > 0) == (number % 2 == 0)
            copies.append(made)
            batch = made.point.batch
    record(checkpoint, f"{variant}-{retention}")
    whole = expected(source)
    for made in copies:
        assert finished(spark, counted(spark, source, 1000), Path(made.directory)) == whole, made
        assert (Path(made.directory) / f"commits/{made.point.batch + 1}").exists()


def test_a_query_goes_on_from_a_copy_of_a_copy_of_its_log(sessions: Sessions, tmp_path: Path) -> None:
    """Of the first one Spark compacts every 20 batches, since of its compactions the copy has one; that of the second would be
    looked for where none is."""
    spark = sessions.open(VARIANTS[0].settings)
    source, home = tmp_path / "source", tmp_path / "copy-0"
    for number, files in enumerate((24, 54, 57)):
        write_files(source, files)
        rows = spark.readStream.schema("id long, k string, v long").option("maxFilesPerTrigger", 1).json(str(source))
        run_to_the_end(rows, home, "noop")
        assert last_committed(str(home)) == files - 1
        former, home = home, tmp_path / f"copy-{number + 1}"
        copy_point(str(former), str(home))


def test_a_savepoint_of_two_queries_moves(sessions: Sessions, source: Path, tmp_path: Path) -> None:
    spark = sessions.open(VARIANTS[-1].settings, retention=2)
    first, second, savepoint = tmp_path / "first", tmp_path / "second", tmp_path / "savepoint"
    with running(counted(spark, source, 1), first) as query, running(counted(spark, source, 2), second) as other:
        wait_for_batch(query, first, 5)
        wait_for_batch(other, second, 5)
        write_savepoint(str(savepoint), {"a": str(first), "b": str(second)}, HEADER)
    assert seal(str(savepoint)).is_sealed
    for path in (first, second):
        shutil.rmtree(path)
    shutil.move(savepoint, tmp_path / "moved")
    verify(str(tmp_path / "moved"))
    for uid in "ab":
        restore(str(tmp_path / "moved"), uid, str(tmp_path / uid), link=uid == "a")
        assert finished(spark, counted(spark, source, 1000), tmp_path / uid) == expected(source)


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[-1]] if ALL else [VARIANTS[0]], ids=str)
def test_sparks_file_sink_goes_on_from_an_older_point(sessions: Sessions, tmp_path: Path, variant: Variant) -> None:
    """Into the same output with other batches, and into a new one; past compactions of the log in both."""
    spark = sessions.open(variant.settings)
    source = write_files(tmp_path / "source", 30)
    checkpoint, output, savepoint = tmp_path / "checkpoint", tmp_path / "out", tmp_path / "savepoint"
    with running(joined(spark, source, 1), checkpoint, output=output) as query:
        wait_for_batch(query, checkpoint, 7)
        write_savepoint(str(savepoint), {"r": str(checkpoint)}, HEADER, outputs={"r": str(output)})
        wait_for_batch(query, checkpoint, 25)
    saved = query_of(str(savepoint), "r")

    def go_on(into: Path, place: str, files_per_batch: int) -> None:
        restore(str(savepoint), "r", str(tmp_path / place))
        put_back(savepoint / saved.directory / SINK_LOG, saved, str(into))
        run_to_the_end(joined(spark, source, files_per_batch), tmp_path / place, into)

    whole = joined_rows(source)
    go_on(tmp_path / "new", "checkpoint-new", 1)
    new = [tuple(row) for row in spark.read.parquet(str(tmp_path / "new")).collect()]
    go_on(output, "checkpoint-same", 3)
    same = sorted(tuple(row) for row in spark.read.parquet(str(output)).collect())
    assert same == whole
    assert 0 < len(new) < len(whole)
    assert Counter(new) <= Counter(whole)
    with pytest.raises(OutputRefused):
        put_back(savepoint / saved.directory / SINK_LOG, saved, str(tmp_path / "new"))


@pytest.mark.parametrize("link", [True, False] if ALL else [True])
def test_files_of_a_stream_are_there_once(sessions: Sessions, tmp_path: Path, link: bool) -> None:
    """fs.stream_files, from an older point into the same output with other batches, and into a new one."""
    spark = sessions.open(VARIANTS[0].settings)
    source = write_files(tmp_path / "source", 30)
    checkpoint, output, new = tmp_path / "checkpoint", tmp_path / "out", tmp_path / "new"

    def rows(files_per_batch: int) -> Any:
        stream = spark.readStream.schema("id long, k string, v long").option("maxFilesPerTrigger", files_per_batch)
        return stream.json(str(source)).dropDuplicates(["id"])

    def start(into: Path, place: Path, files_per_batch: int, **trigger: Any) -> Any:
        writer = fs.stream_files(rows(files_per_batch), str(into), partition_by="k")
        return writer.option("checkpointLocation", str(place)).trigger(**trigger).start()

    def read(path: Path) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in spark.read.parquet(str(path)).select("id", "v", "k").collect())

    query = start(output, checkpoint, 1, processingTime="50 milliseconds")
    batch = wait_for_batch(query, checkpoint, 4)
    copy_point(str(checkpoint), str(tmp_path / "same"), batch, link=link)
    copy_point(str(checkpoint), str(tmp_path / "other"), batch, link=link)
    wait_for_batch(query, checkpoint, batch + 4)
    query.stop()
    for into, place in ((output, tmp_path / "same"), (new, tmp_path / "other")):
        assert start(into, place, 7, availableNow=True).awaitTermination(300)
    whole = read(output)
    assert [row[0] for row in whole] == sorted({row[0] for row in whole})
    assert len(whole) == sum(count for _, count, _ in expected(source))
    later = read(new)
    assert 0 < len(later) < len(whole)
    assert set(later) < set(whole)


def test_state_of_python_is_found_at_its_new_place(sessions: Sessions, source: Path, tmp_path: Path) -> None:
    """transformWithState, whose schemas Spark names by absolute paths; its state is read as Spark's data source shows it."""
    spark = sessions.open(VARIANTS[2].settings, retention=2)
    checkpoint, savepoint, restored = tmp_path / "checkpoint", tmp_path / "savepoint", tmp_path / "restored"
    with running(remembered(spark, source, 1), checkpoint, output="noop") as query:
        wait_for_batch(query, checkpoint, 3)
        write_savepoint(str(savepoint), {"r": str(checkpoint)}, HEADER)
    shutil.rmtree(checkpoint)
    shutil.move(savepoint, tmp_path / "moved")
    restore(str(tmp_path / "moved"), "r", str(restored))
    shutil.rmtree(tmp_path / "moved")
    run_to_the_end(remembered(spark, source, 1000), restored, "noop")
    rows = 20 * FILES
    state = remembered_state(spark, restored)
    assert sum(state.values()) == rows
    assert len(state) == 17


def test_a_query_that_was_taken_for_dead_writes_nothing_that_its_successor_has_not(
    sessions: Sessions, source: Path, tmp_path: Path
) -> None:
    """It goes on writing to the same output of Spark's own file sink, whose log would have its batches for those of the other."""
    spark = sessions.open({})
    made = CheckpointDirectories(Configuration({CHECKPOINTS_DIR.key: str(tmp_path / "shared")}), "", tmp_path)
    zombies, output = Path(made.prepare(STREAM, deployed(0))["result"]), tmp_path / "output"

    def rows(files_per_batch: int) -> Any:
        read = spark.readStream.schema("id long").option("maxFilesPerTrigger", files_per_batch)
        return read.json(str(source))

    with running(rows(2), zombies, output) as zombie:
        wait_for_batch(zombie, zombies, 5)
        successors = Path(made.prepare(STREAM, deployed(1))["result"])
        with pytest.raises(StreamingQueryException, match="Concurrent update to the log"):
            zombie.awaitTermination(300)
        run_to_the_end(rows(7), successors, output)
    assert (last_committed(str(zombies)) or 0) <= (last_committed(str(successors)) or 0)
    ids = [row["id"] for row in spark.read.parquet(str(output)).collect()]
    lines = [line for file in source.iterdir() for line in file.read_text().splitlines()]
    assert sorted(ids) == sorted(json.loads(line)["id"] for line in lines)
