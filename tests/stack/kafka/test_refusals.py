"""What is wrong with Kafka, or what is said of it: one sentence with the way out, within seconds."""

import time

import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureInfo
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do
from tests.stack.kafka.broker import Kafka

READ = """
@pipeline.source(splits=fs.kafka_splits(fs.param("topic"), fs.param("servers"), starting=fs.param("starting", "earliest"),
    properties=PROPERTIES))
def records(spark: SparkSession, splits: fs.KafkaSplits) -> DataFrame:
    return splits.read(spark)

@pipeline.result
def rows(records: DataFrame) -> DataFrame:
    return records.groupBy().count()
"""
WRITE = """
@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql("select 'v' as COLUMN")

@pipeline.sink
def sent(rows: DataFrame, topic: str, servers: str) -> None:
    fs.write_kafka(rows, topic, servers, properties=PROPERTIES)
"""
NONE = "{}"
LOG_IN = '{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "env:KAFKA_USER"}'


@pytest.fixture(scope="module")
def topic(broker: Kafka) -> str:
    broker.create("refused", 1)
    broker.send("refused", 0, [("k", str(n)) for n in range(5)])
    broker.remove_before("refused", 0, 3)
    return "refused"


@pytest.fixture(scope="module")
def ready(cluster: MiniCluster, do: Do, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Spark is up, so that what a refusal takes is its own."""
    files = Files(cluster, do, tmp_path_factory.mktemp("ready"))
    body = WRITE.replace("fs.write_kafka(rows, topic, servers, properties=PROPERTIES)", "rows.count()")
    assert do(files.run(files.write(body.replace("COLUMN", "v")), {"topic": "", "servers": ""})).failure is None


def failure(files: Files, body: str, **parameters: str) -> tuple[FailureInfo, float]:
    begun = time.monotonic()
    result = files.do(files.run(files.write(body), parameters))
    assert result.failure is not None
    assert "\n" not in result.failure.message
    return result.failure, time.monotonic() - begun


@pytest.mark.parametrize("call", ["kafka_splits", "write_kafka"])
@pytest.mark.parametrize(
    ("topic_given", "servers", "user", "sentence"),
    [
        ("refusde", "", "", "Kafka at {servers} has no topic 'refusde'; did you mean 'refused'?"),
        ("refused", "127.0.0.1:1", "", "Kafka at 127.0.0.1:1 does not answer within 10 s"),
        ("refused", "no-port", "", "Invalid url in bootstrap.servers"),
        ("refused", "", "NOBODY", "does not let these credentials use topic 'refused'"),
        ("refused", "", "STRANGER", "property sasl.jaas.config can't be read from env:KAFKA_STRANGER"),
    ],
)
def test_it_is_told(
    ready: None,
    files: Files,
    broker: Kafka,
    topic: str,
    call: str,
    topic_given: str,
    servers: str,
    user: str,
    sentence: str,
) -> None:
    body = READ if call == "kafka_splits" else WRITE.replace("COLUMN", "value")
    own = broker.guarded if user else broker.servers
    properties = LOG_IN.replace("USER", user) if user else NONE
    told, seconds = failure(files, body.replace("PROPERTIES", properties), topic=topic_given, servers=servers or own)
    assert told.message.startswith(f"{call}: ")
    assert sentence.format(servers=own) in told.message
    assert seconds < 40


def test_offsets_that_are_gone_and_columns_that_are_not_kafkas(files: Files, broker: Kafka, topic: str) -> None:
    body = READ.replace("PROPERTIES", NONE)
    told, _ = failure(files, body, topic=topic, servers=broker.servers, starting='{"refused": {"0": 1}}')
    assert "refused-0 is to be read from offset 1, but Kafka has removed what was before 3" in told.message
    told, _ = failure(files, body, topic=topic, servers=broker.servers, starting='{"refused": {"0": 9}}')
    assert "refused-0 ends before offset 5, and 9 is asked for" in told.message
    told, _ = failure(files, body, topic=topic, servers=broker.servers, starting="2026-01-01")
    assert "has no time zone" in told.message
    written = WRITE.replace("PROPERTIES", NONE)
    told, _ = failure(files, written.replace("COLUMN", "word"), topic=topic, servers=broker.servers)
    assert "the rows have no column 'value' (they have word)" in told.message
    told, _ = failure(files, written.replace("COLUMN", "value, 1 n"), topic=topic, servers=broker.servers)
    assert "column n is none of value, key, headers, partition, topic" in told.message


def test_a_topic_without_records_is_read_as_none(files: Files, broker: Kafka) -> None:
    broker.create("empty", 2)
    for parallelism in (1, 2):
        body = READ.replace("PROPERTIES", NONE).replace("source(splits", f"source(parallelism={parallelism}, splits")
        result = files.do(files.run(files.write(body), {"topic": "empty", "servers": broker.servers}))
        assert result.failure is None, result.failure
