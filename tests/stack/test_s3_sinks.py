"""File sinks on S3, with Spark's own S3A client and a server: all modes, read back by Spark and by another reader."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.adapters.storage.s3settings import S3Access, hadoop_settings
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureKind
from firesteel.model.options import Configuration
from firesteel.model.states import JobStatus
from tests.durable.s3 import s3_server
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, s3_settings, until

PIPELINE = """
@pipeline.source
def rows(spark: SparkSession, begin: int = 0, end: int = 20) -> DataFrame:
    return spark.range(begin, end).selectExpr("id", "concat('a/', id % 4) as k").repartition(3)

@pipeline.sink
def result(rows: DataFrame, output: str, mode: str, partitions: str = "") -> None:
    keys = ["k"] if partitions else []
    fs.write_parquet(rows, output, mode, keys, overwrite_partitions=partitions)
"""


@pytest.fixture
def files(cluster: MiniCluster, do: Do, tmp_path: Path) -> Files:
    return Files(cluster, do, tmp_path)


@pytest.fixture
def keys(s3: str, do: Do) -> Iterator[S3Keys]:
    keys = S3Keys("firesteel", S3Access.of(hadoop_settings(Configuration(s3_settings(s3)), {})))
    yield keys
    do(until(lambda: not staged(keys)))  # a failed attempt is cleared up after its job has ended
    left = staged(keys)
    uploads = keys._client.list_multipart_uploads(Bucket="firesteel").get("Uploads", [])
    keys.delete([each.key for each in keys.found("")])
    assert (left, uploads) == ([], []), "nothing is left of what was staged"


def staged(keys: S3Keys) -> list[str]:
    return [each.key for each in keys.found("") if ".firesteel-staging" in each.key]


def ids(keys: S3Keys, prefix: str) -> list[int]:
    """What another reader sees: of all Parquet files below."""
    found = []
    for each in keys.found(prefix):
        if each.key.endswith(".parquet"):
            table = pyarrow.parquet.read_table(io.BytesIO(keys.get(each.key).data))
            found += table.column("id").to_pylist()
    return sorted(found)


def run(files: Files, **parameters: Any) -> Any:
    path = files.write(PIPELINE)
    result = files.do(files.run(path, {name: str(value) for name, value in parameters.items()}))
    assert result.status is JobStatus.FINISHED, result.failure
    return result


READ = """
@pipeline.source
def rows(spark: SparkSession, path: str, endpoint: str = "") -> DataFrame:
    options = {"fs.s3a.bucket.strict.endpoint": endpoint} if endpoint else {}
    return spark.read.options(**options).csv(path)

@pipeline.sink
def result(rows: DataFrame) -> None:
    rows.count()
"""


def test_what_can_not_be_read_is_told_with_a_way_out(files: Files, tmp_path: Path) -> None:
    def told(**parameters: str) -> tuple[str, FailureKind, str]:
        failure = files.do(files.run(files.write(READ), parameters)).failure
        assert failure is not None
        return failure.message, failure.kind, failure.vertex

    hopeless = FailureKind.NON_RECOVERABLE
    assert told(path="s3a://absent/in") == (
        "s3a://absent/in: there is no such bucket: make it, or correct the name",
        hopeless,
        "rows",
    )
    with s3_server(tmp_path, knows_nobody=True) as strict:
        assert told(path="s3a://strict/in/x y", endpoint=strict) == (
            "s3a://strict/in/x y: these credentials may not do this there: grant it, or set s3.access-key and s3.secret-key",
            hopeless,
            "rows",
        )


def test_rows_are_there_once_in_every_mode(files: Files, keys: S3Keys) -> None:
    out = {"output": "s3a://firesteel/warehouse/orders"}
    result = run(files, **out, mode="error")
    assert ids(keys, "warehouse/orders/") == list(range(20))
    (sink,) = result.sinks
    assert (sink.target, sink.rows) == ("s3a://firesteel/warehouse/orders", 20)
    run(files, **out, mode="append", begin=20, end=30)
    assert ids(keys, "warehouse/orders/") == list(range(30))
    run(files, **out, mode="ignore")
    assert ids(keys, "warehouse/orders/") == list(range(30))
    run(files, **out, mode="overwrite", begin=5, end=7)
    assert ids(keys, "warehouse/orders/") == [5, 6]
    names = [each.key for each in keys.found("warehouse/orders/")]
    assert sum("_firesteel/commits/" in name for name in names) == 1
    run(files, **out, mode="overwrite", begin=0, end=0)
    assert ids(keys, "warehouse/orders/") == []
    assert [each for each in names if "_SUCCESS" in each]


def test_only_the_partitions_that_were_written_are_replaced(files: Files, keys: S3Keys) -> None:
    out = {"output": "s3://firesteel/parts", "mode": "overwrite", "partitions": "dynamic"}
    run(files, **out)
    assert {each.key.split("/")[1] for each in keys.found("parts/k")} == {f"k=a%2F{number}" for number in range(4)}
    run(files, **out, begin=100, end=102)
    assert ids(keys, "parts/") == sorted([*(each for each in range(20) if each % 4 > 1), 100, 101])


FORMATS = """
@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a/b", 1, "x"), (None, 2, "ü"), ("k=1 %#?", 4, "z")], "k string, n int, s string")

@pipeline.transform(parallelism=2, inputs={"rows": fs.hash_by("n")})
def shares(rows: DataFrame) -> DataFrame:
    return rows.where("n > 0")

@pipeline.sink(parallelism=2, inputs={"shares": fs.forward()})
def result(shares: DataFrame, output: str) -> None:
    fs.write_csv(shares, output + "/csv", header=True, partition_by="k")
    fs.write_json(shares, output + "/json", "append")
    fs.write_text(shares.select("s"), output + "/text", "ignore")
    fs.write_parquet(shares.where("n < 0"), output + "/empty")
"""
READ_BACK = """
@pipeline.source
def files(spark: SparkSession, output: str) -> DataFrame:
    csv = spark.read.csv(output + "/csv", header=True).collect()
    assert {(row.k, row.n, row.s) for row in csv} == {("a/b", "1", "x"), (None, "2", "ü"), ("k=1 %#?", "4", "z")}, csv
    json = spark.read.json(output.replace("s3a:", "s3:") + "/json").collect()
    assert sorted(row.n for row in json) == [1, 2, 4], json
    text = spark.read.text(output + "/text").collect()
    assert sorted(row.value for row in text) == ["x", "z", "ü"], text
    empty = spark.read.parquet(output + "/empty")
    assert (empty.columns, empty.count()) == (["k", "n", "s"], 0)
    return empty

@pipeline.sink
def result(files: DataFrame) -> None:
    files.count()
"""


def test_all_formats_by_several_subtasks_are_read_back_by_spark(files: Files, keys: S3Keys) -> None:
    output = {"output": "s3a://firesteel/formats"}
    result = files.do(files.run(files.write(FORMATS), output))
    assert result.status is JobStatus.FINISHED, result.failure
    assert len(result.sinks) == 4
    back = files.do(files.run(files.write(READ_BACK, "back.py"), output))
    assert back.status is JobStatus.FINISHED, back.failure


def test_two_sinks_for_one_place_are_refused_however_it_is_spelled(files: Files, keys: S3Keys) -> None:
    body = """
@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(3)

@pipeline.sink
def result(rows: DataFrame) -> None:
    fs.write_parquet(rows, "s3a://firesteel/twice/x")
    fs.write_parquet(rows, "s3://firesteel//twice")
"""
    result = files.do(files.run(files.write(body)))
    assert result.failure is not None
    assert (
        "result write one into the other twice (s3a://firesteel/twice/x and s3://firesteel/twice"
        in result.failure.message
    )
    assert [each.key for each in keys.found("twice/") if ".firesteel" not in each.key] == []


def test_a_bucket_that_is_not_there_is_told_in_one_sentence(files: Files) -> None:
    result = files.do(files.run(files.write(PIPELINE), {"output": "s3a://absent/x", "mode": "append"}))
    assert result.failure is not None
    assert "write_parquet: s3://absent/x: " in result.failure.message
    assert result.failure.message.endswith("says NoSuchBucket: there is no such bucket: make it, or correct the name")
