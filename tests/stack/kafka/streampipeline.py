"""A pipeline of streams whose end is known: windows, a join, no id twice, and a function that keeps state, each into files."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

SOURCE = """\
import firesteel as fs
from pyspark.sql import DataFrame, Row, SparkSession, functions as F
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

pipeline = fs.Pipeline("clicks", mode="streaming")
CLICK = "seq long, id long, k long, v long, ts long"
LATE = "20 seconds"


def read(spark, servers, topic):
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    rows = kafka.option("startingOffsets", "earliest").load().select(
        F.from_json(F.col("value").cast("string"), CLICK).alias("row")).select("row.*")
    return rows.withColumn("ts", F.timestamp_millis("ts"))


@pipeline.source
def clicks(spark: SparkSession, servers: str) -> DataFrame:
    return read(spark, servers, "clicks").withWatermark("ts", LATE)


@pipeline.source
def orders(spark: SparkSession, servers: str) -> DataFrame:
    return read(spark, servers, "orders").select("id", F.col("v").alias("price"), F.col("ts").alias("at")).withWatermark("at", LATE)


@pipeline.sink
def windows(clicks: DataFrame, output: str) -> DataStreamWriter:
    found = clicks.groupBy(F.window("ts", "5 seconds"), "k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    rows = found.select(F.unix_millis("window.start").alias("start"), "k", "n", "total")
    return fs.stream_files({filtered}rows, output + "/windows")


@pipeline.sink
def joined(clicks: DataFrame, orders: DataFrame, output: str) -> DataStreamWriter:
    first = clicks.select(F.col("id").alias("click"), "k", "ts")
    near = F.expr("click = id AND at BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 5 SECONDS")
    return fs.stream_files(first.join(orders, near).select("id", "k", "price"), output + "/joined")


@pipeline.sink
def distinct(clicks: DataFrame, output: str) -> DataStreamWriter:
    return fs.stream_files(clicks.dropDuplicatesWithinWatermark(["id"]).select("id", "k", "v"), output + "/distinct")


class Numbered(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timer_values):
        n = self.count.get()[0] if self.count.exists() else 0
        for row in sorted(rows, key=lambda row: row["seq"]):
            n += 1
            yield Row(k=key[0], seq=row["seq"], n=n)
        self.count.update((n,))


@pipeline.sink
def numbered(clicks: DataFrame, output: str) -> DataStreamWriter:
    rows = clicks.groupBy("k").transformWithState(Numbered(), "k long, seq long, n long", "Append", "None")
    return fs.stream_files(rows, output + "/numbered")
"""
OUTPUTS = ("windows", "joined", "distinct", "numbered")
KEYS = 6
PARTITIONS = 2
WINDOW_MS = 5_000
NEAR_MS = 5_000
"""Between a click and its order, at most, for them to be joined."""
MARK = -1
"""Key of rows that come last, an hour later: with them every window before them is over."""


def source(*, changed: bool = False) -> str:
    """The pipeline's text; a new version of it computes the same in another way."""
    return SOURCE.replace("{filtered}rows", "rows.where('n > 0')" if changed else "rows")


@dataclass
class Fed:
    """What was sent, and what must come of it."""

    clicks: list[tuple[int, int, int, int]] = field(default_factory=list)
    """id, key, value, time in milliseconds: in the order in which they were sent. Some ids come twice."""
    orders: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Price and time in milliseconds by id of the click."""

    def expected(self) -> dict[str, Counter[tuple[Any, ...]]]:
        windows: dict[tuple[int, int], list[int]] = defaultdict(list)
        numbers: Counter[int] = Counter()
        numbered: Counter[tuple[Any, ...]] = Counter()
        known: dict[int, tuple[int, int, int]] = {}
        for number, (identity, key, value, at_ms) in enumerate(self.clicks):
            windows[at_ms - at_ms % WINDOW_MS, key].append(value)
            numbers[key] += 1
            numbered[key, number, numbers[key]] += 1
            known[identity] = (identity, key, value)
        joined: Counter[tuple[Any, ...]] = Counter()
        for identity, key, _, at_ms in self.clicks:
            price, ordered_ms = self.orders.get(identity, (0, None))
            if ordered_ms is not None and abs(ordered_ms - at_ms) <= NEAR_MS:  # it may have stood still between them
                joined[identity, key, price] += 1
        return {
            "windows": Counter((start, key, len(rows), sum(rows)) for (start, key), rows in windows.items()),
            "joined": joined,
            "distinct": Counter(known.values()),
            "numbered": numbered,
        }


def as_record(number: int, identity: int, key: int, value: int, at_ms: int) -> tuple[str, str]:
    return str(key), json.dumps({"seq": number, "id": identity, "k": key, "v": value, "ts": at_ms})
