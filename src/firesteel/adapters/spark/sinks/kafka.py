"""Rows into a topic of Kafka, at least once: Spark's Kafka sink has no transactions, so nothing is staged or committed."""

from collections.abc import Mapping
from typing import Any

from firesteel.adapters.spark import brokers
from firesteel.adapters.spark.gateway import class_path_of
from firesteel.adapters.spark.properties import resolved
from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.spark.session.context import current_attempt
from firesteel.pipeline.kafkasplits import SPARKS_OWN, client_properties

SERVERS_OPTION = "kafka.bootstrap.servers"
_CALL = "write_kafka"
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "topic": ("string",),
}
"""Columns that Spark's Kafka sink knows, and the types they may have."""


def write_kafka(df: Any, topic: str, servers: str, *, properties: Mapping[str, str] | None = None) -> None:
    """Send the rows of `df` to `topic` at the brokers `servers` ("host:9092,..."), at least once.

    Columns are Spark's: `value`, and if there are such, `key`, `headers`, `partition`, and `topic`, when the argument is
    empty; others are refused. Rows are sent while the attempt runs, not when the job has finished: what an attempt has sent
    before it failed stays, and the next one sends all of its rows again. `properties` are those of Kafka's own client,
    without `kafka.` before them; values may be `env:NAME` or `file:/path`, read on the worker.
    Raises ValueError for what can't be done.
    """
    given = client_properties(properties or {})
    _check_call(topic, servers, given)
    _check_columns(df, topic)
    settings = resolved(_CALL, given)
    with current_attempt.writing() as attempt:
        if attempt is not None:
            attempt.allow_write(servers)
        with brokers.connected(_CALL, class_path_of(df.sparkSession), servers, settings) as found:
            found.partitions([topic] if topic else [])
        writer = df.write.format("kafka").options(**{f"kafka.{name}": text for name, text in settings.items()})
        writer = writer.option(SERVERS_OPTION, servers)
        (writer.option("topic", topic) if topic else writer).save()


def _check_call(topic: str, servers: str, properties: Mapping[str, str]) -> None:
    for argument, value in (("topic", topic), ("servers", servers)):
        if not isinstance(value, str) or (argument == "servers" and not value):
            raise SinkRefused(f"{_CALL}: {argument}={value!r} must be a text")
    own = next((name for name in properties if name in SPARKS_OWN), None)
    if own is not None:
        raise SinkRefused(f"{_CALL}: property {own} is set by what the call says, or by Spark")


def _check_columns(df: Any, topic: str) -> None:
    """Spark would pass over columns that it does not know, and rows would be sent without them."""
    types = {field.name.lower(): field.dataType.simpleString() for field in df.schema.fields}
    if "value" not in types:
        raise SinkRefused(
            f"{_CALL}: the rows have no column 'value' (they have {', '.join(df.columns)}): make one, for instance with"
            ' df.select(F.to_json(F.struct("*")).alias("value"))'
        )
    other = [name for name in df.columns if name.lower() not in _COLUMNS]
    if other:
        raise SinkRefused(
            f"{_CALL}: column {', '.join(other)} is none of {', '.join(_COLUMNS)}, and would not be sent: put it into the"
            " value, or leave it out"
        )
    if bool(topic) == ("topic" in types):
        problem = (
            "the rows have a column 'topic', too: leave out one of them"
            if topic
            else "name a topic, or give the rows a column 'topic'"
        )
        raise SinkRefused(f"{_CALL}: topic={topic!r}: {problem}")
    wrong = next((name for name, kind in types.items() if kind not in _COLUMNS[name]), None)
    if wrong is not None:
        raise SinkRefused(f"{_CALL}: column {wrong!r} is {types[wrong]}; it has to be {' or '.join(_COLUMNS[wrong])}")
