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
from firesteel.model.options import Configuration
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, s3_settings

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
def keys(s3: str) -> Iterator[S3Keys]:
    keys = S3Keys("firesteel", S3Access.of(hadoop_settings(Configuration(s3_settings(s3)), {})))
    yield keys
    left = [each.key for each in keys.found("") if ".firesteel-staging" in each.key]
    uploads = keys._client.list_multipart_uploads(Bucket="firesteel").get("Uploads", [])
    keys.delete([each.key for each in keys.found("")])
    assert (left, uploads) == ([], []), "nothing is left of what was staged"


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
