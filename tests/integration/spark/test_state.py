"""State of queries, read while they run and from savepoints."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import write_savepoint
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.streams import QueryState, StateOrder, StateQuestion
from firesteel.runtime.ports import TaskFailedError
from tests.connectmode import connect_mode
from tests.integration.spark.streamqueries import (
    KEYS,
    VARIANTS,
    Sessions,
    Variant,
    counted,
    expected,
    joined,
    remembered,
    run_to_the_end,
    running,
    wait_for_batch,
    write_files,
)

pytestmark = [pytest.mark.spark, pytest.mark.streams]
FILES = 6
JOB = "b" * 32
HEADER = SavepointHeader(job_id=JOB, job_name="test", spark_version="4.3.0", created_ms=0)
Read = Callable[..., QueryState]


@pytest.fixture(scope="module")
def sessions(backend: SparkTaskBackend, do: Callable[[Any], Any]) -> Iterator[Sessions]:
    with connect_mode(), contextlib.closing(Sessions(backend, do)) as made:
        yield made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("source"), FILES)


@pytest.fixture
def read(backend: SparkTaskBackend, do: Callable[[Any], Any], tmp_path: Path) -> Read:
    """Of the query `result` of the job whose checkpoints lie below the test's directory, or of a savepoint."""

    def ask(savepoint: str = "", **question: Any) -> QueryState:
        place = {"savepoint": savepoint} if savepoint else {"uid": "result", "job_id": JOB}
        order = StateOrder(**{"uid": "", **place}, checkpoints_dir=str(tmp_path), question=StateQuestion(**question))
        found: QueryState = do(backend.read_state(order))
        return found

    return ask


def home(tmp_path: Path) -> Path:
    """The directory of the checkpoints of the query's first attempt."""
    return tmp_path / JOB / "result" / "0"


def key_of(row: dict[str, Any]) -> str:
    return json.dumps(row["key"])


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[-1]], ids=str)
def test_state_of_a_query_that_runs_and_of_its_savepoint(
    sessions: Sessions, source: Path, tmp_path: Path, read: Read, variant: Variant
) -> None:
    spark = sessions.open(variant.settings, 2)
    frame, checkpoint = counted(spark, source, 1), home(tmp_path)
    with running(frame, checkpoint) as query:
        last = wait_for_batch(query, checkpoint, FILES - 1)
        found = read(limit=1_000)
        assert query.isActive
    assert (found.uid, found.batch_id, found.is_complete) == ("result", last, True)
    assert [(each.number, each.name, each.stores) for each in found.operators] == [
        (0, "stateStoreSave", ()),
        (1, "dedupe", ()),
    ]
    totals = sorted((row["key"]["k"], row["value"]["count"], row["value"]["sum"]) for row in found.rows)
    assert totals == expected(source)
    assert sorted(path.name for path in tmp_path.iterdir()) == [JOB], "no copy is left"

    one = read(keys={"k": "key-3"})
    assert [row["key"] for row in one.rows] == [{"k": "key-3"}]
    some = read(limit=5)
    assert (len(some.rows), some.is_complete) == (5, False)

    savepoint = tmp_path / "savepoint"
    write_savepoint(str(savepoint), {"result": str(checkpoint)}, HEADER)
    assert sorted(read(str(savepoint), limit=1_000).rows, key=key_of) == sorted(found.rows, key=key_of)

    for question, words in (
        ({"operator": 7}, "has no stateful operator 7; it has 0 (stateStoreSave), 1 (dedupe)"),
        ({"store": "left"}, "has no store 'left'; it has one without a name"),
        ({"keys": {"v": "1"}}, "has no column 'v'; it has k"),
    ):
        with pytest.raises(TaskFailedError) as raised:
            read(**question)
        assert words in raised.value.failure.message


def test_keys_are_asked_for_as_they_are_shown_or_as_spark_casts_them(
    sessions: Sessions, source: Path, tmp_path: Path, read: Read
) -> None:
    spark = sessions.open(VARIANTS[0].settings, 2)
    rows = spark.readStream.schema("id long, k string, v long").json(str(source))
    window = "window(timestamp_seconds(v), '60 seconds') as w", "nullif(k, 'key-3') as user"
    run_to_the_end(rows.selectExpr(*window).groupBy("w", "user").count(), home(tmp_path), "noop")
    everything = read(limit=1_000)
    start = everything.rows[0]["key"]["w"]["start"]
    of_window = [row["key"] for row in everything.rows if row["key"]["w"]["start"] == start]
    assert 1 < len(of_window) < len(everything.rows)
    for text in (start, start[:19].replace("T", " ")):
        assert [row["key"] for row in read(keys={"w.start": text}, limit=1_000).rows] == of_window
    nobodys = [row["key"] for row in read(keys={"user": "null"}, limit=1_000).rows]
    assert nobodys
    assert nobodys == [row["key"] for row in everything.rows if row["key"]["user"] is None]


def test_values_of_one_name_are_numbered(sessions: Sessions, source: Path, tmp_path: Path, read: Read) -> None:
    spark = sessions.open(VARIANTS[0].settings, 2)
    rows = spark.readStream.schema("id long, k string, v long").json(str(source))
    run_to_the_end(rows.groupBy("k").agg(F.count("*"), F.sum("v"), F.avg("v")), home(tmp_path), "noop")
    (row,) = read(keys={"k": "key-3"}).rows
    value = row["value"]
    assert list(value) == ["count", "sum", "sum_2", "count_2"]
    assert (value["count"], value["sum"]) == (value["count_2"], value["sum_2"])


def test_state_of_a_join_and_of_a_function(sessions: Sessions, source: Path, tmp_path: Path, read: Read) -> None:
    spark = sessions.open(VARIANTS[2].settings, 2)
    run_to_the_end(joined(spark, source, 3), home(tmp_path), "noop")
    left, right = read(limit=1_000), read(store="right", keys={"field0": "7"})
    assert left.operators[0].stores == ("left", "right")
    assert len(left.rows) == FILES * 20
    assert [row["value"]["v"] for row in right.rows] == [6]

    moved = tmp_path / "moved"
    home(tmp_path).rename(moved)
    (tmp_path / JOB).rename(tmp_path / "old")
    run_to_the_end(remembered(spark, source, 3), home(tmp_path), "noop")
    found = read(limit=1_000)
    assert found.operators[0].stores == ("count",)
    assert len(found.rows) == KEYS
    assert sum(next(iter(row["value"].values())) for row in found.rows) == FILES * 20


def test_where_there_is_nothing_to_read(read: Read, tmp_path: Path) -> None:
    with pytest.raises(TaskFailedError) as raised:
        read()
    assert f"this worker finds no checkpoints of result: job {JOB} has ended" in raised.value.failure.message
    with pytest.raises(TaskFailedError) as raised:
        read(str(tmp_path / "nowhere"))
    assert "is no savepoint of firesteel" in raised.value.failure.message
