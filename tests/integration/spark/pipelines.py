"""Random pipelines over random typed rows, for the property that parallelism changes no result."""

import datetime
import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

import firesteel as fs

FACTS = (
    "g int, x double, d decimal(12,3), s string, day date, t timestamp, n bigint, a array<int>,"
    " r struct<p: int, q: string>"
)
DIMENSION = "g bigint, x float, d decimal(20,5), s string, day date, w int"
KEYS = ("g", "x", "d", "s", "day")
_DAYS = st.sampled_from([datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), None])
_KEY_VALUES = {
    "g": st.sampled_from([0, 0, 0, 1, 2, -1, 7, None]),
    "x": st.sampled_from([0.0, -0.0, float("nan"), 1.5, float("inf"), None]),
    "d": st.sampled_from([Decimal("0.000"), Decimal("1.500"), Decimal("-12345.125"), None]),
    "s": st.sampled_from(["", "a", "A", "ö", None]),
    "day": _DAYS,
}
_KEY_ROWS = st.tuples(*_KEY_VALUES.values())
_FACT_ROWS = st.tuples(
    _KEY_ROWS,
    st.sampled_from([datetime.datetime(2024, 2, 29, 12, 0, 0, 1), datetime.datetime(1969, 1, 1), None]),  # noqa: DTZ001
    st.integers(-5, 5),
    st.sampled_from([None, [], [1, None], [2, 3]]),
    st.sampled_from([None, (1, "p"), (None, None)]),
).map(lambda row: (*row[0], *row[1:]))
_DIMENSION_ROWS = st.tuples(_KEY_ROWS, st.integers(0, 9)).map(lambda row: (*row[0], row[1]))

Step = tuple[str, str, str]
"""Operation, key, kind of join."""
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["filter", "column", "group", "distinct", "dedup", "join", "lookup", "union", "rename"]),
        st.sampled_from(KEYS),
        st.sampled_from(["inner", "left", "right", "full", "left_semi", "left_anti"]),
    ),
    min_size=2,
    max_size=4,
)
CASES = st.tuples(st.lists(_FACT_ROWS, max_size=25), st.lists(_DIMENSION_ROWS, max_size=6), _STEPS)

_FULL_KEYS = (
    (0, -0.0, Decimal("1.500"), "a", datetime.date(2024, 2, 29)),
    (0, 0.0, Decimal("0.000"), "A", None),
    (None, float("nan"), None, None, datetime.date(1970, 1, 1)),
    (7, 1.5, Decimal("-12345.125"), "ö", datetime.date(2024, 2, 29)),
)
_MOMENT = datetime.datetime(2024, 2, 29, 12, 0, 0, 1)  # noqa: DTZ001
RICH = (
    [(*key, _MOMENT, number, [number, None], (number, "p")) for number in range(6) for key in _FULL_KEYS],
    [(*key, number) for number, key in enumerate(_FULL_KEYS[:3])],
    [("union", "g", "inner"), ("join", "x", "full"), ("group", "d", "inner"), ("lookup", "s", "left")],
)
"""A case that is never left out: skew, nulls, NaN, -0.0 and decimals through joins of both kinds and a group."""


def pipeline_of(case: tuple[Any, Any, Sequence[Step]], parallelism: int, output: str) -> fs.Pipeline:
    """The steps of a case as functions `step0`, `step1`, ... between two sources and a sink."""
    facts, dimension, steps = case
    pipeline = fs.Pipeline("random")

    @pipeline.source
    def facts_(spark: Any) -> Any:
        return spark.createDataFrame(facts, FACTS)

    def other(spark: Any) -> Any:
        return spark.createDataFrame(dimension, DIMENSION)

    if any(step[0] in ("join", "lookup") for step in steps):
        pipeline.source(other)

    previous = "facts_"
    for number, step in enumerate(steps):
        name = f"step{number}"
        body, inputs = _step(step, previous)
        body.__name__ = name
        pipeline.transform(parallelism=parallelism, inputs=inputs)(body)
        previous = name
    sink = _with_arguments(lambda frame: fs.write_parquet(frame, output), [previous])
    sink.__name__ = "result"
    pipeline.sink(parallelism=parallelism, inputs={previous: fs.forward()})(sink)
    return pipeline


def plain(pipeline: fs.Pipeline, spark: Any) -> Any:
    """What plain PySpark makes of the pipeline: its functions called one after another."""
    frames: dict[str, Any] = {"spark": spark}
    last = None
    for each in pipeline.definitions[:-1]:
        assert each.callable is not None
        last = frames[each.name] = each.callable(*[frames[argument.name] for argument in each.arguments])
    return last


def counted(rows: Sequence[Any]) -> Counter[Any]:
    return Counter(tuple(_comparable(value) for value in row) for row in rows)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal):
        return str(value.normalize() + 0)
    return tuple(map(_comparable, value)) if isinstance(value, list | tuple) else value


def _step(step: Step, previous: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    from pyspark.sql import functions as F

    operation, key, how = step
    hashed = {previous: fs.hash_by(key)}
    columns = [*KEYS, "t", "n", "a", "r"]
    least = [F.min(name).alias(name) for name in columns if name not in (key, "n")]

    def one(call: Callable[[Any], Any], inputs: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
        return _with_arguments(call, [previous]), inputs

    def two(call: Callable[[Any, Any], Any], other: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
        first = hashed if other != fs.broadcast() else {previous: fs.rebalance()}
        return _with_arguments(call, [previous, "other"]), {**first, "other": other}

    match operation:
        case "filter":
            return one(lambda f: f.where("n > -3 or g is null"), {previous: fs.rebalance()})
        case "column":
            return one(lambda f: f.withColumn("n", F.col("n") * 2 + F.coalesce("g", F.lit(1))), hashed)
        case "group":
            return one(
                lambda f: f.groupBy(key).agg(*least, F.sum("n").cast("bigint").alias("n")).select(columns), hashed
            )
        case "distinct":
            return one(lambda f: f.select(columns).distinct(), hashed)
        case "dedup":
            return one(lambda f: f.select(key, "n").dropDuplicates([key, "n"]).transform(_padded(key)), hashed)
        case "join":
            return two(lambda f, o: f.join(o.select(key, "w"), key, how).select(columns), fs.hash_by(key))
        case "lookup":
            kind = how if how in ("inner", "left", "left_semi", "left_anti") else "inner"
            return two(lambda f, o: f.join(o.select(key, "w"), key, kind).select(columns), fs.broadcast())
        case "union":
            return one(lambda f: f.unionAll(f.where("n > 0")), {previous: fs.rebalance()})
        case _:
            renamed = lambda f: f.withColumnRenamed(key, "kk").groupBy("kk").agg(*least, F.max("n").alias("n"))  # noqa: E731
            return one(lambda f: renamed(f).withColumnRenamed("kk", key).select(columns), hashed)


def _padded(key: str) -> Callable[[Any], Any]:
    """Bring a frame of a key and `n` back to all columns."""
    from pyspark.sql import functions as F

    types = dict(part.strip().split(" ", 1) for part in FACTS.replace("(12,3)", "(12;3)").split(", ") if " " in part)

    def pad(frame: Any) -> Any:
        made = []
        for name in [*KEYS, "t", "n", "a", "r"]:
            kind = types.get(name, "int").replace(";", ",") if name != "r" else "struct<p: int, q: string>"
            made.append(F.col(name) if name in (key, "n") else F.lit(None).cast(kind).alias(name))
        return frame.select(made)

    return pad


def _with_arguments(call: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """`call` as a function whose arguments have these names."""
    namespace: dict[str, Any] = {"call": call}
    exec(f"def step({', '.join(names)}): return call({', '.join(names)})", namespace)
    return namespace["step"]  # type: ignore[no-any-return]
