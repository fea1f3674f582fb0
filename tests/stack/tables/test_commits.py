"""Tables of Delta and Iceberg: one version a commit, however often it was killed and by however many it is carried out."""

from collections import Counter

import pytest

from firesteel.adapters.spark.refusals import SinkRefused, TargetExists
from firesteel.runtime.ports import TaskFailedError
from tests.stack.tables.conftest import Tables

PLACES = ("before", "inside", "written", "after")


def of(*rows: tuple[int, int]) -> Counter[tuple[int, int]]:
    return Counter(rows)


def test_every_mode_is_one_version(tables: Tables) -> None:
    name = tables.name("modes")
    staged = tables.local.stage_table(
        "select id, id % 2 as k from range(4)", name, "error", "k", using=tables.format.name
    )
    assert not tables.local.spark.catalog.tableExists(name), "visible before the job has ended"
    tables.commit(staged)
    assert tables.rows("modes") == of((0, 0), (1, 1), (2, 0), (3, 1))
    with pytest.raises(TargetExists, match="exists"):
        tables.local.stage_table("select 1L as id, 1L as k", name, "error")
    assert tables.local.stage_table("select 1L as id, 1L as k", name, "ignore") == ()
    tables.write("select 1 as K, id + 4 as ID from range(2)", name, "append", parallelism=2)
    assert tables.rows("modes") == of((0, 0), (1, 1), (2, 0), (3, 1), (4, 1), (5, 1))
    tables.write("select 9L as id, 1L as k", name, "overwrite", overwrite_partitions="dynamic")
    assert tables.rows("modes") == of((0, 0), (2, 0), (9, 1))
    tables.write("select id, 7L as k from range(2, 4)", name, "upsert", key="id")
    assert tables.rows("modes") == of((0, 0), (2, 7), (3, 7), (9, 1))
    tables.write("select max(id) as id, 5L as k from " + name, name, "overwrite")
    assert tables.rows("modes") == tables.read_back("modes") == of((9, 5))
    assert tables.versions("modes") == 5


def test_commits_that_were_killed_30_times_are_there_once(tables: Tables) -> None:
    name, expected, kills = tables.name("killed"), of(), 0
    for number in range(9):
        mode = ("append", "append", "overwrite", "upsert")[number % 4]
        key = "id" if mode == "upsert" else ()
        rows = of(*((id, number) for id in range(number, 3 * number + 3)))
        sql = f"select id, {number}L as k from range({number}, {3 * number + 3})"
        (commit,) = tables.local.stage_table(sql, name, mode, using=tables.format.name, key=key)
        for place in PLACES[number % 2 :]:
            tables.kill_in(commit, place)
            kills += 1
        tables.commit((commit,))
        if mode == "overwrite":
            expected = of()
        if key:
            ids = {id for id, _ in rows}
            expected = Counter({row: n for row, n in expected.items() if row[0] not in ids})
        expected += rows
        assert tables.rows("killed") == expected, (number, mode)
        assert tables.versions("killed") == number + 1, (number, mode)
    assert kills >= 30
    assert tables.read_back("killed") == expected


def test_others_who_append_meanwhile_lose_nothing(tables: Tables) -> None:
    name, spark = tables.name("shared"), tables.local.spark
    spark.sql(f"CREATE TABLE {name} (id bigint, k bigint) USING {tables.format.name}")
    first = tables.local.stage_table("select 1L as id, 1L as k", name)
    other = tables.local.stage_table("select 2L as id, 2L as k", name)
    for commit in (*first, *other):
        tables.kill_in(commit, "written")
    spark.sql(f"INSERT INTO {name} VALUES (3, 3)")
    tables.commit((*other, *first))
    assert tables.rows("shared") == tables.read_back("shared") == of((1, 1), (2, 2), (3, 3))


def test_what_can_not_be_written_is_said(tables: Tables) -> None:
    name, spark, using = tables.name("strict"), tables.local.spark, tables.format.name
    spark.sql(f"CREATE TABLE {name} (id bigint, k bigint) USING {using}")
    for call, named in (
        (("select 1 as id", name), "lacks column k"),
        (("select 1 as id, 2 as k, 3 as more", name), "column more that the table has not"),
        (("select 1 as id, 2 as k", name, "append", "k"), "is partitioned by nothing"),
        (("select 1 as id, 2 as k", name, "upsert"), "goes with mode='upsert'"),
    ):
        with pytest.raises(SinkRefused, match=named):
            tables.local.stage_table(*call)
    with pytest.raises(SinkRefused, match=f"has the format {using}, not parquet"):
        tables.local.stage_table("select 1 as id, 2 as k", name, using="parquet")
    doubled = tables.local.stage_table("select 1 as id, id as k from range(2)", name, "upsert", key="id")
    with pytest.raises(TaskFailedError, match="several rows to be written have the key id=1"):
        tables.do(tables.backend.commit(doubled[0]))
    late = tables.local.stage_table("select 1 as id, 2 as k", name)
    spark.sql(f"DROP TABLE {name}")
    with pytest.raises(TaskFailedError, match="is gone since its rows were staged"):
        tables.do(tables.backend.commit(late[0]))
    tables.do(tables.backend.discard([each.staging for each in (*late, *doubled)]))
