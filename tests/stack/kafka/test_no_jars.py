"""Spark without the jars for Kafka: the sentence that says which."""

import pytest

from tests.integration.cluster.files import Files
from tests.stack.kafka.broker import Kafka
from tests.stack.kafka.test_refusals import NONE, READ, WRITE, failure

BY_SPARK_ITSELF = """
@pipeline.source
def records(spark: SparkSession, topic: str, servers: str) -> DataFrame:
    return spark.read.format("kafka").option("subscribe", topic).option("kafka.bootstrap.servers", servers).load()

@pipeline.result
def rows(records: DataFrame) -> DataFrame:
    return records.groupBy().count()
"""


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {}


def test_they_are_named(files: Files, broker: Kafka) -> None:
    for body in (READ, WRITE.replace("COLUMN", "value"), BY_SPARK_ITSELF):
        told, _ = failure(files, body.replace("PROPERTIES", NONE), topic="any", servers=broker.servers)
        assert "Spark has no jars for Kafka; name them: -D spark.jars.packages=org.apache.spark" in told.message
