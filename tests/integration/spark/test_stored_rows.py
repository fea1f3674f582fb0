"""The form of stored results that is Spark's own rows."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import col, max_by, udf
from pyspark.sql.types import DataType, IntegerType, StringType, StructField, StructType, UserDefinedType

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.exchange.layout import WHOLE, Layout
from firesteel.adapters.spark.exchange.partitions import StoredResults
from firesteel.adapters.spark.exchange.resultfiles import Manifest
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.shares.approvals import digest_of
from firesteel.model.ids import DataSetID
from firesteel.model.tasks import ResultPartition
from firesteel.pipeline.authoring import Pipeline
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.storages import Storage

pytestmark = pytest.mark.spark
WIDE = 300_000
"""Bytes of a row that is longer than a block."""
MANY = 200_000
"""Rows of several blocks."""


@pytest.fixture
def results() -> StoredResults:
    return StoredResults()


class Place(UserDefinedType):
    @classmethod
    def sqlType(cls) -> DataType:
        return IntegerType()

    @classmethod
    def module(cls) -> str:
        return __name__


class Name(Place):
    @classmethod
    def sqlType(cls) -> DataType:
        return StringType()


def stored(results: StoredResults, frame: Any, folder: Path, layout: Layout = WHOLE) -> ResultPartition:
    return results.store(frame, str(folder / "stored"), DataSetID("d"), 0, layout=layout)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "stored").rglob("*.rows"))


def test_a_file_is_read_by_several_tasks_each_row_once(
    local: InProcess, results: StoredResults, tmp_path: Path
) -> None:
    partition = stored(results, local.spark.range(0, MANY, 1, 1).selectExpr("id", "uuid() as u"), tmp_path)
    assert partition.rows == MANY
    (file,) = files(tmp_path)
    frame = results.read(local.spark, [partition], range(1), tmp_path / "read")
    local.spark.conf.set("spark.sql.files.maxPartitionBytes", str(file.stat().st_size // 5))
    try:
        found = frame.selectExpr("id", "spark_partition_id() as task").groupBy("task").count().collect()
        total = frame.selectExpr("count(distinct id)", "count(distinct u)", "sum(id)").first()
    finally:
        local.spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert len(found) > 3
    assert total is not None
    assert tuple(total) == (MANY, MANY, MANY * (MANY - 1) // 2)


def test_rows_longer_than_a_block_are_rows(local: InProcess, results: StoredResults, tmp_path: Path) -> None:
    partition = stored(results, local.spark.range(5).selectExpr("id", f"repeat('x', {WIDE}) as text"), tmp_path)
    frame = results.read(local.spark, [partition], range(1), tmp_path / "read")
    assert sorted(tuple(row) for row in frame.selectExpr("id", "length(text)").collect()) == [
        (number, WIDE) for number in range(5)
    ]


@pytest.mark.parametrize("subpartitions", [1, 3])
def test_some_columns_are_read_in_any_order(
    local: InProcess, results: StoredResults, tmp_path: Path, subpartitions: int
) -> None:
    made = local.spark.range(50).selectExpr(
        "id", "named_struct('a', id * 2, 'b', array(id, null)) as s", "if(id % 2 = 0, null, string(id)) as t"
    )
    partition = stored(results, made, tmp_path, Layout(subpartitions, ("id",)))
    found = []
    for subtask in range(subpartitions):
        frame = results.read(local.spark, [partition], range(subtask, subtask + 1), tmp_path / f"read-{subtask}")
        found += [tuple(row) for row in frame.selectExpr("t", "s.b[0]", "s.a").collect()]
    expected = [(None if number % 2 == 0 else str(number), number, number * 2) for number in range(50)]
    assert sorted(found, key=lambda row: row[1]) == expected


@pytest.mark.parametrize("columns", [2, 63, 64, 65])
def test_rows_that_say_whose_share_they_are_in_are_like_others(
    local: InProcess, results: StoredResults, tmp_path: Path, columns: int
) -> None:
    """With 64 columns the one that says so takes another word of bits for null."""
    numbers = [f"if(id % {n} = 0, null, concat('{n}-', id)) as c{n}" for n in range(3, columns + 2)]
    made = local.spark.range(60).selectExpr("id", *numbers).cache()
    partition = stored(results, made, tmp_path, Layout(3, ("id",)))
    frame = results.read(local.spark, [partition], range(3), tmp_path / "read")
    seen = udf(lambda one, other: f"{one} {other}", "string")
    for use in (
        lambda rows: rows,
        lambda rows: rows.distinct(),
        lambda rows: rows.union(rows).dropDuplicates(),
        lambda rows: rows.join(rows.select("id"), "id"),
        lambda rows: rows.repartition(4, "c3").sort("c3"),
        lambda rows: rows.intersect(rows.orderBy("c3").limit(30)).union(rows.orderBy(rows.c3.desc()).limit(30)),
        lambda rows: rows.groupBy("id").agg(*(max_by(f"c{n}", "id").alias(f"c{n}") for n in range(3, columns + 2))),
        lambda rows: rows.withColumn("c3", seen("id", "c3")),
    ):
        assert sorted(map(str, use(frame).collect())) == sorted(map(str, use(made).collect()))


def test_variants_are_kept(local: InProcess, results: StoredResults, tmp_path: Path) -> None:
    partition = stored(results, local.spark.sql("""select parse_json('{"a": [1, null]}') as v"""), tmp_path)
    row = results.read(local.spark, [partition], range(1), tmp_path / "read").selectExpr("to_json(v)").first()
    assert tuple(row) == ('{"a":[1,null]}',)


def test_where_rows_come_from_is_data_like_any_other(local: InProcess, results: StoredResults, tmp_path: Path) -> None:
    local.spark.range(100).repartition(3).write.parquet(str(tmp_path / "read"))
    frame = local.spark.read.parquet(str(tmp_path / "read"))
    for each in (frame.select("*", "_metadata"), frame.select("_metadata.*"), frame.selectExpr("_metadata.row_index")):
        partition = results.store(each, str(tmp_path / str(len(each.columns))), DataSetID("d"), 0)
        again = results.read(local.spark, [partition], range(1), tmp_path / f"lists-{len(each.columns)}")
        assert again.schema.simpleString() == each.schema.simpleString()
        assert sorted(map(str, again.collect())) == sorted(map(str, each.collect()))


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(3, id="number of rows of a block"),
        pytest.param(7, id="length of a block"),
        pytest.param(11, id="length of what is compressed"),
        pytest.param(15, id="checksum of a block"),
        pytest.param(100, id="a row"),
        pytest.param(-37, id="place of a block"),
        pytest.param(-33, id="number of fields"),
        pytest.param(-29, id="number of blocks"),
        pytest.param(-21, id="number of rows"),
        pytest.param(-13, id="bytes of the rows"),
        pytest.param(-9, id="checksum of the places"),
        pytest.param(-2, id="mark"),
    ],
)
def test_a_damaged_file_gives_no_row(local: InProcess, results: StoredResults, tmp_path: Path, place: int) -> None:
    partition = stored(results, local.spark.range(0, 1000, 1, 1), tmp_path)
    frame = results.read(local.spark, [partition], range(1), tmp_path / "read")
    (file,) = files(tmp_path)
    data = bytearray(file.read_bytes())
    data[place] ^= 0x10
    file.write_bytes(data)
    with pytest.raises(PySparkException, match=rf"FAILED_READ_FILE.*{file.name}"):
        frame.collect()


def test_a_list_that_spark_is_told_to_overlook_is_no_empty_result(
    local: InProcess, storage: Storage, tmp_path: Path
) -> None:
    local.spark.conf.set("spark.sql.streaming.fileStreamSink.ignoreMetadata", "true")
    try:
        partition = stored(storage.results, local.spark.range(5), tmp_path)
        read = lambda: storage.results.read(local.spark, [partition], range(1), tmp_path / "read").count()  # noqa: E731
        if storage.has_classes:
            assert read() == 5
        else:
            with pytest.raises(PySparkException, match=r"fileStreamSink\.ignoreMetadata"):
                read()
    finally:
        local.spark.conf.unset("spark.sql.streaming.fileStreamSink.ignoreMetadata")


def test_the_jobs_largest_number_of_rows_of_a_file_is_for_its_sinks(
    local: InProcess, storage: Storage, tmp_path: Path
) -> None:
    """Files of stored rows are in the order of Spark's tasks: what one task writes stays together."""
    local.spark.conf.set("spark.sql.files.maxRecordsPerFile", "10")
    try:
        partition = stored(storage.results, local.spark.range(100).coalesce(1), tmp_path)
    finally:
        local.spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    assert len(storage.results.files.written(partition.location)) == 1


def test_a_file_that_is_cut_off_has_no_number_of_rows(local: InProcess, results: StoredResults, tmp_path: Path) -> None:
    partition = stored(results, local.spark.range(10), tmp_path)
    for file in files(tmp_path):
        file.write_bytes(file.read_bytes()[:-1])
    names = [str(file.relative_to(partition.location)) for file in files(tmp_path)]
    assert results.files.counted(partition.location, names).rows == -1


@pytest.mark.parametrize(("shares", "fits"), [(range(2), False), (range(1), True)])
def test_what_is_sent_to_every_task_is_chosen_by_the_bytes_of_rows(
    local: InProcess, results: StoredResults, tmp_path: Path, shares: range, fits: bool
) -> None:
    """Not by those of files, which are fewer: a table of all these rows would be made by the driver alone."""
    partition = stored(results, local.spark.range(60_000), tmp_path, Layout(2, ("id",)))
    local.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1000000")
    try:
        assert partition.size_bytes < 500_000
        read = results.read(local.spark, [partition], shares, tmp_path / "read")
        joined = local.spark.range(1_000_000).withColumnRenamed("id", "other").join(read, read.id == col("other"))
        assert ("BroadcastHashJoin" in internals.physical_plan_of(joined)) is fits
    finally:
        local.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_shares_of_any_size_are_of_one_plan(local: InProcess, results: StoredResults, tmp_path: Path) -> None:
    """What the planner has approved for one subtask it need not be asked for another."""
    made = local.spark.range(1_000).selectExpr("if(id % 9 = 0, id, 4) as k")
    partition = stored(results, made, tmp_path, Layout(2, ("k",)))
    reads = [results.read(local.spark, [partition], range(n, n + 1), tmp_path / f"{n}") for n in (0, 1)]
    relations = [internals.relation_of(each.groupBy("k").count(), local.spark.client) for each in reads]
    assert len({digest_of([each], {}) for each in relations}) == 1
    assert relations[0].SerializeToString() != relations[1].SerializeToString()


def test_little_in_one_file_needs_no_shuffle(local: InProcess, results: StoredResults, tmp_path: Path) -> None:
    partition = stored(results, local.spark.range(100).repartition(1), tmp_path)
    assert len(files(tmp_path)) == 1
    read = results.read(local.spark, [partition], None, tmp_path / "read")
    for made in (read.orderBy("id"), read.groupBy("id").count()):
        assert "Exchange" not in internals.physical_plan_of(made)


def test_little_does_not_make_one_task_of_much(local: InProcess, results: StoredResults, tmp_path: Path) -> None:
    """Spark pushes a semi join below what makes one partition of its left side."""
    partition = stored(results, local.spark.range(100).repartition(2), tmp_path)
    alone, beside = (
        results.read(local.spark, [partition], None, tmp_path / f"{little}", little_beside=little)
        for little in (True, False)
    )
    for how in ("left_semi", "left_anti"):
        plan = internals.physical_plan_of(alone.join(local.spark.range(10_000), "id", how))
        assert plan.index("Coalesce") < plan.index("Join"), "if not, Spark has been mended, and so can we"
        assert "Coalesce" not in internals.physical_plan_of(beside.join(local.spark.range(10_000), "id", how))


@pytest.mark.parametrize(
    ("text", "beside", "is_one"),
    [("''", "stored", True), ("uuid()", "stored", False), ("''", "source", False), ("''", "session", False)],
)
def test_little_is_one_partition_where_its_region_is_given_nothing_else(
    local: InProcess, text: str, beside: str, is_one: bool
) -> None:
    pipeline, plans = Pipeline("beside"), list[str]()

    @pipeline.source(share="store")
    def few(spark: Any) -> Any:
        return spark.range(100).repartition(2)

    def others(spark: Any) -> Any:
        return spark.range(100_000).selectExpr("id", f"{text} as text")

    def joined(few: Any, others: Any) -> Any:
        made = few.join(others, "id", "left_semi")
        plans.append(internals.physical_plan_of(made))
        return made

    def joined_there(few: Any, spark: Any) -> Any:
        return joined(few, others(spark))

    if beside == "session":
        pipeline.result(joined_there)
    else:
        pipeline.source(share="store")(others) if beside == "stored" else pipeline.source(others)
        pipeline.result(joined)

    local.run(pipeline)
    assert ("Coalesce" in plans[0]) is is_one


def test_types_of_the_users_own_are_alike_when_what_they_hold_is(results: StoredResults, tmp_path: Path) -> None:
    """Spark calls all of them by one name, and rows are read as they lie."""
    partitions = []
    for number, kind in enumerate((Place, Name)):
        location = tmp_path / str(number)
        location.mkdir()
        (location / "part-0.rows").touch()
        schema = StructType([StructField("c0", kind())]).json()
        results.files.describe(str(location), Manifest(schema=schema, voids=(), files=(("part-0.rows",),)))
        partitions.append(
            ResultPartition(dataset_id=DataSetID("d"), subtask=number, location=str(location), columns=("at",))
        )
    with pytest.raises(PipelineRefused, match=r"different columns: \(at\) of struct<c0:udt> int and .* string;"):
        results.read(None, partitions, range(1), tmp_path / "read")
