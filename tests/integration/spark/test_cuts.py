"""However a pipeline is cut into regions, its rows, their order where they have one, and their schema are plain Spark's."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from firesteel.adapters.spark.exchange.results import ResultRows
from firesteel.adapters.spark.staged.rows import staged_rows
from firesteel.pipeline.authoring import Pipeline
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.pipelines import _with_arguments

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
pytestmark = [pytest.mark.spark, *([pytest.mark.timeout(0)] if THOROUGH else [])]

Function = tuple[str, str]
"""What a function does, and how its result reaches the next one."""

FUSED, STORED, TWO_READERS = "fused", "stored", "two readers"
ORDERING = ("sort", "sort in SQL", "sort, and drop the key")
KEEPING = ("filter", "column", "nested", "explode", "lookup", "pandas", "view", "rename", "append")
TAKING = ("limit", "offset", "first rows")
UNORDERING = ("group", "distinct", "window", "spread")
FUNCTIONS = st.tuples(
    st.sampled_from([*ORDERING, *ORDERING, *KEEPING, *TAKING, *TAKING, *UNORDERING]),
    st.sampled_from([FUSED, STORED, STORED, TWO_READERS]),
)
CASES = st.lists(FUNCTIONS, min_size=1, max_size=5).map(lambda case: sensible(case))  # noqa: PLW0108 - defined below
FIXED: list[list[Function]] = [
    [("sort", TWO_READERS), ("limit", FUSED)],
    [("sort", STORED), ("filter", STORED), ("first rows", STORED), ("nested", STORED)],
    [("sort in SQL", STORED), ("lookup", STORED), ("offset", STORED), ("view", STORED), ("limit", FUSED)],
    [("sort, and drop the key", STORED), ("pandas", STORED), ("explode", TWO_READERS), ("limit", STORED)],
    [("nested", STORED), ("append", STORED), ("rename", STORED), ("group", STORED), ("column", STORED)],
]


@pytest.fixture(scope="module")
def local(local: InProcess) -> Iterator[InProcess]:
    """In which few rows are several files, and several partitions."""
    local.spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firesteel.adapters.spark.exchange.partitions._SMALL_BYTES", 0)
        yield local


def test_cuts_change_no_result(local: InProcess) -> None:
    phases = tuple(Phase) if THOROUGH else (Phase.explicit, Phase.generate)

    @settings(
        max_examples=300 if THOROUGH else 2, phases=phases, suppress_health_check=list(HealthCheck), deadline=None
    )
    @given(CASES)
    def equal(case: list[Function]) -> None:
        expected = facts(local.spark)
        for operation, _ in case:
            expected = applied(operation, expected)
        found = result_of(local, pipeline_of(case))
        assert found.schema == expected.schema
        shown, wanted = [repr(row) for row in found.rows()], [repr(row) for row in expected.collect()]
        assert shown == wanted if is_ordered(case) else Counter(shown) == Counter(wanted)

    for case in FIXED:
        equal = example(case)(equal)
    equal()


def is_ordered(case: Sequence[Function]) -> bool:
    ordered = False
    for operation, _ in case:
        ordered = operation in ORDERING or (ordered and operation not in UNORDERING)
    return ordered


def sensible(case: Sequence[Function]) -> list[Function]:
    """Without functions that take the first rows where nothing says which these are."""
    kept: list[Function] = []
    for function in case:
        if function[0] not in TAKING or is_ordered(kept):
            kept.append(function)
    return kept


def facts(spark: Any) -> Any:
    """Rows over several partitions, of columns that can't be null and others, with comments and a varchar."""
    from pyspark.sql import functions as F

    rows = spark.range(0, 60, 1, 4).select(
        F.col("id").alias("id", metadata={"comment": "where it came from"}),
        (F.col("id") * 37 % 60).alias("k"),
        F.when(F.col("id") % 7 > 0, F.col("id") % 7).alias("v"),
        F.concat(F.lit("t"), F.col("id").cast("string")).alias(
            "s", metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(9)"}
        ),
    )
    return rows.withColumn("a", F.array(F.lit(1), F.col("v"))).withColumn("r", F.struct("k", "v"))


def applied(operation: str, frame: Any) -> Any:
    """What each function does; the columns stay `facts`'s, though not their nullability."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    spark = frame.sparkSession
    match operation:
        case "sort":
            return frame.orderBy(F.desc("k"), "id", "s", "v", F.to_json("r"))
        case "sort in SQL":
            return spark.sql("SELECT * FROM {f} ORDER BY k % 10, k, id, s, v, to_json(r)", f=frame)
        case "sort, and drop the key":
            return frame.withColumn("key", F.hash("k")).orderBy("key", "id", "s", "v", F.to_json("r")).drop("key")
        case "filter":
            return frame.where("v is not null or k % 2 = 0")
        case "column":
            return frame.withColumn("v", F.coalesce("v", F.lit(-1)))
        case "nested":
            return frame.withColumn("r", F.struct(F.col("k"), F.coalesce("v", F.lit(0)).alias("v")))
        case "explode":
            return frame.withColumn("v", F.explode(F.array("v", F.lit(5)))).withColumn(
                "s", F.concat("s", F.col("v").cast("string"))
            )
        case "lookup":
            other = spark.range(0, 60, 2).select((F.col("id") * 1).alias("k"), F.lit("x").alias("w"))
            return frame.join(F.broadcast(other), "k").select(*frame.columns)
        case "pandas":
            return frame.mapInPandas(lambda parts: (part[part["k"] % 3 > 0] for part in parts), frame.schema)
        case "view":
            frame.createOrReplaceTempView("seen")
            return spark.table("seen").select("*")
        case "rename":
            return frame.withColumnRenamed("k", "kk").withColumnRenamed("kk", "k")
        case "append":
            return frame.union(frame.where("false"))
        case "limit":
            return frame.limit(7)
        case "offset":
            return frame.offset(3).limit(20)
        case "first rows":
            return spark.createDataFrame(frame.take(5), frame.schema)
        case "group":
            return (
                frame.groupBy("k", "id", "s", "r")
                .agg(F.count("*").alias("v"), F.first("a").alias("a"))
                .select(*frame.columns)
            )
        case "distinct":
            return frame.distinct()
        case "window":
            return frame.withColumn(
                "v", F.row_number().over(Window.partitionBy(F.col("k") % 3).orderBy("k", "id", "s"))
            )
        case _:
            return frame.repartition(5)


def pipeline_of(case: Sequence[Function]) -> Pipeline:
    pipeline = Pipeline("cuts")
    source = _with_arguments(facts, ["spark"])
    source.__name__ = "step0"
    pipeline.source(source)
    readers = []
    for number, (operation, cut) in enumerate(case, start=1):
        step = _with_arguments(lambda frame, operation=operation: applied(operation, frame), [f"step{number - 1}"])
        step.__name__ = f"step{number}"
        share: Any = "store" if cut == STORED else None
        pipeline.transform(share=share)(step)
        if cut == TWO_READERS:
            readers.append(number)
    for number in readers:
        reader = _with_arguments(lambda frame: frame.limit(1), [f"step{number}"])
        reader.__name__ = f"reader{number}"
        pipeline.result(reader)
    found = _with_arguments(lambda frame: frame, [f"step{len(case)}"])
    found.__name__ = "found"
    pipeline.result(found)
    return pipeline


def result_of(local: InProcess, pipeline: Pipeline) -> ResultRows:
    (commit,) = [each for each in local.run(pipeline) if each.function == "found"]
    (file,) = local.directory.rglob(staged_rows(Path(), commit.target).name)
    return ResultRows(file.read_bytes())
