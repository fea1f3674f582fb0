"""Which plans may run on shares of the rows, as Spark's planner says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.model.jobgraph import Function, FunctionKind
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.shareinputs import Inputs, inputs_in
from tests.integration.spark.shareplans import F, W, counted_at_the_end, decided, lost, sensitive, viewed

pytestmark = pytest.mark.spark


@pytest.fixture
def inputs(local: InProcess, scratch: Path) -> Iterator[Inputs]:
    with inputs_in(local, scratch) as given:
        yield given


def session() -> Any:
    return F().session_window(F().timestamp_seconds("v"), "1 hour")


ALLOWED = {
    "nothing of a share": lambda i: i.spread.limit(0),
    "columns of another frame": lambda i: i.spread.unionByName(i.small.limit(0), allowMissingColumns=True),
    "row-wise": lambda i: i.spread.where("v > 1").select("k", F().upper("l").alias("u")).withColumn("x", F().rand()),
    "group by the key": lambda i: i.hashed.groupBy("k").agg(F().sum("v"), F().count_distinct("l")),
    "group by more": lambda i: i.hashed.groupBy("l", "k").count(),
    "group by both keys": lambda i: i.pair.groupBy("l", "k").count(),
    "the key renamed": lambda i: i.hashed.select(F().col("k").alias("a")).groupBy("a").count(),
    "renamed in place": lambda i: i.hashed.withColumnRenamed("K", "a").groupBy("a").count(),
    "all renamed": lambda i: i.hashed.toDF("a", "b", "c").groupBy("a").count(),
    "distinct": lambda i: i.hashed.distinct(),
    "distinct in the key": lambda i: i.hashed.dropDuplicates(["k", "v"]),
    "window": lambda i: i.hashed.withColumn("n", F().row_number().over(W().partitionBy("k", "l").orderBy("v"))),
    "aggregate window": lambda i: i.hashed.select("*", F().sum("v").over(W().partitionBy("k"))),
    "hash join": lambda i: i.hashed.join(i.twin, "k"),
    "full outer hash join": lambda i: i.hashed.join(i.twin, "k", "full"),
    "hash join by condition": lambda i: i.hashed.join(i.twin, i.hashed.k == i.twin.k).groupBy(i.hashed.k).count(),
    "null-safe join": lambda i: i.hashed.join(i.twin, i.twin.k.eqNullSafe(i.hashed.k) & (F().col("v") > 1)),
    "the other side's key": lambda i: i.hashed.join(i.other, i.hashed.k == i.other.o).groupBy("o").count(),
    "the other side's key by its frame": lambda i: (
        i.hashed.join(i.other, F().expr("k = o and v > 1")).groupBy(i.other.o).count()
    ),
    "bare names": lambda i: i.hashed.join(i.other, F().col("k") == F().col("o")).join(
        i.twin.toDF("a", "b"), F().col("a") == F().col("o")
    ),
    "the broadcast's key": lambda i: (
        i.hashed.join(i.small.toDF("x", "y"), F().col("x") == F().col("k")).groupBy("x").count()
    ),
    "after a broadcast": lambda i: i.hashed.join(i.small.select("w"), F().col("w") == F().col("v")).join(
        i.other, F().col("k") == F().col("o")
    ),
    "self join by alias": lambda i: (
        i.hashed.alias("a").join(i.hashed.alias("b"), F().expr("a.k = b.k and a.v < b.v")).groupBy("a.k").count()
    ),
    "semi joins by alias": lambda i: (
        i.hashed.alias("a")
        .join(i.hashed.alias("b"), F().col("a.k") == F().col("b.k"), "left_semi")
        .join(i.hashed.alias("b"), (F().col("b.k") == F().col("a.k")) & (F().col("a.v") != F().col("b.v")), "left_anti")
    ),
    "joined with its own groups": lambda i: i.hashed.join(i.hashed.groupBy("k").agg(F().min("v").alias("m")), "k"),
    "joined with its own groups by frame": lambda i: (
        lambda lowest: i.hashed.join(lowest, (i.hashed.k == lowest.g) & (i.hashed.v == lowest.m))
    )(i.hashed.groupBy(F().col("k").alias("g")).agg(F().min("v").alias("m"))),
    "the other key dropped": lambda i: (
        i.hashed.join(i.twin, i.hashed.k == i.twin.k).drop(i.twin.k).groupBy("k").count()
    ),
    "broadcast join": lambda i: i.hashed.join(i.small, "k", "left").groupBy("k").count(),
    "broadcast on the left": lambda i: i.small.join(i.hashed, "k", "right"),
    "broadcast semi": lambda i: i.spread.join(i.small, "k", "left_semi"),
    "cross join": lambda i: i.spread.crossJoin(i.small),
    "limit of the broadcast": lambda i: i.spread.crossJoin(i.small.orderBy("w").limit(1)),
    "union all": lambda i: i.spread.union(i.hashed),
    "union of hashed": lambda i: i.hashed.unionByName(i.hashed).groupBy("k").count(),
    "intersect": lambda i: i.hashed.intersect(i.hashed),
    "sort within": lambda i: i.spread.sortWithinPartitions("v"),
    "repartition": lambda i: i.spread.repartition(3, "k").hint("x").coalesce(1),
    "sample by": lambda i: i.spread.sampleBy("k", {1: 0.5}),
    "pivot with values": lambda i: i.hashed.groupBy("k").pivot("l", ["a"]).agg(F().sum("v")),
    "unpivot": lambda i: i.hashed.unpivot("k", ["v"], "n", "x"),
    "SQL over a view": lambda i: viewed(i, "select k, sum(v) as s, max(l) over (partition by k) from ta group by k, l"),
    "SQL with a CTE": lambda i: viewed(
        i,
        "/* of ( */ with x as (select k, max(v) mv from ta group by k) select ta.k, v, mv from ta join x on ta.k = x.k",
    ),
    "SQL over views of both kinds": lambda i: viewed(i, "select ta.*, w from ta left join tiny on ta.v = tiny.k"),
    "SQL over a view of a view": lambda i: (
        viewed(i, "create or replace temp view tb as select k as kk, v from ta")
        and i.spark.sql("select kk, count(*) from tb group by kk")
    ),
    "SQL over a frame": lambda i: i.spark.sql("select k, min(v) from {f} group by k", f=i.hashed),
    "a table that is a view": lambda i: viewed(i, "select 1") and i.spark.table("ta").groupBy("K").count(),
    "a transform chain in SQL text": lambda i: (
        i.hashed.transform(lambda f: f.selectExpr("k as q", "v")).groupBy("q").count()
    ),
    "dropping duplicates by more": lambda i: i.hashed.dropDuplicates(["v", "K"]),
    "a decision": decided,
    "a registered function": lambda i: (
        i.spark.udf.register("twice", lambda v: v * 2, "int")
        and i.hashed.selectExpr("k", "twice(v) t").groupBy("k").count()
    ),
    "hints are the planner's": lambda i: i.hashed.join(F().broadcast(i.twin), "k").hint("merge").groupBy("k").count(),
    "a view beside its frame": lambda i: viewed(
        i, "select k, v from ta where exists (select 1 from ta t where t.k = ta.k and t.v > 1)"
    ).join(i.hashed, "k"),
    "collated keys": lambda i: i.cased_text.join(i.cased_text.groupBy("c").count(), "c", "full"),
    "float keys": lambda i: i.real.groupBy("x").agg(F().sum("v")).join(i.single, "x", "left"),
    "a window by a float": lambda i: i.real.withColumn("n", F().row_number().over(W().partitionBy("x").orderBy("v"))),
    "sessions of a key": lambda i: i.hashed.groupBy("k", session()).agg(F().sum("v")),
    "struct fields": lambda i: i.event.groupBy("id").agg(F().max("event.event_id")),
    "columns of one name but for case": lambda i: sensitive(i, lambda f: f.groupBy("k").agg(F().max("K"))),
    "nothing at all": lambda i: i.spread.where("false").groupBy("k").count(),
    "one of a broadcast's keys, or": lambda i: viewed(
        i, "select k, v from ta where k in (select k from tiny) or v > 2"
    ),
    "a subquery over a broadcast": lambda i: viewed(i, "select k, v from ta where v > (select avg(w) from tiny)"),
    "a column called rand(1)": lambda i: i.spread.select(F().col("v").alias("rand(1)"), "k").where("`rand(1)` > 1"),
    "a sample": lambda i: i.spread.sample(0.5),
    "seeds that Spark draws": lambda i: viewed(
        i, "select *, rand() r, uuid() u, randstr(3) s, uniform(1, 5) n from ta tablesample (50 percent)"
    ),
    "seeds that nobody gives in SQL": lambda i: i.spread.selectExpr("uuid() as u", "shuffle(array(k, v)) as s"),
    "a list that is shuffled": lambda i: i.spread.select(F().shuffle(F().array("k", "v"))),
    "groups in Python": lambda i: i.hashed.groupBy("k").applyInPandas(lambda f: f, "k int, l string, v int"),
    "cogroups in Python": lambda i: (
        i.hashed.groupBy("k").cogroup(i.hashed.groupBy("k")).applyInPandas(lambda a, b: a, "k int, l string, v int")
    ),
    "random in a column without a name": lambda i: i.spread.select(
        "v", F().length(F().uuid()), F().size(F().shuffle(F().array("k", "v")))
    ),
    "words in text": lambda i: i.spread.where("l = 'sum(x)' -- count(*)\n and `l` <> \"first(y)\""),
}

REFUSED = {
    "groupBy(l)": lambda i: i.hashed.groupBy("l").count(),
    "groupBy() of everything": lambda i: i.hashed.agg(F().sum("v")),
    "groupBy(k)": lambda i: i.spread.groupBy("k").count(),
    "groupBy(k) ": lambda i: i.pair.groupBy("k").count(),
    "groupBy(k)  ": lambda i: i.hashed.withColumn("K", F().col("v")).groupBy("k").count(),
    "groupBy(a)": lambda i: i.hashed.select(F().upper("k").alias("a")).groupBy("a").count(),
    "groupBy(_groupingexpression)": lambda i: i.hashed.groupBy(F().upper("k")).count(),
    "groupBy() of everything      ": lambda i: i.hashed.where(F().col("v").eqNullSafe(None)).agg(F().sum("v")),
    "a table function in Python": counted_at_the_end,
    "every subtask returns the same rows": lambda i: i.hashed.where("1 = 0").agg(F().count("*")),
    "a set operation with rows that every subtask has whole": lambda i: i.hashed.select("k").union(
        i.hashed.where("false").agg(F().max("k"))
    ),
    "groupBy(v)  ": lambda i: i.hashed.where(~F().col("l").eqNullSafe(None)).groupBy("v").count(),
    "groupBy(l) ": lambda i: (
        i.hashed.join(i.twin, i.twin.k.eqNullSafe(i.hashed.k) & i.twin.w.eqNullSafe(None)).groupBy(i.hashed.l).count()
    ),
    "monotonically_increasing_id() ": lambda i: (
        i.hashed.withColumn("n", F().when(F().col("l").eqNullSafe(None), F().monotonically_increasing_id()))
        .groupBy("k")
        .agg(F().max("n"))
    ),
    "groupBy(k)   ": lambda i: i.hashed.fillna(0).groupBy("k").count(),
    "groupBy(k)    ": lambda i: i.hashed.join(i.twin, "k", "right").groupBy(i.hashed.k).count(),
    "groupBy(k)     ": lambda i: i.hashed.join(i.twin, "k", "left").groupBy(i.twin.k).count(),
    "groupBy(o)": lambda i: i.hashed.join(i.other, i.hashed.k == i.other.o, "left").groupBy("o").count(),
    "groupBy(w)": lambda i: (
        i.hashed.join(i.twin, "k").join(i.small.toDF("x", "w"), F().col("k") == F().col("x")).groupBy(i.twin.w).count()
    ),
    "groupBy(o) ": lambda i: (
        i.hashed.join(i.other, i.hashed.k == i.other.o)
        .join(i.small.toDF("o", "y").alias("t"), F().col("y") == F().col("v"))
        .groupBy("t.o")
        .count()
    ),
    "a window partitioned by k": lambda i: i.hashed.join(i.twin, i.hashed.k == i.twin.k, "left").select(
        F().row_number().over(W().partitionBy(i.twin.k).orderBy("v"))
    ),
    "groupBy(k)      ": lambda i: (
        i.hashed.alias("a").join(i.hashed.alias("b"), F().expr("a.k = b.k"), "left").groupBy("b.k").count()
    ),
    "a left outer join on k": lambda i: i.hashed.alias("a").join(i.spread.alias("b"), F().expr("a.k = b.k"), "left"),
    "a join that does not say": lambda i: i.hashed.join(i.other, F().expr("k = o or v = p")),
    "rollup, cube or grouping sets (k, spark_grouping_id) needs more than a share: set": lambda i: i.hashed.rollup(
        "k"
    ).count(),
    "a groupBy with several distinct aggregates needs more than a share: set": lambda i: i.hashed.groupBy("k").agg(
        F().count_distinct("v"), F().count_distinct("l")
    ),
    "groupBy(gid)": lambda i: i.hashed.unpivot("k", ["v"], "n", "gid").groupBy("gid").count(),
    "pivot without": lambda i: i.hashed.groupBy("k").pivot("l").agg(F().sum("v")),
    "distinct": lambda i: i.spread.distinct(),
    "dropDuplicates(v)": lambda i: i.hashed.dropDuplicates(["v"]),
    "limit": lambda i: i.hashed.limit(3),
    "limit ": lambda i: i.hashed.offset(3),
    "orderBy": lambda i: i.hashed.orderBy("k"),
    "a window partitioned by l": lambda i: i.hashed.select(F().row_number().over(W().partitionBy("l").orderBy("v"))),
    "a window partitioned by nothing": lambda i: i.hashed.select(F().lag("v").over(W().orderBy("v"))),
    "groupBy() of everything ": lambda i: i.hashed.select(F().sum("v")),
    "groupBy() of everything     ": lambda i: i.hashed.groupBy(session()).count(),
    "groupBy(l)  ": lambda i: i.hashed.groupBy("l", session()).count(),
    "monotonically_increasing_id()": lambda i: i.spread.withColumn("i", F().monotonically_increasing_id()),
    "groupBy() of everything  ": lambda i: i.hashed.selectExpr("`max` (v)"),
    "a left semi join whose right side every subtask has whole": lambda i: i.hashed.where("k in (select 1)"),
    "an inner join on l": lambda i: i.hashed.join(i.hashed, "l"),
    "an inner join on k": lambda i: i.hashed.join(i.pair, "k"),
    "a join that does not say ": lambda i: i.hashed.crossJoin(i.twin),
    "a full outer join whose right": lambda i: i.hashed.join(i.small, "k", "full"),
    "a left outer join whose left": lambda i: i.small.join(i.hashed, "k", "left"),
    "a left semi join whose left": lambda i: i.small.join(i.hashed, "k", "left_semi"),
    "a right outer join whose right": lambda i: i.hashed.join(i.small, "k", "right"),
    "rows that every subtask has whole": lambda i: i.spread.select("k", "v").union(i.small),
    "groupBy(k, l)": lambda i: i.hashed.select("k", "l").intersect(i.hashed.select("l", "k")),
    "mapInPandas": lambda i: i.hashed.mapInPandas(lambda batches: batches, "k int"),
    "observe": lambda i: i.hashed.observe("o", F().count(F().lit(1))),
    "observe ": lambda i: (i.hashed.observe("o", F().count(F().lit(1))).count(), i.hashed)[1],
    "describe": lambda i: i.hashed.describe("v"),
    "groupBy(l) with a function over groups": lambda i: i.hashed.groupBy("l").applyInPandas(lambda f: f, "k int"),
    "distinct(m)": lambda i: lost(i, lambda j, r: j.drop(i.hashed.k).drop("g").select("*").drop("v", "mx").distinct()),
    "distinct(m) ": lambda i: lost(i, lambda j, r: j.drop(i.hashed.k, r.g, i.hashed.v, r.mx).distinct()),
    "distinct(m)  ": lambda i: lost(
        i, lambda j, r: j.join(i.twin, i.hashed.k == i.twin.k).drop(i.hashed.k, i.twin.k).select("m").distinct()
    ),
    "distinct(m)   ": lambda i: lost(
        i, lambda j, r: j.join(i.small, i.hashed.k == i.small.k).drop(i.hashed.k).select("m").distinct()
    ),
    "groupBy(": lambda i: i.event.alias("event").withColumnRenamed("id", "event_id").groupBy("event.event_id").count(),
    "on cast(event.event_id as bigint)": lambda i: (
        i.event.alias("event")
        .withColumnRenamed("id", "event_id")
        .join(i.twin, F().col("event.event_id") == F().col("k"))
    ),
    "groupBy(K)": lambda i: sensitive(i, lambda f: f.groupBy("K").count()),
    "groupBy() of everything   ": lambda i: i.spread.select(F().expr("sum/**/(v)")),
    "groupBy() of everything    ": lambda i: i.spread.select(F().expr("IDENTIFIER('su' || 'm')(v)")),
    "uuid() with a seed": lambda i: i.spread.select(F().expr("uuid(42)")),
    "rand() with a seed": lambda i: i.spread.withColumn("r", F().rand(42)),
    "shuffle() with a seed": lambda i: i.spread.select(F().expr("shuffle(array(k, v), 7)")),
    "rand() with a seed ": lambda i: i.spread.withColumn("r", F().rand(20261126112233)),
    "rand() with a seed  ": lambda i: i.spread.selectExpr("rand(2026 * 1000000000L) as r"),
    "uuid() with a seed ": lambda i: i.spread.selectExpr("uuid(9007199254740993) as u", "uuid() as v", "rand() as r"),
    "a sample with a seed ": lambda i: i.spread.sample(fraction=0.5, seed=1 << 40),
    "a sample with a seed": lambda i: i.spread.sample(fraction=0.5, seed=7),
    "spark_partition_id()": lambda i: i.spread.where(F().spark_partition_id() == 0),
    "input_file_name()": lambda i: i.spread.select(F().input_file_name()),
    "a random value": lambda i: i.spread.join(i.small.withColumn("u", F().expr("uuid()")), "k"),
    "a random value ": lambda i: i.spread.join(i.small.orderBy(F().rand()).limit(2), "k"),
    "a random value  ": lambda i: i.spread.join(i.small.sample(0.5), "k"),
    "declared not to be deterministic": lambda i: i.spread.join(
        i.small.withColumn("u", F().udf(lambda w: w, "int").asNondeterministic()("w")), "k"
    ),
    "a subquery over shares": lambda i: viewed(i, "select k, v from ta where v > (select avg(v) from ta)"),
    "left anti join": lambda i: viewed(i, "select k, v from ta where v not in (select v from ta)"),
    "distinct(v)": lambda i: viewed(i, "select distinct v from ta"),
    "limit  ": lambda i: viewed(i, "select * from ta limit 3"),
    "groupBy(v)": lambda i: i.hashed.repartition(4, "v").groupBy("v").count(),
    "rows distributed by v": lambda i: viewed(i, "select * from ta distribute by v"),
    "a right outer join whose right ": lambda i: i.hashed.join(i.small, i.hashed.v < i.small.w, "right"),
    "a full outer join whose": lambda i: i.hashed.join(i.small, i.hashed.v < i.small.w, "full"),
    "a set operation with rows": lambda i: i.spread.select("k").union(i.spark.range(3).selectExpr("cast(id as int)")),
    "SQL text that is no query": lambda i: i.spark.sql("create table t(a int) using parquet"),
    "a number would take it for all": lambda i: i.spread.withColumn("p", F().col("v") / i.spread.count()),
    "a number would take it for all ": lambda i: i.spread.where(f"v > {int(i.spread.count())}"),
    "collecting rows": lambda i: (i.spread.collect(), i.spread)[1],
    "collecting rows ": lambda i: (viewed(i, "select count(*) from ta").collect(), i.spread)[1],
    "a view for all sessions": lambda i: (i.spread.createGlobalTempView("g"), i.spread)[1],
    "a write of its own": lambda i: (i.spread.write.parquet("/tmp/x"), i.spread)[1],
    "returns the same rows": lambda i: i.small.groupBy("k").count(),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_right_on_shares(inputs: Inputs, name: str) -> None:
    inputs.judge(ALLOWED[name])


@pytest.mark.filterwarnings("ignore:.*No Partition Defined")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_on_shares_is_named(inputs: Inputs, name: str) -> None:
    with pytest.raises(PipelineRefused) as refused:
        inputs.judge(REFUSED[name])
    assert name.strip() in str(refused.value)


def test_a_view_that_a_function_with_leave_has_made_is_a_share(inputs: Inputs) -> None:
    made = Function(name="made", uid="made", kind=FunctionKind.TRANSFORM, per_share=True)
    inputs.judge(lambda i: viewed(i, "select * from ta limit 1"), made)
    with pytest.raises(PipelineRefused, match="join"):
        inputs.judge(lambda i: i.hashed.join(i.spark.table("ta"), "v"))


def test_what_a_function_with_leave_returns_lies_anywhere(inputs: Inputs) -> None:
    made = Function(name="made", uid="made", kind=FunctionKind.TRANSFORM, per_share=True)
    frames: list[Any] = []
    frames.append(inputs.hashed.limit(3))
    inputs.judge(lambda i: frames[0], made)
    inputs.judge(lambda i: frames[0].where("v > 1"))
    with pytest.raises(PipelineRefused, match="groupBy"):
        inputs.judge(lambda i: frames[0].groupBy("v").count())


@pytest.mark.parametrize("operator", ["limit", "offset", "orderBy", "distinct"])
def test_that_a_share_has_few_rows_makes_no_operator_superfluous(inputs: Inputs, operator: str) -> None:
    """All shares together have more."""
    made = Function(name="made", uid="made", kind=FunctionKind.TRANSFORM, per_share=True)
    frames: list[Any] = []
    frames.append(inputs.hashed.agg(F().max("v").alias("v")))
    inputs.judge(lambda i: frames[0], made)
    given = {"limit": (5,), "offset": (5,), "orderBy": ("v",), "distinct": ()}[operator]
    with pytest.raises(PipelineRefused, match="limit" if operator == "offset" else operator):
        inputs.judge(lambda i: getattr(frames[0], operator)(*given))


def test_a_mistake_is_told_of_the_users_own_plan(inputs: Inputs) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="nowhere") as raised:
        inputs.judge(lambda i: i.hashed.select("nowhere"))
    assert "firesteel-share" not in str(raised.value)
