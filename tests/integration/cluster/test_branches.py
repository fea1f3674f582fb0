"""Branches of running streams on a session cluster, by its commands: begun, compared, put into the stream's place."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.integration.cluster.files import HEADER
from tests.integration.cluster.test_session_cluster import LIMIT_S, Session
from tests.sparkjvms import quick_start_arguments

pytestmark = [pytest.mark.spark, pytest.mark.streams, pytest.mark.timeout(1_800)]

ROWS = (
    HEADER.replace('"test"', '"test", mode="streaming"')
    + """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", 1).text(input)

@pipeline.transform
def rows(lines: DataFrame) -> DataFrame:
    parts = F.split("value", " ")
    return lines.select(parts[0].alias("k"), parts[1].cast("int").alias("v"))

@pipeline.sink
def result(rows: DataFrame, output: str):
    return fs.stream_files(rows, output)
"""
)
FILTERED = ROWS.replace('.alias("v"))', '.alias("v")).where("k <> \'c\'")')
BY_SPARK = 'return rows.writeStream.format("parquet").option("path", output)'
COUNTED = ROWS.replace(
    "return fs.stream_files(rows, output)",
    'return fs.stream_files(rows.groupBy("k").count(), output).outputMode("update")',
)


class Stream:
    """Input, output and the versions of a pipeline."""

    def __init__(self, session: Session) -> None:
        self.session, self.home = session, session.scratch
        self.written: list[tuple[str, int]] = []
        (self.home / "in").mkdir()

    def file(self, name: str, body: str) -> str:
        (self.home / name).write_text(body)
        return name

    def write(self, *rows: tuple[str, int]) -> None:
        """Add a file; it is there whole, or not at all."""
        number = len(list((self.home / "in").iterdir()))
        hidden = self.home / f"in/.{number}"
        hidden.write_text("".join(f"{k} {v}\n" for k, v in rows))
        hidden.rename(self.home / f"in/{number:04}.txt")
        self.written += rows

    def ran(self, *arguments: str, code: int = 0) -> str:
        """What a command has printed."""
        found, out, err = self.session.command(*arguments)
        assert found == code, (arguments, found, out, err)
        return out.strip() if not code else out + err

    def begun(self, body: str, name: str = "old.py") -> str:
        return self.ran("submit", self.file(name, body), "--param", "input=in", "--param", "output=out")

    def branched(self, job: str, body: str) -> str:
        return self.ran("branch", job, self.file("new.py", body), "--param", "output=aside")

    def read(self, output: str) -> Counter[tuple[str, int]]:
        """Rows that count."""
        found: Counter[tuple[str, int]] = Counter()
        log = self.home / output / "_spark_metadata"
        if log.is_dir():
            last = max(int(each.name.partition(".")[0]) for each in log.iterdir() if each.name[0].isdigit())
            start = max((int(each.name[:-8]) for each in log.glob("*.compact")), default=0)
            entries = [
                log / f"{each}.compact" if each == start and start else log / str(each)
                for each in range(start, last + 1)
            ]
            lines = [json.loads(line) for each in entries for line in each.read_text().splitlines()[1:]]
            names = [each["path"].removeprefix("file://") for each in lines]
        else:
            names = [str(each) for each in (self.home / output).glob("batch-*.parquet")]
        for name in names:
            found.update((row["k"], row["v"]) for row in pyarrow.parquet.read_table(name).to_pylist())
        return found

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < give_up, what
            time.sleep(0.2)

    def until_read(self, output: str, expected: Counter[tuple[str, int]]) -> None:
        """The output is that, once; what is there meanwhile may be less."""

        def is_there() -> bool:
            try:
                return self.read(output) == expected
            except (OSError, ValueError):
                return False

        self.until(is_there, f"{output} becomes {expected}")

    def until_committed(self, job: str) -> None:
        def is_so() -> bool:
            view = json.loads(self.ran("info", job, "--json"))
            assert view["status"] not in ("FAILED", "CANCELED"), view["exceptions"]
            queries = [q for v in view["vertices"] for each in v["progress"] for q in each.get("queries", ())]
            return any(query.get("batch_id", -1) >= 0 for query in queries)

        self.until(is_so, f"{job} has committed")

    def compared(self, first: str, second: str, *arguments: str, until_rows: int) -> dict[str, Any]:
        """What is said when so many rows of the first can be compared: both have read all of them."""
        found: dict[str, Any] = {}

        def are_there() -> bool:
            out = self.session.command("compare", first, second, *arguments, "--json", "--wait", "5 min")[1]
            (one,) = json.loads(out)
            found.update(one["rows"])
            return bool(one["rows"]["first_rows"] == until_rows and one["first_batch"] >= 0)

        self.until(are_there, f"{until_rows} rows are compared")
        return found

    def checkpointed(self) -> set[str]:
        """Jobs that checkpoints are there of."""
        return {each.name for each in (self.home / "chk").iterdir()}

    def status(self, job: str) -> str:
        return str(json.loads(self.ran("info", job, "--json"))["status"])


@contextlib.contextmanager
def cluster_of(session: Session, *more: str) -> Iterator[None]:
    """A session cluster with room for a stream and its branch; `more`: definitions."""
    settings = ["jobmanager.rpc.port=0", "rest.port=0"]
    settings += ["taskmanager.numberOfTaskSlots=3", "spark.sql.shuffle.partitions=2", *more]
    definitions = [*quick_start_arguments(), *(part for each in settings for part in ("-D", each))]
    code, _, err = session.command("cluster", "start", *definitions)
    assert (code, err) == (0, "")
    try:
        yield
    finally:
        session.command("cluster", "stop")


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    session = Session(tmp_path)
    saved, kept = f"{tmp_path}/saved", f"{session.scratch}/chk"
    with cluster_of(session, f"execution.checkpointing.savepoint-dir={saved}", f"execution.checkpointing.dir={kept}"):
        yield Stream(session)


@pytest.mark.parametrize("sink", ["stream_files", "by Spark"])
def test_a_changed_filter_is_compared_and_promoted(stream: Stream, sink: str) -> None:
    old, new = (
        body if sink == "stream_files" else body.replace("return fs.stream_files(rows, output)", BY_SPARK)
        for body in (ROWS, FILTERED)
    )
    stream.write(("a", 1), ("c", 1))
    job = stream.begun(old)
    stream.until_committed(job)
    assert "which it branches from, writes to" in stream.ran("branch", job, "old.py", code=1)
    before = Counter(stream.written)
    branch = stream.branched(job, new)
    assert f"branch of {job[:8]}" in stream.ran("list")
    stream.write(("a", 2), ("b", 2), ("c", 2))
    stream.write(("b", 3), ("c", 3), ("c", 3))
    aside = Counter({("a", 2): 1, ("b", 2): 1, ("b", 3): 1})
    stream.until_read("aside", aside)
    stream.until_read("out", Counter(stream.written))

    rows = stream.compared(job, branch, until_rows=6)
    assert (rows["equal"], rows["only_first"], rows["only_second"]) == (3, 3, 0)
    assert {(row["k"], row["v"]) for sample in rows["samples"] for row in sample["first"]} == {("c", 2), ("c", 3)}
    by_key = stream.compared(job, branch, "--key", "v", until_rows=6)
    assert (by_key["equal"], by_key["different"]) == (0, 2)
    assert "result: different: 3 rows equal, 3 only in the first" in stream.ran("compare", job, branch, code=1)

    promoted = stream.ran("promote", branch)
    stream.until(lambda: stream.status(branch) == "CANCELED", "the branch ends")
    assert stream.status(job) == "FINISHED"
    former = Counter(stream.written)
    assert former - before, "something was written before the promotion"
    stream.write(("a", 4), ("c", 4))
    stream.until_read("out", former + Counter({("a", 4): 1}))
    assert stream.read("aside") == aside
    assert promoted == stream.ran("promote", branch), "again, it says what was done"
    refused = stream.ran("promote", promoted, code=2)
    assert f"is in the place of job {job} already" in refused


def test_an_unchanged_copy_is_the_same(stream: Stream) -> None:
    stream.write(("a", 1), ("b", 1))
    job = stream.begun(COUNTED)
    stream.until_committed(job)
    branch = stream.branched(job, COUNTED)
    stream.write(("a", 2), ("c", 2))
    stream.until(lambda: bool(list((stream.home / "aside").glob("batch-*"))), "the branch writes")
    assert "say by which columns a row is known" in stream.ran("compare", job, branch, code=2)
    rows = stream.compared(job, branch, "--key", "k", until_rows=2)
    assert (rows["equal"], rows["different"], rows["only_first"], rows["only_second"]) == (2, 0, 0, 0)
    assert "result: the same: 2 keys equal" in stream.ran("compare", job, branch, "--key", "k")
    other = COUNTED.replace('groupBy("k")', 'groupBy(F.col("v").alias("k"))')
    stream.file("other.py", other)
    refused = stream.ran("branch", job, "other.py", "--param", "output=third", code=1)
    assert "grouping keys of the aggregation" in refused
    stream.until(lambda: stream.checkpointed() == {job, branch}, "nothing stays of a branch that has run no query")
    assert not (stream.home / "third/_firesteel").exists() or not list((stream.home / "third").glob("batch-*"))
    assert stream.status(job) == stream.status(branch) == "RUNNING"
