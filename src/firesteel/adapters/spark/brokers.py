"""Kafka's brokers, asked by Kafka's own client: the one that Spark's connector has brought, so that what is said of a
connection (security, certificates, log-ins, classes of the user's own) is said once and means the same to both."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firesteel.adapters.spark import gateway
from firesteel.adapters.spark.refusals import PipelineRefused, StorageFailed
from firesteel.pipeline.definition import did_you_mean

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""Maven coordinates: the newest release, which runs on Spark 4.3 as well."""
_CONNECTOR_CLASS = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"
_CLIENT_CLASS = "org.apache.kafka.clients.admin.AdminClient"
_PATIENCE = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
"""How long brokers may be silent before somebody hears of it."""
_KAFKAS_PATIENCE_MS = 60_000
"""The client's own default."""
_AUTHORIZATION = "AuthorizationException"
_AUTHENTICATION = "AuthenticationException"


class Brokers:
    """A connection. What it raises, PipelineRefused and StorageFailed, names the call, the servers and a way out."""

    def __init__(self, jvm: Any, call: str, servers: str, properties: Mapping[str, str]) -> None:
        self._jvm, self._where = jvm, f"{call}: Kafka at {servers}"
        ours = {} if any(name in properties for name in _PATIENCE) else _PATIENCE
        self._settings = {**ours, **properties, "bootstrap.servers": servers}
        with self._told(""):
            self._admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(self._java_properties())

    def close(self) -> None:
        self._admin.close()

    def partitions(self, topics: Sequence[str]) -> list[tuple[str, int]]:
        """All partitions of these topics."""
        found = []
        described = self._admin.describeTopics(self._java_list(topics)).topicNameValues()
        for topic in topics:
            with self._told(topic):
                partitions = described.get(topic).get().partitions()
                found += [(topic, int(each.partition())) for each in partitions]
        return found

    def earliest(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return self._offsets(partitions, self._spec().earliest())

    def latest(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Offsets behind the last records; behind the last committed ones for `isolation.level: read_committed`."""
        return self._offsets(partitions, self._spec().latest())

    def at_time(self, partitions: Sequence[tuple[str, int]], at_ms: int) -> dict[tuple[str, int], int]:
        """Offsets of the first records of that time or later, where there are any."""
        found = self._offsets(partitions, self._spec().forTimestamp(self._jvm.java.lang.Long.parseLong(str(at_ms))))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def _spec(self) -> Any:
        return self._jvm.org.apache.kafka.clients.admin.OffsetSpec

    def _offsets(self, partitions: Sequence[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        named = {each: self._jvm.org.apache.kafka.common.TopicPartition(*each) for each in partitions}
        wanted = self._jvm.java.util.HashMap()
        for name in named.values():
            wanted.put(name, spec)
        level = self._settings.get("isolation.level", "read_uncommitted").upper()
        isolation = self._jvm.org.apache.kafka.common.IsolationLevel.valueOf(level)
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(isolation)
        result = self._admin.listOffsets(wanted, options)
        found = {}
        for each, name in named.items():
            with self._told(each[0]):
                found[each] = int(result.partitionResult(name).get().offset())
        return found

    def _java_properties(self) -> Any:
        made = self._jvm.java.util.Properties()
        for name, value in self._settings.items():
            made.setProperty(name, value)
        return made

    def _java_list(self, texts: Sequence[str]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for text in texts:
            made.add(text)
        return made

    @contextlib.contextmanager
    def _told(self, topic: str) -> Iterator[None]:
        """Tell what Kafka's client raises about a topic in one sentence."""
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            name, message = _cause(error.java_exception)
            raise self._failure(name, message, topic) from None

    def _failure(self, name: str, message: str, topic: str) -> Exception:
        if name in ("UnknownTopicOrPartitionException", "InvalidTopicException"):
            return PipelineRefused(f"{self._where} has no topic {topic!r}{did_you_mean(topic, self._topics())}")
        if name.endswith(_AUTHENTICATION):
            return PipelineRefused(
                f"{self._where} refuses the log-in: {message.rstrip('.')}; set it by properties={{...}}"
            )
        if name.endswith(_AUTHORIZATION):
            return PipelineRefused(f"{self._where} does not let these credentials use topic {topic!r}: {message}")
        if name == "TimeoutException":
            patience_ms = int(self._settings.get("default.api.timeout.ms", _KAFKAS_PATIENCE_MS))
            return StorageFailed(
                f"{self._where} does not answer within {patience_ms / 1000:g} s ({message.rstrip('.')}): is the address right, and is"
                " the security.protocol in properties={...} the listener's?"
            )
        if "No resolvable bootstrap urls" in message:
            return StorageFailed(f"{self._where}: no host of that name is known here")
        return PipelineRefused(f"{self._where}: {name}: {message}")

    def _topics(self) -> list[str]:
        """Names that a slip may have meant; none where they can't be listed."""
        from py4j.protocol import Py4JJavaError

        try:
            return list(map(str, self._admin.listTopics().names().get()))
        except Py4JJavaError:
            return []


@contextlib.contextmanager
def connected(call: str, class_path: str, servers: str, properties: Mapping[str, str]) -> Iterator[Brokers]:
    """A connection to the brokers at `servers`. Raises PipelineRefused for what no retry mends, StorageFailed."""
    with gateway.opened(class_path) as jvm:
        if not _has_connector(jvm):
            raise PipelineRefused(f"{call}: {missing_connector()}")
        brokers = Brokers(jvm, call, servers, properties)
        try:
            yield brokers
        finally:
            brokers.close()


def missing_connector() -> str:
    """What to do where Spark can't read Kafka."""
    return f"Spark has no jars for Kafka; name them: -D spark.jars.packages={CONNECTOR}"


def _has_connector(jvm: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        jvm.java.lang.Class.forName(_CLIENT_CLASS)
    except Py4JJavaError:
        return False
    return jvm.java.lang.ClassLoader.getSystemResource(_CONNECTOR_CLASS) is not None


def _cause(thrown: Any) -> tuple[str, str]:
    """Class and message of the innermost cause."""
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    return str(thrown.getClass().getSimpleName()), str(thrown.getMessage() or "")
