"""Ranges of Kafka's offsets as input splits: asked of the brokers once a job, read by Spark's own Kafka source."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from firesteel.adapters.spark import brokers
from firesteel.adapters.spark.brokers import Brokers
from firesteel.adapters.spark.gateway import class_path_of
from firesteel.adapters.spark.properties import resolved
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.splits.offsets import Bounds, TopicPartition, Wanted, rounds, spark_options, whole_ranges
from firesteel.model.splits import KafkaInputFormat, KafkaInputSplit
from firesteel.pipeline.kafkasplits import read_limit

FORMAT = "kafka"
RANGE_OPTIONS = ("assign", "startingOffsets", "endingOffsets", "minPartitions")
"""Options of Spark's source that differ from draw to draw."""
READ_TASKS_MAX = 32
"""Tasks of Spark that a draw is read by, unless the author says how many, or there are more partitions."""
_SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
_HEADERS = ", headers array<struct<key: string, value: binary>>"


class KafkaSplits:
    """Some of the offsets that `fs.kafka_splits` has found."""

    def __init__(self, declared: KafkaInputFormat, servers: str, splits: Sequence[KafkaInputSplit]) -> None:
        self._declared, self._servers, self._splits = declared, servers, splits
        self._rounds = rounds(splits)

    @property
    def ranges(self) -> list[tuple[str, int, int, int]]:
        """(topic, partition, start, end) of each, end not included; neighbours are joined."""
        return sorted((each.topic, each.partition, each.start, each.end) for read in self._rounds for each in read)

    @property
    def offsets(self) -> list[dict[str, str]]:
        """Options of Spark's source that name these offsets: for each read that it takes, one of them."""
        return [spark_options(read) for read in self._rounds]

    def read(self, spark: Any) -> Any:
        """The records, as Spark's Kafka source gives them: key, value, topic, partition, offset, timestamp,
        timestampType, and headers with includeHeaders."""
        if not self._rounds:
            has_headers = self._declared.options.get("includeHeaders") == "true"
            return spark.createDataFrame([], _SCHEMA + _HEADERS * has_headers)
        properties = resolved("kafka_splits", self._declared.properties)
        reader = spark.read.format(FORMAT).options(**{f"kafka.{name}": text for name, text in properties.items()})
        reader = reader.option("kafka.bootstrap.servers", self._servers)
        tasks = str(min(len(self._splits), READ_TASKS_MAX))
        every = {"failOnDataLoss": "true", "minPartitions": tasks, **self._declared.options}
        frames = [reader.options(**every, **offsets).load() for offsets in self.offsets]
        return reduce(lambda one, other: one.union(other), frames)


def find(declared: KafkaInputFormat, value: Callable[[Any], Any], spark: Any) -> list[KafkaInputSplit]:
    """The range of each partition, uncut. `value` gives what an argument of the declaration stands for.

    Raises PipelineRefused, StorageFailed.
    """
    servers, topics = value(declared.servers), [each.strip() for each in value(declared.topics).split(",")]
    try:
        limits = [read_limit(name, str(value(getattr(declared, name)))) for name in ("starting", "ending")]
    except ValueError as error:
        raise PipelineRefused(f"kafka_splits: {error}") from None
    properties = resolved("kafka_splits", declared.properties)
    with brokers.connected("kafka_splits", class_path_of(spark), servers, properties) as found:
        partitions = found.partitions(topics)
        bounds = Bounds(latest=found.latest(partitions), earliest=found.earliest(partitions))
        starting, ending = (Wanted(limit=each, at_time=_at_time(found, partitions, each)) for each in limits)
    return whole_ranges(bounds, starting, ending)


def _at_time(found: Brokers, partitions: Sequence[TopicPartition], limit: Any) -> dict[TopicPartition, int]:
    return found.at_time(partitions, limit) if isinstance(limit, int) else {}
