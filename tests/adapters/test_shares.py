"""The walk over unresolved plans: what may run on shares of the rows, what may not. No Spark answers here."""

from tests.connectmode import connect_mode  # isort: skip

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session import LoopbackChannel
from firesteel.adapters.spark.shareguard import ShareGuard
from firesteel.adapters.spark.shares import PlanWalk
from firesteel.adapters.spark.sharing import PART, Share
from firesteel.adapters.spark.wire import Endpoint, SessionName
from firesteel.model.ids import DataSetID, JobVertexID
from firesteel.model.jobgraph import Function, FunctionKind, JobEdge, Partitioner

COLUMNS = ("k", "l", "v")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session that never reaches a server: plans are built without one."""
    with connect_mode(), pytest.MonkeyPatch.context() as patched:
        patched.setattr("pyspark.errors.utils.is_debugging_enabled", lambda: False)  # else it asks the server
        patched.setattr("pyspark.sql.connect.conf.RuntimeConf.get", lambda conf, key, default=None: "false")
        yield from _session()


def _session() -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    channel: Any = LoopbackChannel(
        Endpoint(port=1, token="", generation=0), SessionName("t", "00000000-0000-4000-8000-000000000000")
    )
    session = SparkSession.builder.channelBuilder(channel).create()
    session.client._plan_compression_threshold, session.client._plan_compression_algorithm = -1, "NONE"
    yield session
    session.client._channel.close()


def _schema(columns: tuple[str, ...]) -> Any:
    from pyspark.sql.types import StringType, StructType

    schema = StructType()
    for name in columns:
        schema.add(name, StringType())
    return schema


class Inputs:
    """Frames of every distribution, all with the columns k, l and v."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.known: dict[int, Share] = {}
        self.hashed = self._frame(Share(whole=False, keys=(frozenset("k"),), columns=COLUMNS))
        self.twin = self._frame(Share(whole=False, keys=(frozenset("k"),), columns=("k", "w")))
        self.other = self._frame(Share(whole=False, keys=(frozenset("o"),), columns=("o", "p")))
        self.pair = self._frame(Share(whole=False, keys=(frozenset("k"), frozenset("l")), columns=COLUMNS))
        self.spread = self._frame(Share(whole=False, columns=COLUMNS))
        self.tiny = self._frame(Share(whole=True, columns=("y", "o")))
        self.small = self._frame(Share(whole=True, columns=("k", "w")))

    def _frame(self, share: Share) -> Any:
        frame = self.spark.read.table("t")
        self.known[frame._plan._plan_id] = share
        frame._cached_schema = _schema(share.columns or ())
        return frame

    def share(self, frame: Any, refuse: Callable[[str], None]) -> Share:
        return PlanWalk(self.known, refuse).share_of(frame._plan.plan(self.spark.client))


@pytest.fixture
def inputs(spark: Any) -> Inputs:
    return Inputs(spark)


def F() -> Any:
    from pyspark.sql import functions

    return functions


def W() -> Any:
    from pyspark.sql import Window

    return Window


ALLOWED = {
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
    "full outer hash join": lambda i: i.hashed.join(i.twin, "k", "full").groupBy("k").count(),
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
    "sample": lambda i: i.spread.sample(0.5, seed=1),
    "pivot with values": lambda i: i.hashed.groupBy("k").pivot("l", ["a"]).agg(F().sum("v")),
    "unpivot": lambda i: i.hashed.unpivot("k", ["v"], "n", "x").groupBy("k").count(),
    "words in text": lambda i: i.spread.where("l = 'sum(x)' -- count(*)\n and `sum` = \"first(y)\""),
}

REFUSED = {
    "groupBy(l)": lambda i: i.hashed.groupBy("l").count(),
    "groupBy() of everything": lambda i: i.hashed.agg(F().sum("v")),
    "groupBy(k)": lambda i: i.spread.groupBy("k").count(),
    "groupBy(k) ": lambda i: i.pair.groupBy("k").count(),
    "groupBy(k)  ": lambda i: i.hashed.withColumn("K", F().lit(1)).groupBy("k").count(),
    "groupBy(a)": lambda i: i.hashed.select(F().upper("k").alias("a")).groupBy("a").count(),
    "groupBy(an expression)": lambda i: i.hashed.groupBy(F().upper("k")).count(),
    "groupBy(k)   ": lambda i: i.hashed.fillna(0).groupBy("k").count(),
    "groupBy(k)    ": lambda i: i.hashed.join(i.twin, "k", "right").groupBy(i.hashed.k).count(),
    "groupBy(k)     ": lambda i: i.hashed.join(i.twin, "k", "left").groupBy(i.twin.k).count(),
    "groupBy(o)": lambda i: i.hashed.join(i.other, i.hashed.k == i.other.o, "left").groupBy("o").count(),
    "groupBy(w)": lambda i: (
        i.hashed.join(i.twin, "k").join(i.small.toDF("x", "w"), F().col("k") == F().col("x")).groupBy(i.twin.w).count()
    ),
    "groupBy(o) ": lambda i: (
        i.hashed.join(i.other, i.hashed.k == i.other.o)
        .join(i.tiny, F().col("y") == F().col("v"))
        .groupBy(i.tiny.o)
        .count()
    ),
    "a window partitioned by k": lambda i: i.hashed.join(i.twin, i.hashed.k == i.twin.k, "left").select(
        F().row_number().over(W().partitionBy(i.twin.k).orderBy("v"))
    ),
    "groupBy(k)      ": lambda i: (
        i.hashed.alias("a").join(i.hashed.alias("b"), F().expr("a.k = b.k"), "left").groupBy("b.k").count()
    ),
    "a left outer join on k": lambda i: i.hashed.alias("a").join(i.spread.alias("b"), F().expr("a.k = b.k"), "left"),
    "an inner join that does not say": lambda i: i.hashed.join(i.other, F().expr("k = o or v = p")),
    "rollup": lambda i: i.hashed.rollup("k").count(),
    "pivot without": lambda i: i.hashed.groupBy("k").pivot("l").agg(F().sum("v")),
    "distinct": lambda i: i.spread.distinct(),
    "dropDuplicates(v)": lambda i: i.hashed.dropDuplicates(["v"]),
    "limit": lambda i: i.hashed.limit(3),
    "offset": lambda i: i.hashed.offset(3),
    "orderBy": lambda i: i.hashed.orderBy("k"),
    "a window partitioned by l": lambda i: i.hashed.select(F().row_number().over(W().partitionBy("l").orderBy("v"))),
    "a window partitioned by nothing": lambda i: i.hashed.select(F().lag("v").over(W().orderBy("v"))),
    "sum()": lambda i: i.hashed.select(F().sum("v")),
    "monotonically_increasing_id()": lambda i: i.spread.withColumn("i", F().monotonically_increasing_id()),
    "max() in SQL text": lambda i: i.hashed.selectExpr("`max` (v)"),
    "OVER in SQL text": lambda i: i.hashed.selectExpr("row_count over w"),
    "SELECT in SQL text": lambda i: i.hashed.where("k in (select 1)"),
    "an inner join on l": lambda i: i.hashed.join(i.hashed, "l"),
    "an inner join on k": lambda i: i.hashed.join(i.pair, "k"),
    "a cross join that does not say": lambda i: i.hashed.crossJoin(i.twin),
    "a full outer join whose right": lambda i: i.hashed.join(i.small, "k", "full"),
    "a left outer join whose left": lambda i: i.small.join(i.hashed, "k", "left"),
    "a left semi join whose left": lambda i: i.small.join(i.hashed, "k", "left_semi"),
    "a right outer join whose right": lambda i: i.hashed.join(i.small, "k", "right"),
    "rows that every subtask has whole": lambda i: i.spread.select("k", "v").union(i.small),
    "without duplicates": lambda i: i.hashed.select("k", "l").intersect(i.hashed.select("l", "k")),
    "mapInPandas": lambda i: i.hashed.mapInPandas(lambda batches: batches, _schema(("k",))),
    "observe": lambda i: i.hashed.observe("o", F().count(F().lit(1))),
    "describe": lambda i: i.hashed.describe("v"),
    "groupBy(l) with a function over groups": lambda i: i.hashed.groupBy("l").applyInPandas(
        lambda f: f, _schema(("k",))
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_right_on_shares(inputs: Inputs, name: str) -> None:
    def refuse(operator: str) -> None:
        pytest.fail(f"refused: {operator}")

    assert not inputs.share(ALLOWED[name](inputs), refuse).whole


@pytest.mark.filterwarnings("ignore:.*No Partition Defined")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_on_shares_is_named(inputs: Inputs, name: str) -> None:
    named: list[str] = []
    assert not inputs.share(REFUSED[name](inputs), named.append).whole
    assert any(name.strip() in operator for operator in named), named


def test_what_only_reads_broadcast_inputs_is_whole(inputs: Inputs) -> None:
    frame = inputs.small.groupBy("w").count().join(inputs.spark.range(3), "w").orderBy("w").limit(2)
    assert inputs.share(frame, pytest.fail).whole


def test_the_guard_names_function_operator_and_ways_out(spark: Any) -> None:
    guard = ShareGuard(spark, 4)
    frame = spark.read.table("t")
    edge = JobEdge(source=DataSetID("d"), target=JobVertexID("v"), partitioner=Partitioner.HASH, keys=("K",))
    guard.given(frame, edge, COLUMNS)
    function = Function(name="counts", uid="counts", kind=FunctionKind.TRANSFORM, inputs=("words",))
    guard.returned(function, frame.groupBy("k").count())
    with pytest.raises(PipelineRefused) as refused:
        guard.returned(function, frame.limit(1))
    for part in ("counts has parallelism 4", "limit", '{"words": fs.hash_by(...)}', "parallelism=1", "per_share=True"):
        assert part in str(refused.value)
    with pytest.raises(PipelineRefused, match="collecting rows"):
        guard.call(function, frame.collect)
    with pytest.raises(PipelineRefused, match="a write of its own"):
        guard.call(function, lambda: frame.write.parquet("/tmp/x"))
    with pytest.raises(PipelineRefused, match="a view"):
        guard.call(function, lambda: frame.createOrReplaceTempView("x"))
    with pytest.raises(PipelineRefused, match="the same rows"):
        guard.returned(function, spark.range(3))
    shared = Function(name="counts", uid="counts", kind=FunctionKind.TRANSFORM, per_share=True)
    limited = frame.limit(1)
    guard.returned(shared, limited)
    assert guard._known[limited._plan._plan_id].keys == (frozenset("k"),)
    generated = spark.range(3)
    guard.returned(shared, generated)
    assert guard._known[generated._plan._plan_id] == PART
    spark.client._session_hooks.clear()
