"""A real Kafka broker beside the tests, in KRaft mode, and Kafka's own clients to look at it with."""

import contextlib
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaMember

from firesteel.adapters.spark import gateway
from firesteel.adapters.spark.jvm.launch import find_installation
from tests.durable.zookeeper import DIES_WITH_PARENT
from tools import kafka as jars

LIMIT_S = 120.0
CLUSTER_ID = "Zmlyc3RlZWwtb24ta2Fma2E"
LOG_IN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = {"reader": "the-reader's", "nobody": "nobody's"}
"""Users of the listener with log-ins, and their passwords; `nobody` may do nothing."""
CONFIGURATION = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://127.0.0.1:{plain},LOGIN://127.0.0.1:{login},CONTROLLER://127.0.0.1:{controller}
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
listener.name.login.sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config={log_in}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:reader
log.dirs={directory}
num.partitions=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=1000
"""

_RECORD = re.compile(
    r"partition = (?P<partition>\d+), .*?headers = RecordHeaders\(headers = (?P<headers>.*?), isReadOnly = \w+\),"
    r" key = (?P<key>.*?), value = (?P<value>.*?)\)(?=, ConsumerRecord|\])"
)
_HEADER = re.compile(r"RecordHeader\(key = (\w+), value = \[(.*?)\]\)")

Record = tuple[str | None, str | None]
"""Key and value."""


class Kafka:
    """A broker and its topics. `servers` asks for no log-in, `guarded` does."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        plain, login, controller = _free_ports(3)
        self.servers, self.guarded = f"127.0.0.1:{plain}", f"127.0.0.1:{login}"
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        directory.mkdir(parents=True)
        self._file = directory / "server.properties"
        self._file.write_text(
            CONFIGURATION.format(
                plain=plain,
                login=login,
                controller=controller,
                directory=directory / "data",
                log_in=f"{LOG_IN} {users};",
            )
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, jvm: Any) -> None:
        """`jvm` has Kafka's clients."""
        self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._file)).wait(LIMIT_S)
        self._process = self._run("kafka.Kafka", str(self._file))
        self._jvm = jvm
        settings = self._settings({"request.timeout.ms": "1000", "default.api.timeout.ms": "60000"})
        self._admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        plain = int(self.servers.rpartition(":")[2])
        until_s = time.monotonic() + LIMIT_S
        while True:
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < until_s, self.log()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", plain)):
                break
            time.sleep(0.1)
        strings = dict.fromkeys(("key", "value"), "org.apache.kafka.common.serialization.StringSerializer")
        serializers = {f"{name}.serializer": each for name, each in strings.items()}
        self._producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(self._settings(serializers))

    def stop(self) -> None:
        assert self._process is not None
        self._producer.close()
        self._admin.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(LIMIT_S)

    def log(self) -> str:
        return (self._directory / "broker.log").read_text()

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        optional = self._jvm.java.util.Optional
        new = self._jvm.org.apache.kafka.clients.admin.NewTopic(topic, optional.of(partitions), optional.empty())
        new.configs(self._map(settings))
        self._admin.createTopics(self._list([new])).all().get()

    def delete(self, topic: str) -> None:
        self._admin.deleteTopics(self._list([topic])).all().get()

    def remove_before(self, topic: str, partition: int, offset: int) -> None:
        """As retention does."""
        # There is a static method of that name and one that is not: py4j finds the wrong one by itself.
        of_class = "z:org.apache.kafka.clients.admin.RecordsToDelete"
        before = JavaMember("beforeOffset", None, of_class, self._jvm._gateway_client)(offset)
        wanted = self._map({self._partition(topic, partition): before})
        self._admin.deleteRecords(wanted).all().get()

    def send(self, topic: str, partition: int, records: Sequence[Record], at_ms: int | None = None) -> None:
        for key, value in records:
            record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, partition, at_ms, key, value)
            self._producer.send(record)
        self._producer.flush()

    def records(self, topic: str, partitions: int = 1) -> list[tuple[str | None, str | None, int, dict[str, str]]]:
        """Key, value, partition and headers of all records that there are."""
        names = {"key": "String", "value": "String"}
        package = "org.apache.kafka.common.serialization"
        settings = {f"{name}.deserializer": f"{package}.{kind}Deserializer" for name, kind in names.items()}
        consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(self._settings(settings))
        wanted = self._list([self._partition(topic, number) for number in range(partitions)])
        consumer.assign(wanted)
        consumer.seekToBeginning(wanted)
        ends = {each: int(end) for each, end in consumer.endOffsets(wanted).items()}
        found = []
        while any(int(consumer.position(each)) < end for each, end in ends.items()):
            polled = consumer.poll(self._jvm.java.time.Duration.ofMillis(500))
            for each in wanted:  # as one text, since each call of py4j takes its time
                text = str(polled.records(each).toString())
                found += [_record(match) for match in _RECORD.finditer(text)]
        consumer.close()
        return found

    def _run(self, *command: str) -> "subprocess.Popen[bytes]":
        java = (find_installation().java, "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        with open(self._directory / "broker.log", "ab") as output:
            return subprocess.Popen(
                [*DIES_WITH_PARENT, *java, "-cp", f"{jars.home()}/*", *command],
                stdout=output,
                stderr=output,
            )

    def _settings(self, more: Mapping[str, str]) -> Any:
        made = self._jvm.java.util.Properties()
        for name, value in {"bootstrap.servers": self.servers, **more}.items():
            made.setProperty(name, value)
        return made

    def _partition(self, topic: str, partition: int) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)

    def _list(self, values: Sequence[Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    def _map(self, values: Mapping[Any, Any]) -> Any:
        made = self._jvm.java.util.HashMap()
        for key, value in values.items():
            made.put(key, value)
        return made


@contextlib.contextmanager
def kafka(directory: Path) -> Iterator[Kafka]:
    with gateway.opened(f"{jars.home()}/*") as jvm:
        made = Kafka(directory)
        made.start(jvm)
        try:
            yield made
        finally:
            made.stop()


def log_in(user: str) -> dict[str, str]:
    """Properties by which a client logs in as that user, at the listener that asks for it."""
    config = f'{LOG_IN} username="{user}" password="{USERS[user]}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": config}


def _record(match: "re.Match[str]") -> tuple[str | None, str | None, int, dict[str, str]]:
    key, value = (None if text == "null" else text for text in (match["key"], match["value"]))
    headers = {name: bytes(map(int, octets.split(","))).decode() for name, octets in _HEADER.findall(match["headers"])}
    return key, value, int(match["partition"]), headers


def _free_ports(count: int) -> list[int]:
    """Kafka has to know the ports of its listeners before it opens them."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
