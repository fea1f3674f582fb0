"""Random pipelines over random typed rows, for the property that parallelism changes no result."""

import datetime
import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

import firesteel as fs

KEY_TYPES = {
    "g": ("int", "bigint"),
    "x": ("double", "float"),
    "d": ("decimal(12,3)", "decimal(20,5)"),
    "s": ("string", "string"),
    "day": ("date", "date"),
    "z": ("timestamp_ntz", "timestamp_ntz"),
    "b": ("binary", "binary"),
    "i": ("interval day to second", "interval day to hour"),
    "m": ("interval year to month", "interval year"),
    "c": ("string collate UTF8_LCASE", "string collate UTF8_LCASE"),
    "u": ("string collate UNICODE_CI", "string collate UNICODE_CI"),
}
"""Of each column that may be a key: its type in the facts and in what they are joined with."""
VALUE_TYPES = {
    "t": "timestamp",
    "n": "bigint",
    "a": "array<int>",
    "r": "struct<p: int, q: string>",
    "h": "map<string, int>",
    "o": "array<struct<at: timestamp_ntz, sum: decimal(5,2)>>",
}
KEYS = tuple(KEY_TYPES)
TYPES = {**{name: types[0] for name, types in KEY_TYPES.items()}, **VALUE_TYPES}
COLUMNS = list(TYPES)
COLLATED = ("c", "u")
_MOMENT = datetime.datetime(2024, 2, 29, 12, 0, 0, 1)  # noqa: DTZ001
_LONG_AGO = datetime.datetime(1, 1, 1)  # noqa: DTZ001
_DAYS = [datetime.timedelta(0), datetime.timedelta(days=-3, hours=5), datetime.timedelta(1, 2, 3)]
_LETTERS = ["", "a", "A", "ö", "Ö", None]
_KEY_VALUES: dict[str, list[Any]] = {
    "g": [0, 0, 0, 1, 2, -1, 7, None],
    "x": [0.0, -0.0, float("nan"), 1.5, float("inf"), None],
    "d": [Decimal("0.000"), Decimal("1.500"), Decimal("-12345.125"), None],
    "s": _LETTERS,
    "day": [datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), datetime.date(1582, 10, 10), None],
    "z": [_MOMENT, _LONG_AGO, None],
    "b": [b"", b"\0", b"\0\xff", None],
    "i": [*_DAYS, None],
    "m": [0, 12, -36, 14, None],
    "c": _LETTERS,
    "u": _LETTERS,
}
_VALUES: dict[str, list[Any]] = {
    "t": [_MOMENT, datetime.datetime(1900, 1, 1), datetime.datetime(1582, 10, 10), None],  # noqa: DTZ001
    "n": [*range(-5, 6)],
    "a": [None, [], [1, None], [2, 3]],
    "r": [None, (1, "p"), (None, None)],
    "h": [None, {}, {"k": 1, "": None}],
    "o": [None, [], [(_MOMENT, Decimal("0.10")), None, (None, None)]],
}
_KEY_ROWS = st.tuples(*map(st.sampled_from, _KEY_VALUES.values()))
_FACT_ROWS = st.tuples(_KEY_ROWS, st.tuples(*map(st.sampled_from, _VALUES.values()))).map(lambda row: row[0] + row[1])
_DIMENSION_ROWS = st.tuples(_KEY_ROWS, st.integers(0, 9)).map(lambda row: (*row[0], row[1]))

Step = tuple[str, str, str]
"""Operation, key, kind of join."""
_OPERATIONS = (
    *("filter", "column", "constant", "explode", "group", "group two", "window", "distinct", "dedup"),
    *("join", "lookup", "union", "set", "rename"),
)
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(_OPERATIONS),
        st.sampled_from(KEYS),
        st.sampled_from(["inner", "left", "right", "full", "left_semi", "left_anti"]),
    ),
    min_size=2,
    max_size=4,
)
CASES = st.tuples(st.lists(_FACT_ROWS, max_size=25), st.lists(_DIMENSION_ROWS, max_size=6), _STEPS)


def _row(values: dict[str, list[Any]], number: int) -> tuple[Any, ...]:
    return tuple(each[number % len(each)] for each in values.values())


_MANY = [(*_row(_KEY_VALUES, key), *_row(_VALUES, number)) for number in range(6) for key in range(5)]
_SKEWED = [_MANY[1]] * 100
_FEW = [(*_row(_KEY_VALUES, number), number) for number in (0, 1, 3, 5, 6)]
RICH = (
    [*_MANY, *_SKEWED],
    _FEW,
    [("union", "g", "inner"), ("join", "x", "full"), ("group", "d", "inner"), ("lookup", "s", "left")],
)
"""A case that is never left out: skew, nulls, NaN, -0.0 and decimals through joins of both kinds and a group."""
TYPED = (
    _MANY,
    _FEW,
    [("join", "c", "full"), ("window", "i", "inner"), ("group two", "m", "inner"), ("constant", "z", "inner")],
)
"""Another: collations that find letters equal, intervals, and a key that is the same in all rows."""
EMPTY: tuple[list[Any], list[Any], list[Step]] = (
    [],
    _FEW,
    [("join", "b", "left_anti"), ("distinct", "u", "inner"), ("set", "day", "right")],
)


def pipeline_of(case: tuple[Any, Any, Sequence[Step]], parallelism: int, output: str) -> fs.Pipeline:
    """The steps of a case as functions `step0`, `step1`, ... between two sources and a sink."""
    facts, dimension, steps = case
    pipeline = fs.Pipeline("random")

    @pipeline.source
    def facts_(spark: Any) -> Any:
        return _frame(spark, facts, TYPES)

    def other(spark: Any) -> Any:
        return _frame(spark, dimension, {**{name: types[1] for name, types in KEY_TYPES.items()}, "w": "int"})

    if any(step[0] in ("join", "lookup", "set") for step in steps):
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


def _frame(spark: Any, rows: Sequence[Any], types: dict[str, str]) -> Any:
    """Rows with columns of these types; some can't be made from Python's values."""
    from pyspark.sql import functions as F

    raw = {"m": "int", "i": "interval day to second", **dict.fromkeys(COLLATED, "string")}
    schema = ", ".join(f"{name} {raw.get(name, kind)}" for name, kind in types.items())
    made = {name: F.col(name) for name in types} | {"m": F.make_ym_interval(F.lit(0), "m")}
    columns = [made[name].cast(kind).alias(name) if name in raw else made[name] for name, kind in types.items()]
    return spark.createDataFrame(rows, schema).select(columns)


def plain(pipeline: fs.Pipeline, spark: Any) -> Any:
    """What plain PySpark makes of the pipeline: its functions called one after another."""
    frames: dict[str, Any] = {"spark": spark}
    last = None
    for each in pipeline.definitions[:-1]:
        assert each.callable is not None
        last = frames[each.name] = each.callable(*[frames[argument.name] for argument in each.arguments])
    return last


def counted(frame: Any) -> Counter[Any]:
    """Its rows. Of texts that are equal by their collation, Spark keeps any."""
    rows = frame.withColumn("m", frame.m.cast("string")).collect()
    return Counter(
        tuple(
            _comparable(value.lower() if name in COLLATED and value else value)
            for name, value in zip(frame.columns, row, strict=True)
        )
        for row in rows
    )


def _comparable(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case Decimal():
            return str(value.normalize() + 0)
        case dict():
            return tuple(sorted(value.items()))
        case bytearray():
            return bytes(value)
        case list() | tuple():
            return tuple(map(_comparable, value))
        case _:
            return value


def _step(step: Step, previous: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    operation, key, how = step
    hashed = {previous: fs.hash_by(key)}
    rebalanced = {previous: fs.rebalance()}

    def one(call: Callable[[Any], Any], inputs: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
        return _with_arguments(call, [previous]), inputs

    def two(call: Callable[[Any, Any], Any], other: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
        first = hashed if other != fs.broadcast() else rebalanced
        return _with_arguments(call, [previous, "other"]), {**first, "other": other}

    def least(*grouped: str) -> list[Any]:
        """Of each column that is not grouped by, one value that all rows of a group decide on."""
        plain = [F.min(name).alias(name) for name in COLUMNS if name not in (*grouped, "n", "h")]
        return [*plain, F.map_from_entries(F.min(F.array_sort(F.map_entries("h")))).alias("h")]

    match operation:
        case "filter":
            return one(lambda f: f.where("n > -3 or g is null"), rebalanced)
        case "column":
            return one(lambda f: f.withColumn("n", F.col("n") * 2 + F.coalesce("g", F.lit(1))), hashed)
        case "constant":
            same = lambda f: f.withColumn(key, F.lit(None).cast(TYPES[key]))  # noqa: E731
            return one(lambda f: same(f).withColumn("g", F.lit(1)).select(COLUMNS), rebalanced)
        case "explode":
            exploded = F.explode_outer(F.col("a").cast("array<bigint>"))
            return one(lambda f: f.withColumn("n", exploded).select(COLUMNS), rebalanced)
        case "group":
            total = F.sum("n").cast("bigint").alias("n")
            return one(lambda f: f.groupBy(key).agg(*least(key), total).select(COLUMNS), hashed)
        case "group two":
            names = ["g", "d"] if key == "g" else [key, "g"]
            call = lambda f: f.groupBy(*names).agg(*least(*names), F.count("*").alias("n")).select(COLUMNS)  # noqa: E731
            return one(call, {previous: fs.hash_by(*reversed(names))})
        case "window":
            return one(lambda f: f.withColumn("n", F.sum("n").over(Window.partitionBy(key))).select(COLUMNS), hashed)
        case "distinct":  # Spark has no equality of maps
            return one(lambda f: f.drop("h").distinct().transform(_padded), hashed)
        case "dedup":
            return one(lambda f: f.select(key, "n").dropDuplicates([key, "n"]).transform(_padded), hashed)
        case "join":
            return two(lambda f, o: f.join(o.select(key, "w"), key, how).select(COLUMNS), fs.hash_by(key))
        case "lookup":
            kind = how if how in ("inner", "left", "left_semi", "left_anti") else "inner"
            return two(lambda f, o: f.join(o.select(key, "w"), key, kind).select(COLUMNS), fs.broadcast())
        case "union":
            return one(lambda f: f.unionAll(f.where("n > 0")), rebalanced)
        case "set":
            method = {"inner": "intersect", "left": "exceptAll", "left_anti": "subtract"}.get(how, "intersectAll")
            call_two = lambda f, o: getattr(f.select(key), method)(o.select(key)).transform(_padded)  # noqa: E731
            return two(call_two, fs.hash_by(key))
        case _:
            renamed = lambda f: f.withColumnRenamed(key, "kk").groupBy("kk").agg(*least(key), F.max("n").alias("n"))  # noqa: E731
            return one(lambda f: renamed(f).withColumnRenamed("kk", key).select(COLUMNS), hashed)


def _padded(frame: Any) -> Any:
    """Bring a frame of some columns back to all."""
    from pyspark.sql import functions as F

    return frame.select(
        [
            F.col(name).cast(kind).alias(name) if name in frame.columns else F.lit(None).cast(kind).alias(name)
            for name, kind in TYPES.items()
        ]
    )


def _with_arguments(call: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """`call` as a function whose arguments have these names."""
    namespace: dict[str, Any] = {"call": call}
    exec(f"def step({', '.join(names)}): return call({', '.join(names)})", namespace)
    return namespace["step"]  # type: ignore[no-any-return]
