"""What Spark's Kafka connector has raised, told in one sentence."""

import pytest

from firesteel.adapters.spark.task.kafkafailures import told_of

LOST = """(org.apache.spark.sql.kafka010.KafkaIllegalStateException) Some data may have been lost because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Could not read records in offset [0, 20) for topic partition short-0
with consumer group spark-kafka-relation-b9207869-executor."""


@pytest.mark.parametrize(
    ("text", "sentence", "is_hopeless"),
    [
        (LOST, "Kafka has removed records of short-0 with offsets 0 until 20 before they were read", True),
        ("[KAFKA_DATA_LOSS.TOPIC_PARTITIONS_DELETED] x", "Kafka has removed records before they were read", True),
        ("x.UnknownTopicOrPartitionException: This server ...", "has gone from Kafka", True),
        ("TimeoutException: Topic t-1 not present in metadata after 60000 ms.", "do not know topic t-1", False),
        ("Not authorized to access topics: [orders]", "use topic orders", True),
        ("Not authorized to access group: spark-kafka-relation-1", "consumer group spark-kafka-relation-1", True),
        ("Failed to find data source: kafka. Please deploy", "spark.jars.packages=org.apache.spark:", True),
        ("Failed to find the data source: kafkaesque", "", False),
        ("something else", "", False),
    ],
)
def test_it_is_told(text: str, sentence: str, is_hopeless: bool) -> None:
    told, hopeless = told_of(text)
    assert sentence in told
    assert bool(told) is bool(sentence)
    assert hopeless is is_hopeless
