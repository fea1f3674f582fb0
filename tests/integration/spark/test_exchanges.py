"""Stored results with several subpartitions: every row in one place, equal keys in the same one.

`make test-stack` runs these tests on other storages: tests/stack/test_stored_results.py.
"""

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from firesteel.adapters.spark.exchange.layout import UNSHUFFLED_MAX, Layout
from firesteel.adapters.spark.exchange.resultfiles import MANIFEST_FILE, PartitionLost
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.storage.serving import directories_at
from firesteel.model.ids import DataSetID
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.storages import CORES, Storage

pytestmark = pytest.mark.spark
DATASET = DataSetID("d")


def as_text(frame: Any) -> Any:
    """Also of types that can't be brought to Python."""
    return frame.select([frame[f"`{name}`"].cast("string").alias(name) for name in frame.columns])


def shares(
    local: InProcess, storage: Storage, frames: list[Any], layout: Layout, view: Callable[[Any], Any] = lambda f: f
) -> list[list[Any]]:
    """What each consumer reads of what the producers store."""
    own = uuid.uuid4().hex
    stored = [
        storage.results.store(frame, f"{storage.root}/{own}/{index}", DATASET, index, layout=layout)
        for index, frame in enumerate(frames)
    ]
    frames = [
        storage.results.read(local.spark, stored, range(index, index + 1), local.directory / own / f"read-{index}")
        for index in range(layout.subpartitions)
    ]
    return [view(frame).collect() for frame in frames]


@pytest.mark.parametrize(
    ("types", "values"),
    [
        (("tinyint", "smallint", "int", "bigint"), [0, 1, -1, 100, None]),
        (("float", "double"), [0.0, -0.0, 1.5, float("nan"), float("-inf"), None]),
        (("decimal(10,2)", "decimal(38,10)", "decimal(20,4)"), [Decimal("0"), Decimal("1.50"), Decimal("-7.25"), None]),
        (("varchar(20)", "string"), ["", "a", "größe", None]),
        (("date",), [datetime.date(1, 1, 1), datetime.date(2024, 2, 29), None]),
        (("timestamp",), [datetime.datetime(1970, 1, 1), datetime.datetime(2024, 2, 29, 1, 2, 3, 4), None]),  # noqa: DTZ001
        (("boolean",), [True, False, None]),
        (("binary",), [b"", b"x", None]),
    ],
)
@pytest.mark.parametrize("subpartitions", [5, UNSHUFFLED_MAX + 1])
def test_equal_keys_of_any_width_meet(
    local: InProcess, storage: Storage, types: tuple[str, ...], values: Any, subpartitions: int
) -> None:
    from pyspark.sql import functions as F

    where: dict[str, set[int]] = {}
    for data_type in types:
        frame = local.spark.createDataFrame([(v,) for v in values], "k " + types[-1]).withColumn(
            "k", F.col("k").cast(data_type)
        )
        found = shares(local, storage, [frame], Layout(subpartitions, ("k",)))
        assert sum(map(len, found)) == len(values)
        for index, rows in enumerate(found):
            for row in rows:
                key = row.k + 0 if isinstance(row.k, float | int | Decimal) else row.k
                where.setdefault(str(key.normalize() if isinstance(key, Decimal) else key), set()).add(index)
    assert all(len(places) == 1 for places in where.values()), where


@pytest.mark.parametrize(
    ("types", "values", "same"),
    [
        (["string collate UTF8_LCASE"], "'a', 'A', 'Ö', 'ö', '', 'b'", "lower(string(k))"),
        (["string collate UNICODE_CI_RTRIM"], "'a', 'A ', 'Ö', 'ö', '', '  '", "rtrim(lower(string(k)))"),
        (["interval day", "interval day to second"], "interval 1 day, interval 2 day", "cast(k as interval day)"),
        (["interval year", "interval year to month"], "interval 1 year, interval 2 year", "cast(k as interval year)"),
        (["void", "int"], "null, null", "k"),
    ],
)
def test_keys_that_spark_finds_equal_meet(
    local: InProcess, storage: Storage, types: list[str], values: str, same: str
) -> None:
    where: dict[str, set[int]] = {}
    for each in types:
        frame = local.spark.sql(f"select cast(k as {each}) as k from (select explode(array({values})) as k)")
        view = lambda f: f.selectExpr(f"string({same}) as k")  # noqa: E731
        found = shares(local, storage, [frame], Layout(7, ("k",)), view)
        for index, rows in enumerate(found):
            for row in rows:
                where.setdefault(row.k, set()).add(index)
    assert where
    assert all(len(places) == 1 for places in where.values()), where


@pytest.mark.parametrize("subpartitions", [4, UNSHUFFLED_MAX + 1])
def test_rows_are_spread_evenly_without_keys(local: InProcess, storage: Storage, subpartitions: int) -> None:
    frames = [local.spark.range(100).repartition(1), local.spark.range(100)]
    found = shares(local, storage, frames, Layout(subpartitions))
    assert sorted(row.id for rows in found for row in rows) == sorted([*range(100), *range(100)])
    assert all(len(rows) > 80 // subpartitions for rows in found)


def test_what_few_share_is_written_without_a_shuffle(local: InProcess, storage: Storage) -> None:
    """Each of Spark's tasks writes its rows where they belong; many tasks and subpartitions would be too many files."""
    frame, buckets = local.spark.range(0, 1_000, 1, 3), 2 * CORES if storage.holds_rows else 1
    for subpartitions, files in ((4, 3 * 4 * buckets), (UNSHUFFLED_MAX + 1, UNSHUFFLED_MAX + 1)):
        where = f"{storage.root}/{subpartitions}"
        storage.results.store(frame, where, DATASET, 0, layout=Layout(subpartitions, ("id",)))
        assert len(storage.results.files.written(where)) == files


def test_a_result_without_columns_keeps_its_rows(local: InProcess, storage: Storage) -> None:
    found = shares(local, storage, [local.spark.range(10).select()], Layout(3))
    assert sum(map(len, found)) == 10
    assert all(not row.__fields__ for rows in found for row in rows)


@pytest.mark.parametrize("layout", [Layout(), Layout(4), Layout(4, ("a.b",))])
def test_types_names_and_nothing_at_all(local: InProcess, storage: Storage, layout: Layout) -> None:
    frame = local.spark.sql(
        "select 1 as `a.b`, null as `a.b ,;{}()=`, interval 1 day as d, interval 2 month as m,"
        " parse_json('{\"x\":1}') as v, named_struct('f', array(map(1, 2))) as s, timestamp_ntz'2020-01-01' as n"
    )
    rows = [row for part in shares(local, storage, [frame], layout, as_text) for row in part]
    assert rows == as_text(frame).collect()
    empty = shares(local, storage, [frame.where("1 = 0")], layout, as_text)
    assert [row for part in empty for row in part] == []


@pytest.mark.parametrize(
    ("sql", "key", "named"),
    [
        ("select array(null) as x", "", "'x' of type array<void>"),
        ("select make_interval(1, 2) as x", "", "'x' of type interval"),
        ("select named_struct('a', struct()) as x", "", "'x' of type"),
        ("select map('a' collate UTF8_LCASE, 1) as x", "", "is a map whose keys have a collation"),
        ("select 1 as x", "y", "there is no such column: x"),
        ("select 1 as x, 2 as x", "x", "several columns have that name"),
        ("select 1 as x", "y", "distributed by hash_by('y') of counts (words.py:7), but"),
        ("select array(1) as x", "x", "array<int> can't be a key"),
        ("select struct(1 as a) as x", "x", "hash_by('x') of counts (words.py:7): a column of type struct<a:int>"),
        ("select parse_json('1') as x", "x", "variant can't be a key"),
    ],
)
def test_what_cannot_be_stored_or_hashed_is_refused_by_name(
    local: InProcess, storage: Storage, sql: str, key: str, named: str
) -> None:
    layout = Layout(2, (key,), "counts (words.py:7)") if key else Layout(2)
    with pytest.raises(PipelineRefused) as refused:
        storage.results.store(local.spark.sql(sql), f"{storage.root}/x", DATASET, 0, layout=layout)
    assert named in str(refused.value)


def test_producers_with_different_columns_are_refused(local: InProcess, storage: Storage) -> None:
    frames = [local.spark.sql("select 1 as x"), local.spark.sql("select 'a' as x")]
    with pytest.raises(PipelineRefused, match="subtasks 0 and 1 of its input have different columns"):
        shares(local, storage, frames, Layout(2))


@pytest.mark.parametrize("layout", [Layout(1), Layout(2)])
def test_a_stored_result_that_is_gone_is_reported_as_lost(
    local: InProcess, storage: Storage, tmp_path: Path, layout: Layout
) -> None:
    """All of it, or a file: Spark would read what is left, and say nothing."""
    last, where = layout.subpartitions - 1, f"{storage.root}/x"
    stored = storage.results.store(local.spark.range(100), where, DATASET, 0, layout=layout)
    began_before = storage.results
    frame = began_before.read(local.spark, [stored], range(last, last + 1), tmp_path / "read")
    storage.delete(where, list(storage.results.files.written(where))[-1])
    for results in (began_before, storage.results):
        with pytest.raises(PartitionLost):
            results.files.check_there([stored], range(last, last + 1))
        with pytest.raises(PartitionLost):
            results.read(local.spark, [stored], range(last, last + 1), tmp_path / "read")
    assert (
        layout.subpartitions == 1
        or storage.results.read(local.spark, [stored], range(1), tmp_path / "other").count() < 100
    ), "it reads another one"
    local.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        assert raises_when_read(frame, where)
    finally:
        local.spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    directories = directories_at(where, storage.settings)
    directories.write(where, MANIFEST_FILE, directories.read(where, MANIFEST_FILE)[:-1])
    with pytest.raises(PartitionLost):
        storage.results.read(local.spark, [stored], range(1), tmp_path / "read")
    storage.delete(where, MANIFEST_FILE)
    with pytest.raises(PartitionLost):
        storage.results.read(local.spark, [stored], range(1), tmp_path / "read")


def raises_when_read(frame: Any, where: str) -> bool:
    """And names the location, by which the producer is known that has to run again."""
    try:
        frame.collect()
    except PySparkException as error:
        return where in str(error) and ("PATH_NOT_FOUND" in str(error) or "FILE_NOT_EXIST" in str(error))
    return False


def test_settings_for_sinks_cut_nothing_off_what_is_stored(local: InProcess, storage: Storage) -> None:
    unit = "spark.sql.parquet.outputTimestampType"
    local.spark.conf.set(unit, "TIMESTAMP_MILLIS")
    try:
        frame = local.spark.sql("select array(timestamp'2024-02-29 01:02:03.000004') as t")
        ((row,),) = shares(local, storage, [frame], Layout(1), as_text)
        assert row.t == "[2024-02-29 01:02:03.000004]"
        assert local.spark.conf.get(unit) == "TIMESTAMP_MILLIS"
    finally:
        local.spark.conf.unset(unit)


def test_the_types_of_key_columns_are_kept_beside_those_they_were_hashed_as(local: InProcess, storage: Storage) -> None:
    frame = local.spark.sql("select cast(id as smallint) as k, string(id) as s from range(3)")
    place = f"{storage.root}/{uuid.uuid4().hex}/0"
    stored = storage.results.store(frame, place, DATASET, 0, layout=Layout(2, ("k", "s")))
    assert (stored.key_types, stored.key_column_types) == (("bigint", "string"), ("smallint", "string"))
