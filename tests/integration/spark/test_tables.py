"""Tables of Spark's catalog: rows are there once however often a commit is tried, and other tables are refused by name."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import firesteel as fs
from firesteel.adapters.spark.refusals import SinkRefused, TargetExists
from firesteel.adapters.spark.staged.references import StagedFiles, decode
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.tasks import Committed, SinkCommit
from firesteel.runtime.ports import TaskFailedError
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark


class Tables:
    """Jobs that write tables, staged and committed."""

    def __init__(self, local: InProcess, backend: SparkTaskBackend, do: Callable[[Any], Any]) -> None:
        self.local, self.backend, self.do = local, backend, do

    def commit(self, commits: tuple[SinkCommit, ...]) -> list[Committed]:
        """As workers do, who may do it again."""
        done, again = ([self.do(self.backend.commit(commit)) for commit in commits] for _ in range(2))
        assert [each.ignored for each in again] == [each.ignored for each in done]
        return done

    def write(self, *call: Any, **options: Any) -> None:
        self.commit(self.local.stage_table(*call, **options))

    def rows(self, table: str) -> Counter[tuple[Any, ...]]:
        self.local.spark.sql(f"REFRESH TABLE {table}")  # its own session may know an older state
        return Counter(map(tuple, self.local.spark.table(table).collect()))


@pytest.fixture
def tables(local: InProcess, backend: SparkTaskBackend, do: Callable[[Any], Any]) -> Tables:
    return Tables(local, backend, do)


def staging_left(tables: Tables, table: str) -> list[Path]:
    (row,) = tables.local.spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").collect()
    return list(Path(row.data_type.removeprefix("file:")).parent.glob(".firesteel-staging"))


def test_a_partitioned_table_is_made_extended_and_overwritten(tables: Tables) -> None:
    days = "select id, concat('d ', id % 3) as day from range(6)"
    staged = tables.local.stage_table(days, "days", "error", "day", compression="gzip")
    assert not tables.local.spark.catalog.tableExists("days"), "visible before the job has ended"
    tables.commit(staged)
    assert tables.rows("days") == Counter((n, f"d {n % 3}") for n in range(6))
    with pytest.raises(TargetExists, match=r"`days` exists"):
        tables.local.stage_table(days, "days", "error")
    assert tables.local.stage_table(days, "default.days", "ignore") == ()
    tables.write("select 'new/=' as DAY, 7 as ID union all select null, 8", "days", "append", parallelism=3)
    assert tables.rows("days") == Counter([*((n, f"d {n % 3}") for n in range(6)), (7, "new/="), (8, None)])
    tables.write("select 9 as id, 'd 1' as day", "days", "overwrite", overwrite_partitions="dynamic")
    kept = [(0, "d 0"), (3, "d 0"), (2, "d 2"), (5, "d 2"), (7, "new/="), (8, None), (9, "d 1")]
    assert tables.rows("days") == Counter(kept)
    tables.write("select max(id) + 1 as id, 'd 2' as day from days", "days", "overwrite")
    assert tables.rows("days") == Counter([(10, "d 2")])
    assert [row.partition for row in tables.local.spark.sql("SHOW PARTITIONS days").collect()] == ["day=d 2"]
    assert not staging_left(tables, "days")


@pytest.mark.parametrize("name", ["p q", "ä", "x-y", "1", "q`t", "a.b", "a.b c", "select"])
def test_a_table_is_partitioned_by_a_column_of_any_name(tables: Tables, name: str) -> None:
    rows = f"select id, id % 2 as `{name.replace('`', '``')}` from range(4)"
    tables.write(rows, "odd", partition_by=name)
    tables.write(rows, "odd", "append")
    assert tables.rows("odd") == Counter({(n, n % 2): 2 for n in range(4)})
    tables.local.spark.sql("DROP TABLE odd")


def test_values_are_stored_as_the_table_has_them(tables: Tables, tmp_path: Path) -> None:
    spark = tables.local.spark
    spark.sql(
        f"CREATE TABLE wide (n bigint, t timestamp, s string) USING csv OPTIONS (header true) LOCATION '{tmp_path}/w'"
    )
    tables.write("select 's,' as s, 1 as N, timestamp'2020-01-01 00:00:00' as t", "wide", "overwrite")
    tables.write("select '' as s, 2 as n, null as t where 1 = 0", "wide")
    assert [tuple(map(str, row)) for row in tables.rows("wide")] == [("1", "2020-01-01 00:00:00", "s,")]
    for sql, named in (
        ("select 1 as n, 's' as s", "lacks column t"),
        ("select 1 as n, 's' as s, now() as t, 5 as more", "column more that the table has not"),
    ):
        with pytest.raises(SinkRefused, match=named):
            tables.local.stage_table(sql, "wide")
    spark.sql("CREATE TABLE buckets (a int) USING parquet CLUSTERED BY (a) INTO 2 BUCKETS")
    spark.sql("CREATE VIEW looked_at AS SELECT 1 AS a")
    for call, named in (
        (("buckets",), "is bucketed by a"),
        (("looked_at",), "is a view"),
        (("a.b.c",), "catalog a is not known to Spark: name its class by spark.sql.catalog.a"),
        (("delta.`/some/where`",), "tables of delta need the jars of io.delta:delta-spark by spark.jars.packages"),
        (("not a name",), "no name of a table"),
        (("wide", "append", "n"), "is partitioned by nothing"),
        (("fresh", "upsert"), "mode='upsert' is for tables of Delta and Iceberg"),
        (("fresh", "upsrt"), "mode 'upsrt' is none of .*; did you mean 'upsert'"),
    ):
        with pytest.raises(SinkRefused, match=named):
            tables.local.stage_table("select 1 as a", *call)
    for using in ("delta", "Iceberg"):
        with pytest.raises(SinkRefused, match=f"tables of {using.lower()} need the jars? of .* by spark.jars.packages"):
            tables.local.stage_table("select 1 as a", "fresh", using=using)


def test_a_catalog_whose_jar_is_missing_is_said(local: InProcess) -> None:
    setting = "spark.sql.catalog.lake"
    local.spark.conf.set(setting, "org.apache.iceberg.spark.SparkCatalog")
    with pytest.raises(SinkRefused, match=r"its class org\.apache\.iceberg.* is in none of Spark's jars"):
        fs.write_table(local.spark.sql("select 1 as a"), "lake.db.t")
    local.spark.conf.unset(setting)


def test_what_has_changed_since_rows_were_staged_is_told(tables: Tables) -> None:
    spark = tables.local.spark
    one = tables.local.stage_table("select 1 as a", "race", "error")
    other = tables.local.stage_table("select 2 as a", "race", "ignore")
    assert [each.ignored for each in tables.commit(one)] == [False]
    (done,) = tables.commit(other)
    left = "this leaves that as it is: none of its own rows are there"
    assert done == Committed(
        f"table spark_catalog.`default`.`race` was written while this job ran, and {left}", ignored=True
    )
    assert tables.rows("race") == Counter([(1,)])
    third = tables.local.stage_table("select 3 as a", "race")
    spark.sql("DROP TABLE race")
    with pytest.raises(TaskFailedError, match="is gone since its rows were staged"):
        tables.commit(third)
    spark.sql("CREATE TABLE race (b string) USING parquet")
    with pytest.raises(TaskFailedError, match="has now no column a of type int"):
        tables.commit(third)
    tables.do(tables.backend.discard([each.staging for each in third]))
    assert not Path(decode(third[0].staging, StagedFiles).files.staging).exists()


def test_a_commit_that_died_after_its_files_goes_on(tables: Tables) -> None:
    (commit,) = tables.local.stage_table("select id, id % 2 as p from range(4)", "half", "append", "p")
    tables.local.spark.sql("CREATE TABLE half (id bigint, p bigint) USING parquet PARTITIONED BY (p)")
    staged = decode(commit.staging, StagedFiles)
    from firesteel.adapters.storage.sinks import commit_sink

    commit_sink(msgspec.structs.replace(staged.files, commit_id=commit.commit_id))
    assert tables.rows("half") == Counter(), "partitions that nobody has told the catalog of"
    tables.commit((commit,))
    assert tables.rows("half") == Counter((n, n % 2) for n in range(4))


def test_outside_a_pipeline_spark_writes_at_once(local: InProcess) -> None:
    frame = local.spark.sql("select 1 as a, 2 as b")
    fs.write_table(frame, "at_once", partition_by=["b"])
    fs.write_table(frame.select("b", "a"), "at_once", "append")
    assert local.spark.table("at_once").collect() == [(1, 2), (1, 2)]
