"""A source that draws input splits reads what plain PySpark reads: same rows, same columns, same types."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import firesteel as fs
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.storage.sinks import commit_sink
from firesteel.pipeline.authoring import Pipeline
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark

NAMES = ("plain", "a b", "ünï 日本", "x[1]", "{a,b}", "st*r?", "per%20cent", "back\\slash", "has#and+")
DIRECTORIES = ("", "k=1/", "k=02/s=a b/", "k=3/s=%C3%BC%2F/", "k=__HIVE_DEFAULT_PARTITION__/s=[x]/")


def pipeline_of(splits: Any, parallelism: int, target: str) -> Pipeline:
    pipeline = Pipeline("splits")

    def rows(spark: Any, splits: Any) -> Any:
        return splits.read(spark)

    def out(rows: Any) -> None:
        fs.write_parquet(rows, target)

    pipeline.source(parallelism=parallelism, splits=splits)(rows)
    pipeline.sink(out)
    return pipeline


def read_in_splits(local: InProcess, splits: Any, parallelism: int, target: Path) -> Any:
    """What the sink of a pipeline with this source has written."""
    for commit in local.run(pipeline_of(splits, parallelism, str(target))):
        commit_sink(commit)
    return local.spark.read.parquet(str(target))


def counted(frame: Any) -> Counter[str]:
    return Counter(str(row) for row in frame.collect())


def check(local: InProcess, tmp_path: Path, path: str, format: str, **options: Any) -> None:
    """Parallelism 1 and 4 against plain PySpark."""
    expected = local.spark.read.load(path, format=format, **options)
    for parallelism in (1, 4):
        found = read_in_splits(local, fs.file_splits(path, format, **options), parallelism, tmp_path / f"{parallelism}")
        assert found.schema == expected.schema, (found.schema, expected.schema)
        assert counted(found) == counted(expected), path


def write(file: Path, format: str, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if format == "json":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    elif format == "csv":
        text = "id,word\n" + "".join(f"{row['id']},{row['word']}\n" for row in rows)
    else:
        text = "".join(row["word"] + "\n" for row in rows)
    content = text.encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)


def random_tree(chance: random.Random, root: Path, format: str, *, partitioned: bool) -> None:
    """Many small files, one big one, an empty one, hidden ones, odd names, later columns."""
    count = 0
    for index in range(chance.randint(2, 40)):
        rows = [
            {"id": count + n, "word": f"größe {n}"} for n in range(chance.choice((0, 1, 5, 20_000 if not index else 3)))
        ]
        if format == "json" and chance.random() < 0.2:
            rows = [{**row, "late": index / 2} for row in rows]
        count += len(rows)
        directory = chance.choice(DIRECTORIES[2:]) if partitioned else ""
        suffix = chance.choice(("", ".gz")) if format != "csv" else ""
        write(root / directory / f"{chance.choice(NAMES)} {index}.{format}{suffix}", format, rows)
    hidden = DIRECTORIES[2] if partitioned else ""
    for name in ("_hidden", ".hidden", "_SUCCESS"):
        write(root / hidden / name, format, [{"id": -1, "word": "hidden"}])
    (root / hidden / f"empty.{format}").touch()


@pytest.mark.parametrize("format", ["text", "csv", "json"])
@pytest.mark.parametrize("partitioned", [False, True], ids=["flat", "partitioned"])
def test_random_files_read_as_plain_pyspark_reads_them(
    local: InProcess, tmp_path: Path, format: str, partitioned: bool
) -> None:
    chance = random.Random(f"{format} {partitioned}")
    random_tree(chance, tmp_path / "in put", format, partitioned=partitioned)
    options = {"header": True, "inferSchema": True} if format == "csv" else {}
    check(local, tmp_path, str(tmp_path / "in put"), format, **options)


def test_parquet_of_many_files_one_big_and_partitions(local: InProcess, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    frame = local.spark.range(30_000).select(
        "id", (F.col("id") % 3).alias("k"), F.col("id").cast("string").alias("s p")
    )
    frame.repartition(20).write.partitionBy("k").parquet(str(tmp_path / "in"))
    frame.withColumn("k", F.lit(None).cast("long")).coalesce(1).write.mode("append").partitionBy("k").parquet(
        str(tmp_path / "in")
    )
    check(local, tmp_path / "whole", str(tmp_path / "in"), "parquet")
    # A pattern over partition directories: Spark looks for partitions below each match only.
    check(local, tmp_path / "below", str(tmp_path / "in" / "k=[12]"), "parquet")
    check(local, tmp_path / "base", str(tmp_path / "in" / "k=*"), "parquet", basePath=str(tmp_path / "in"))
    sixteen = read_in_splits(local, fs.file_splits(str(tmp_path / "in")), 16, tmp_path / "16")
    assert counted(sixteen) == counted(local.spark.read.parquet(str(tmp_path / "in")))


def test_patterns_listing_options_schemas_and_nothing_at_all(local: InProcess, tmp_path: Path) -> None:
    for name in ("2024-01/a=1/x.json", "2024-01/a=2/y.json", "2024-02/a=1/z w.json", "2025-01/a=9/no.json"):
        write(tmp_path / "in" / name, "json", [{"id": len(name), "word": name}])
    check(local, tmp_path / "p", f"{tmp_path}/in/*-02", "json")
    check(local, tmp_path / "q", f"{tmp_path}/in/{{2024-01,2025-01}}/a=[19]", "json", schema="word string, id long")
    check(local, tmp_path / "r", f"{tmp_path}/in", "json", recursiveFileLookup=True, pathGlobFilter="?.json")
    check(local, tmp_path / "s", f"file://{tmp_path}/in/2024-02/", "text")
    (tmp_path / "empty").mkdir()
    check(local, tmp_path / "t", f"{tmp_path}/empty", "text")
    check(local, tmp_path / "u", f"{tmp_path}/in/2024-01/a=1/x.json", "csv", schema="a string", header=False)


def test_ranges_and_days(local: InProcess, tmp_path: Path) -> None:
    numbers = read_in_splits(local, fs.range_splits("n", -5, 1_000, 37), 4, tmp_path / "n")
    assert sorted(row.n for row in numbers.collect()) == list(range(-5, 1_000))
    pipeline = Pipeline("where")

    def table(spark: Any, splits: Any) -> Any:
        return spark.sql("values (1), (7), (null), (-3), (99)").toDF("v").where(splits.predicate)

    def days(spark: Any, splits: Any) -> Any:
        return (
            spark.sql("select explode(sequence(date'2024-02-20', date'2024-03-10'))")
            .toDF("d")
            .where(splits.predicate("d"))
        )

    def out(table: Any) -> None:
        fs.write_parquet(table, str(tmp_path / "t"))

    def other(days: Any) -> None:
        fs.write_parquet(days, str(tmp_path / "d"))

    pipeline.source(parallelism=3, splits=fs.range_splits("v", 0, 10, 5), per_share=True)(table)
    pipeline.source(parallelism=2, splits=fs.date_splits("2024-02-27", "2024-03-03", days=2), per_share=True)(days)
    pipeline.sink(out)
    pipeline.sink(other)
    for commit in local.run(pipeline):
        commit_sink(commit)
    assert Counter(row.v for row in local.spark.read.parquet(str(tmp_path / "t")).collect()) == Counter(
        [1, 7, None, -3, 99]
    )
    found = sorted(str(row.d) for row in local.spark.read.parquet(str(tmp_path / "d")).collect())
    assert found == ["2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02"]


FOREIGN = {
    "it ignores them": lambda spark, splits, path: spark.read.json(path),
    "rows of its own": lambda spark, splits, path: splits.read(spark).unionAll(spark.range(3)),
    "a condition on something else": lambda spark, splits, path: spark.read.parquet(path).where("n > 0"),
    "a limit below the condition": lambda spark, splits, path: (
        spark.read.parquet(path).limit(5).where(splits.predicate)
    ),
    "another table beside": lambda spark, splits, path: (
        spark.read.parquet(path).where(splits.predicate).unionAll(spark.read.parquet(path))
    ),
}
OWN = {
    "read": lambda spark, splits, path: splits.read(spark).where("n > 3"),
    "by condition": lambda spark, splits, path: spark.read.parquet(path).where(splits.predicate),
    "with a lookup": lambda spark, splits, path: (
        spark.read.parquet(path).where(splits.predicate).join(spark.range(100).toDF("n"), "n", "left")
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_rows_that_are_not_of_the_splits_are_refused(local: InProcess, tmp_path: Path, name: str) -> None:
    """They would come with every draw again."""
    with pytest.raises(PipelineRefused, match="split by split"):
        _read_with(local, FOREIGN[name], tmp_path)


@pytest.mark.parametrize("name", OWN)
def test_rows_of_the_splits_come_once(local: InProcess, tmp_path: Path, name: str) -> None:
    found = _read_with(local, OWN[name], tmp_path)
    assert sorted(found) == [n for n in range(10) if name != "read" or n > 3]


def _read_with(local: InProcess, body: Any, tmp_path: Path) -> list[int]:
    path = str(tmp_path / "in")
    local.spark.range(10).toDF("n").write.parquet(path)
    pipeline = Pipeline("pieces")

    def rows(spark: Any, splits: Any) -> Any:
        return body(spark, splits, path)

    def out(rows: Any) -> None:
        fs.write_parquet(rows, str(tmp_path / "out"))

    pipeline.source(parallelism=2, splits=fs.range_splits("n", 0, 10, 5))(rows)
    pipeline.sink(out)
    for commit in local.run(pipeline):
        commit_sink(commit)
    return [row.n for row in local.spark.read.parquet(str(tmp_path / "out")).collect()]


def test_what_splits_would_change_is_refused_by_name(local: InProcess, tmp_path: Path) -> None:
    pipeline = Pipeline("refused")

    def rows(spark: Any, splits: Any) -> Any:
        return splits.read(spark).groupBy("n").count()

    def out(rows: Any) -> None:
        fs.write_parquet(rows, str(tmp_path / "out"))

    pipeline.source(parallelism=2, splits=fs.range_splits("n", 0, 10, 5))(rows)
    pipeline.sink(out)
    with pytest.raises(Exception, match=r"rows reads its input split by split, but groupBy\(n\) needs more"):
        local.run(pipeline)
