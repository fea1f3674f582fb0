"""Spark without the jars for a scheme, and a server that hangs: one sentence with the way out, within seconds."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.storage.resultsprobe import IDENTITY
from firesteel.adapters.storage.schemes import SCHEMES
from firesteel.cli import doctor
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureInfo
from firesteel.model.options import Configuration
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, s3_settings, shared, until
from tests.stack.test_s3_commits import keys_at
from tests.stack.test_s3_sinks import PIPELINE

READ = """
@pipeline.source
def rows(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.text(path)

@pipeline.sink
def result(rows: DataFrame) -> None:
    rows.count()
"""


@pytest.fixture(scope="module", params=["no jars", "hangs"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cluster(kind: str, do: Do, s3: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = s3 if kind == "no jars" else f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {**s3_settings(url), "cluster.work-dir": str(tmp_path_factory.mktemp("cluster"))}
        del options["spark.jars.packages"]
        cluster = do(shared(options))
        yield cluster
        do(cluster.close())


def failure(files: Files, body: str, **parameters: str) -> tuple[FailureInfo, float]:
    begun = time.monotonic()
    result = files.do(files.run(files.write(body), parameters))
    assert result.failure is not None
    assert "\n" not in result.failure.message
    return result.failure, time.monotonic() - begun


def test_it_is_told(kind: str, cluster: MiniCluster, do: Do, tmp_path: Path, s3: str) -> None:
    files, out = Files(cluster, do, tmp_path), "s3a://firesteel/refused"
    failure(files, READ, path="/nowhere")  # Spark is up
    if kind == "hangs":
        read, seconds = failure(files, READ, path="s3a://firesteel/read")
        assert read.message.startswith("s3a://firesteel/read: http://127.0.0.1:")
        assert read.message.endswith(" does not answer (timed out); is s3.endpoint right?")
        assert (read.vertex, seconds < 60) == ("rows", True), "Spark itself would ask for many minutes"
    told, seconds = failure(files, PIPELINE, output=out, mode="append")
    if kind == "hangs":
        assert "write_parquet: s3://firesteel/refused: http://127.0.0.1:" in told.message
        assert "does not answer (Read timeout" in told.message
        assert told.message.endswith("is s3.endpoint right?")
        assert seconds < 60
        return
    jars = f"-D spark.jars.packages={SCHEMES['s3a'].packages}"
    assert told.message == f"write_parquet: {out}: Spark has no jars for s3a://; name them: {jars}"
    told, _ = failure(files, READ, path=out)
    assert told.message == f"{out}: Spark has no jars for s3a://; name them: {jars}"
    told, _ = failure(files, READ, path="gs://bucket/x")
    assert "Spark has no jars for gs://; name them: -D spark.jars.packages=" in told.message
    left = keys_at(s3)
    do(until(lambda: not any(left.found(".firesteel"))))
    assert list(left.found("refused")) == list(left.found(".firesteel")) == []


@pytest.mark.parametrize("has_jars", [True, False])
def test_doctor_asks_workers_and_spark(s3: str, has_jars: bool) -> None:
    options = {**s3_settings(s3), "cluster.results-dir": "s3://firesteel/looked at"}
    if not has_jars:
        del options["spark.jars.packages"]
    of_worker, of_spark = doctor.check_storages(Configuration(options))
    assert (of_worker.subject, of_worker.verdict) == ("results, for workers", doctor.Verdict.OK)
    assert of_spark.verdict is (doctor.Verdict.OK if has_jars else doctor.Verdict.WRONG), of_spark
    assert has_jars or "Spark has no jars for s3a://; name them: -D spark.jars.packages=" in of_spark.message
    assert [each.key for each in keys_at(s3).found("looked at/")] == [f"looked at/{IDENTITY}"]
