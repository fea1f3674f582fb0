"""What Spark's Kafka connector raises, in one sentence with a way out."""

import re

from firesteel.adapters.spark.brokers import missing_connector

_LOST = ("KAFKA_DATA_LOSS", "Some data may have been lost because they are not available in Kafka")
_RANGE = re.compile(r"offset \[(?P<start>\d+), (?P<end>\d+)\) for topic partition (?P<name>\S+)")
_NO_TOPIC = re.compile(r"Topic (?P<topic>\S+) not present in metadata after")
_NOT_ALLOWED = re.compile(r"Not authorized to access (?P<what>topics|group): \[?(?P<name>[^\]\s]+)")


def told_of(text: str) -> tuple[str, bool]:
    """The sentence, and whether no retry mends it; an empty one where `text`, Spark's own, is of something else."""
    if any(mark in text for mark in _LOST):
        found = _RANGE.search(text)
        what = f"of {found['name']} with offsets {found['start']} until {found['end']} " if found is not None else ""
        return (
            f"Kafka has removed records {what}before they were read, by retention or with their topic: run the job again with"
            " what there is now, or have the topic keep its records longer"
        ), True
    if "UnknownTopicOrPartitionException" in text:
        return "a topic that is to be read or written has gone from Kafka", True
    if found := _NO_TOPIC.search(text):
        return f"Kafka's brokers do not know topic {found['topic']}, or do not answer", False
    if found := _NOT_ALLOWED.search(text):
        if found["what"] == "group":
            return (
                f"Kafka does not let these credentials use the consumer group {found['name']}: allow them groups of that"
                " prefix, or set groupIdPrefix=... of kafka_splits to one that is allowed"
            ), True
        return f"Kafka does not let these credentials use topic {found['name']}", True
    if re.search(r"Failed to find (the )?data source: kafka\b", text):
        return missing_connector(), True
    return "", False
