"""Topics of Kafka as the input splits of a source: what an author declares, and what its texts mean."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from firesteel.model.secrets import is_secret
from firesteel.model.splits import KafkaInputFormat, ParameterReference
from firesteel.pipeline.definition import did_you_mean
from firesteel.pipeline.errors import InvalidPipeline

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
OPTIONS = (
    *("includeHeaders", "minPartitions", "maxRecordsPerPartition", "groupIdPrefix"),
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs"),
)
"""Options of Spark's Kafka source that do not say which records are read."""
_SAID_OTHERWISE = {
    "subscribe": "topics",
    "subscribePattern": "topics",
    "assign": "topics and starting=... and ending=...",
    "startingOffsets": "starting=...",
    "startingTimestamp": "starting=...",
    "startingOffsetsByTimestamp": "starting=...",
    "endingOffsets": "ending=...",
    "endingTimestamp": "ending=...",
    "endingOffsetsByTimestamp": "ending=...",
}
SPARKS_OWN = (
    *("bootstrap.servers", "auto.offset.reset", "enable.auto.commit", "interceptor.classes"),
    *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
)
"""Properties of the client that are not the user's to set."""

Limit = str | int | dict[str, dict[int, int]]
"""EARLIEST or LATEST, or milliseconds since 1970, or an offset by topic and partition."""


def kafka_splits(
    topics: str | Sequence[str],
    servers: str,
    *,
    starting: Any = EARLIEST,
    ending: Any = LATEST,
    split_records: int = 1_000_000,
    properties: Mapping[str, str] | None = None,
    **options: Any,
) -> KafkaInputFormat:
    """The records of `topics` at the brokers `servers` ("host:9092,..."): `splits` is a `KafkaSplits`.

    Which offsets are read is found out once a job, before any is read, and kept with the job: an attempt that is made
    again, on whichever worker and under whichever master, reads the same ones. `starting` is "earliest" and `ending`
    "latest", or each a `datetime` with a time zone (the first record of that time or later), or offsets as
    `{topic: {partition: offset}}`, of which `ending` is not included; partitions that are not named begin at the earliest
    and end at the latest. Each can be a text, too: "2026-01-31T00:00:00Z", or the offsets as JSON. A split has
    `split_records` offsets at the most. `properties` are those of Kafka's own client, without `kafka.` before them;
    secrets among them have to be `env:NAME` or `file:/path`, read on the workers. `options` are those of Spark's source
    that say how it reads, such as includeHeaders.
    """
    call = "kafka_splits"
    names = topics if isinstance(topics, str | ParameterReference) else ",".join(map(str, topics))
    for argument, value in (("topics", names), ("servers", servers)):
        if not isinstance(value, str | ParameterReference) or not value:
            raise InvalidPipeline(f'{call}({argument}={value!r}): must be a text that is not empty, or param("...")')
    if type(split_records) is not int or split_records < 1:
        raise InvalidPipeline(f"{call}(split_records={split_records!r}): must be a whole number of at least 1")
    return KafkaInputFormat(
        servers=servers,
        topics=names,
        starting=_limit_text("starting", starting),
        ending=_limit_text("ending", ending),
        split_records=split_records,
        properties=_checked_properties(call, properties or {}),
        options=_checked_options(call, options),
    )


def read_limit(argument: str, text: str) -> Limit:
    """What the text of `starting` or `ending` means. Raises ValueError that says what is wrong with it."""
    text = text.strip()
    if text in (EARLIEST, LATEST):
        if text != (EARLIEST if argument == "starting" else LATEST):
            raise ValueError(f"{argument}={text!r} would read nothing")
        return text
    if text.startswith("{"):
        return _offsets(argument, text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        usual = EARLIEST if argument == "starting" else LATEST
        raise ValueError(
            f"{argument}={text!r} is neither {usual!r}, nor a time like '2026-01-31T00:00:00Z', nor offsets like"
            ' {"topic": {"0": 120}}'
        ) from None
    if moment.tzinfo is None:
        raise ValueError(f"{argument}={text!r} has no time zone: write it like '2026-01-31T00:00:00Z'")
    return round(moment.timestamp() * 1000)


def _offsets(argument: str, text: str) -> dict[str, dict[int, int]]:
    wrong = ValueError(f'{argument}={text!r}: offsets are written like {{"topic": {{"0": 120, "1": 0}}}}')
    try:
        found = {
            topic: {int(partition): offset for partition, offset in partitions.items()}
            for topic, partitions in json.loads(text).items()
        }
    except (ValueError, AttributeError):
        raise wrong from None
    every = [offset for partitions in found.values() for offset in partitions.values()]
    if not all(type(offset) is int and offset >= 0 for offset in every):
        raise wrong
    return found


def _limit_text(argument: str, value: Any) -> str | ParameterReference:
    if isinstance(value, ParameterReference):
        return value
    if isinstance(value, datetime):
        value = value.isoformat()
    elif isinstance(value, Mapping):
        value = json.dumps(value)
    if not isinstance(value, str):
        raise InvalidPipeline(f"kafka_splits({argument}={value!r}): must be a text, a datetime or offsets by topic")
    try:
        read_limit(argument, value)
    except ValueError as error:
        raise InvalidPipeline(f"kafka_splits: {error}") from None
    return value


def _checked_properties(call: str, properties: Mapping[str, str]) -> dict[str, str]:
    for name, value in properties.items():
        if name.removeprefix("kafka.") in SPARKS_OWN:
            raise InvalidPipeline(f"{call}: property {name} is set by what the call says, or by Spark")
        if is_secret(name) and not str(value).startswith(("env:", "file:")):
            raise InvalidPipeline(
                f"{call}: property {name} is a secret, and a declaration is shown and stored with its job: give it as"
                ' "env:NAME" or "file:/path", to be read on the workers'
            )
    return client_properties(properties)


def client_properties(properties: Mapping[str, Any]) -> dict[str, str]:
    """Properties as Kafka's own client has them: also given as Spark has them, with `kafka.` before their names."""
    return {
        name.removeprefix("kafka."): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in properties.items()
    }


def _checked_options(call: str, options: Mapping[str, Any]) -> dict[str, str]:
    known = {name.lower(): name for name in OPTIONS}
    otherwise = {name.lower(): said for name, said in _SAID_OTHERWISE.items()}
    for name in options:
        if name.lower() == "failondataloss":
            raise InvalidPipeline(f"{call}: records that are gone before they are read always fail the job")
        if name.lower() in otherwise:
            raise InvalidPipeline(f"{call}: option {name} is said by {otherwise[name.lower()]} here")
        if name.lower().startswith("kafka."):
            raise InvalidPipeline(f'{call}: give {name} as properties={{"{name[6:]}": ...}}')
        if name.lower() not in known:
            raise InvalidPipeline(f"{call}: Spark's Kafka source has no option {name!r}{did_you_mean(name, OPTIONS)}")
    given = {known[name.lower()]: value for name, value in options.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
