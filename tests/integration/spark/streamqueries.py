"""Streaming queries whose end is known: rows in small files, one file a batch, state in the stores that Spark has."""

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.spark.streams.snapshots.changelogs import lineage
from firesteel.adapters.spark.streams.snapshots.listing import listing_of
from firesteel.adapters.spark.streams.snapshots.pointfiles import point_files
from firesteel.adapters.spark.streams.snapshots.points import last_committed, read_facts
from firesteel.adapters.spark.wire import SessionName
from firesteel.adapters.spark.worker.backend import SparkTaskBackend

ROWS_PER_FILE = 20
KEYS = 17
_STATE = "spark.sql.streaming.stateStore"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_ALWAYS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    f"{_STATE}.maintenanceInterval": "200ms",
    f"{_STATE}.minDeltasForSnapshot": "4",
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
}


@dataclass(frozen=True)
class Variant:
    """How state is kept."""

    name: str
    settings: Mapping[str, str]

    def __str__(self) -> str:
        return self.name


def rocksdb(*, changelog: bool, identified: bool) -> dict[str, str]:
    return {
        f"{_STATE}.providerClass": _ROCKSDB,
        f"{_STATE}.rocksdb.changelogCheckpointing.enabled": str(changelog).lower(),
        f"{_STATE}.checkpointFormatVersion": "2" if identified else "1",
    }


VARIANTS = (
    Variant("hdfs", {f"{_STATE}.providerClass": _HDFS}),
    Variant("rocksdb", rocksdb(changelog=False, identified=False)),
    Variant("changelog", rocksdb(changelog=True, identified=False)),
    Variant("rocksdb-ids", rocksdb(changelog=False, identified=True)),
    Variant("changelog-ids", rocksdb(changelog=True, identified=True)),
)


class Sessions:
    """Connect sessions on one backend, closed while it lives."""

    def __init__(self, backend: SparkTaskBackend, do: Callable[[Any], Any]) -> None:
        endpoint = do(backend.endpoint(for_outsider=True))
        self._endpoint = endpoint
        self._opened: list[AttemptSession] = []

    def open(self, settings: Mapping[str, str], retention: int = 100) -> Any:
        """A session; `retention` in batches."""
        chosen = {**_ALWAYS, "spark.sql.streaming.minBatchesToRetain": str(retention), **settings}
        session = AttemptSession(lambda: self._endpoint, SessionName("tester", str(uuid.uuid4())), "tests", chosen)
        self._opened.append(session)
        return session.get()

    def close(self) -> None:
        for session in self._opened:
            if session.opened:
                session.get().stop()


def write_files(directory: Path, count: int) -> Path:
    """Files of rows; a fifth of the ids come twice. Modified one after another, which is the order they are read in."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in range(count):
        rows = []
        for place in range(ROWS_PER_FILE):
            number = file * ROWS_PER_FILE + place
            identity = number - ROWS_PER_FILE * 3 if place % 5 == 0 and file >= 3 else number
            rows.append({"id": identity, "k": f"key-{identity % KEYS}", "v": identity})
        path = directory / f"{file:05}.json"
        path.write_text("\n".join(map(json.dumps, rows)))
    return directory


def counted(spark: Any, source: Path, files_per_batch: int) -> Any:
    """Two stateful operators: no id twice, then rows by key."""
    from pyspark.sql import functions as F

    rows = spark.readStream.schema("id long, k string, v long").option("maxFilesPerTrigger", files_per_batch)
    return (
        rows.json(str(source)).dropDuplicates(["id"]).groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    )


def expected(source: Path) -> list[tuple[Any, ...]]:
    """What `counted` ends with, made without Spark."""
    seen: dict[int, str] = {}
    for file in sorted(source.iterdir()):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            seen[row["id"]] = row["k"]
    sums: dict[str, list[int]] = {}
    for identity, key in seen.items():
        total = sums.setdefault(key, [0, 0])
        total[0] += 1
        total[1] += identity
    return sorted((key, count, total) for key, (count, total) in sums.items())


def joined(spark: Any, source: Path, files_per_batch: int) -> Any:
    """A join of two streams, with state of both: rows with those of the same key and neighbouring ids."""
    from pyspark.sql import functions as F

    rows = spark.readStream.schema("id long, k string, v long").option("maxFilesPerTrigger", files_per_batch)
    left = rows.json(str(source)).select("id")
    right = rows.json(str(source)).select((F.col("id") + 1).alias("id"), "v")
    return left.join(right, "id").select("id", "v")


def joined_rows(source: Path) -> list[tuple[int, int]]:
    ids = [json.loads(line)["id"] for file in sorted(source.iterdir()) for line in file.read_text().splitlines()]
    return sorted((identity, identity - 1) for identity in ids for other in ids if other + 1 == identity)


def remembered(spark: Any, source: Path, files_per_batch: int) -> Any:
    """Rows by key, counted by a function of Python that keeps its state."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")

        def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            before = self.count.get()[0] if self.count.exists() else 0
            now = before + sum(1 for _ in rows)
            self.count.update((now,))
            yield Row(k=key[0], n=now)

    rows = spark.readStream.schema("id long, k string, v long").option("maxFilesPerTrigger", files_per_batch)
    grouped = rows.json(str(source)).groupBy("k")
    return grouped.transformWithState(Count(), "k string, n long", "Update", "None")


def remembered_state(spark: Any, checkpoint: Path) -> dict[str, int]:
    """Counts by key, as they are kept after the last committed batch."""
    state = spark.read.format("statestore").option("path", str(checkpoint)).option("stateVarName", "count").load()
    return {row["key"][0]: row["value"][0] for row in state.collect()}


def _writer(frame: Any, checkpoint: Path, output: Path | str) -> Any:
    """To a table in memory, whole each time; to nowhere; or to files."""
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    if isinstance(output, Path):
        return writer.format("parquet").option("path", str(output))
    if output == "noop":
        return writer.format("noop").outputMode("update")
    return writer.format("memory").queryName(output).outputMode("complete")


@contextlib.contextmanager
def running(frame: Any, checkpoint: Path, output: Path | str = "", every: str = "50 milliseconds") -> Iterator[Any]:
    """The query, one short batch after another, until the block ends."""
    query = _writer(frame, checkpoint, output or f"q{uuid.uuid4().hex}").trigger(processingTime=every).start()
    try:
        yield query
    finally:
        query.stop()


def finished(spark: Any, frame: Any, checkpoint: Path) -> list[tuple[Any, ...]]:
    """Run the query on to the end of its input; its whole result."""
    name = f"q{uuid.uuid4().hex}"
    run_to_the_end(frame, checkpoint, name)
    return sorted(tuple(row) for row in spark.table(name).collect())


def run_to_the_end(frame: Any, checkpoint: Path, output: Path | str) -> None:
    """Of its input."""
    query = _writer(frame, checkpoint, output).trigger(availableNow=True).start()
    assert query.awaitTermination(300), "the query ends"


def wait_for_batch(query: Any, checkpoint: Path, batch: int, seconds: float = 300) -> int:
    """The last committed batch, as soon as it is `batch` or a later one."""
    last, end = None, time.monotonic() + seconds
    while time.monotonic() < end:
        last = last_committed(str(checkpoint))
        if last is not None and last >= batch:
            return last
        assert query.isActive, query.exception()
        time.sleep(0.02)
    raise AssertionError(f"batch {batch} was not committed within {seconds} s; the last one is {last}")


def recorded(checkpoint: Path) -> dict[str, Any]:
    """Names by directory, the texts of the last point's logs, lineages by changelog, and the files that make the point."""
    batch = last_committed(str(checkpoint))
    assert batch is not None
    listing = listing_of(checkpoint)
    texts, lineages = {}, {}
    for directory, names in listing.directories.items():
        for path in (f"{directory}/{name}" for name in names):
            if path in (f"offsets/{batch}", f"commits/{batch}") or path.endswith("/_metadata/metadata"):
                texts[path] = (checkpoint / path).read_text()
            if path.endswith(".changelog") and "_" in path:
                with open(checkpoint / path, "rb") as file:
                    lineages[path] = lineage(file, path)
    chosen = point_files(listing, read_facts(checkpoint, listing, batch), lineages.get)
    return {
        "batch": batch,
        "listing": listing.directories,
        "texts": texts,
        "lineages": lineages,
        "needed": sorted(file.path for file in chosen if file.needed),
    }
