"""Rows sent to a real Kafka: at least once, as Spark's columns say, with log-ins that nobody sees."""

from collections import Counter
from pathlib import Path

import psutil

from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.stack.kafka.broker import USERS, Kafka

SEND = """
import os, signal

@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(60).selectExpr(
        "cast(id as string) key", "concat('v', id) value", "cast(id % 2 as int) partition",
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) headers")

@pipeline.sink(parallelism=2, inputs={"rows": fs.hash_by("key")})
def sent(rows: DataFrame, topic: str, servers: str, dies: bool, context) -> None:
    fs.write_kafka(rows, topic, servers, properties=PROPERTIES)
    if dies and context.attempt == 0 and context.subtask == 0:
        os.kill(os.getpid(), signal.SIGKILL)
"""
LOG_IN = '{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "env:KAFKA_READER"}'
READ = """
@pipeline.source(parallelism=2, splits=fs.kafka_splits(
    "sent", fs.param("servers"), includeHeaders=True, properties=PROPERTIES))
def records(spark: SparkSession, splits: fs.KafkaSplits) -> DataFrame:
    return splits.read(spark).selectExpr("cast(key as string) key", "headers")

@pipeline.sink
def result(records: DataFrame, output: str) -> None:
    fs.write_parquet(records, output)
"""


def test_rows_are_sent_at_least_once(files: Files, broker: Kafka) -> None:
    broker.create("sent", 2)
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"}
    path = files.write(SEND.replace("PROPERTIES", "{}"))
    for dies in ("false", "true"):
        parameters = {"topic": "sent", "servers": broker.servers, "dies": dies}
        done = files.do(files.run(path, parameters, restarts))
        assert done.status is JobStatus.FINISHED, done.failure
        records = broker.records("sent", 2)
        assert {(key, value, number) for key, value, number, _ in records} == {
            (str(n), f"v{n}", n % 2) for n in range(60)
        }
        assert all(headers == {"h": "x"} for *_, headers in records)
        times = Counter(key for key, *_ in records)
        assert set(times.values()) == ({1} if dies == "false" else {2, 3}), (
            "what a dead attempt has sent is there twice"
        )


def test_log_ins_are_seen_by_nobody(files: Files, broker: Kafka, work_dir: Path, tmp_path: Path) -> None:
    broker.create("guarded", 2)
    path = files.write(SEND.replace("PROPERTIES", LOG_IN))
    parameters = {"topic": "guarded", "servers": broker.guarded, "dies": "false"}
    done = files.do(files.run(path, parameters))
    assert done.status is JobStatus.FINISHED, done.failure
    assert len(broker.records("guarded", 2)) == 60
    path = files.write(READ.replace("PROPERTIES", LOG_IN), "read.py")
    done = files.do(files.run(path, {"servers": broker.guarded, "output": str(tmp_path / "out")}))
    assert done.status is JobStatus.FINISHED, done.failure
    secret = USERS["reader"].encode()
    for process in psutil.Process().children(recursive=True):
        assert secret not in " ".join(process.cmdline()).encode()
    seen = [file for file in work_dir.rglob("*") if file.is_file()]
    assert seen
    assert not [file for file in seen if secret in file.read_bytes()]
