"""State of a query, read by Spark's own data sources from a copy of its checkpoint, in a child of the worker."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from firesteel.adapters.spark import calls
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.spark.streams.snapshots.checkpointlog import commit_entry
from firesteel.adapters.spark.streams.snapshots.pointfiles import COMMITS
from firesteel.adapters.spark.streams.snapshots.points import committed_point, last_committed, local_path
from firesteel.model.streams import STATE_ROWS_MAX, QueryState, StateOperator, StateQuestion

_SIDES = ("left", "right")
_NULL = "null"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def read_state(payload: bytes) -> bytes:
    """StateReading in, QueryState out. Raises PipelineRefused for what is not there."""
    reading = msgspec.msgpack.decode(payload, type=calls.StateReading)
    settings = {**reading.settings, **_settings(reading.checkpoint)}
    spark = AttemptSession(lambda: reading.endpoint, reading.session, "firesteel-state", settings).get()
    client: Any = spark.client
    client.set_retry_policies([])
    try:
        return msgspec.msgpack.encode(_read(spark, reading))
    finally:
        client.release_session()
        client.close()


def _settings(checkpoint: str) -> dict[str, str]:
    """With which Spark finds the files of the state: those that the query had pinned, and the format of its commits."""
    point = committed_point(checkpoint)
    path = f"{COMMITS}/{point.batch}"
    commit = commit_entry((local_path(checkpoint) / path).read_text(), path)
    return {**point.settings, _FORMAT: "2" if commit.unique_ids else "1"}


def _read(spark: Any, reading: calls.StateReading) -> QueryState:
    batch = last_committed(reading.checkpoint)
    assert batch is not None, "the copy is of a committed point"
    operators = tuple(_operators(spark, reading.checkpoint))
    question = reading.question
    operator = next((each for each in operators if each.number == question.operator), None)
    if operator is None:
        known = ", ".join(f"{each.number} ({each.name})" for each in operators) or "none: it keeps no state"
        raise PipelineRefused(f"{reading.uid} has no stateful operator {question.operator}; it has {known}")
    rows = _rows(_asked(_state(spark, reading, operator), question), question)
    limit = min(question.limit, STATE_ROWS_MAX)
    return QueryState(
        uid=reading.uid,
        batch_id=batch,
        operators=operators,
        rows=tuple(rows[:limit]),
        is_complete=len(rows) <= limit,
    )


def _operators(spark: Any, checkpoint: str) -> list[StateOperator]:
    found: dict[int, StateOperator] = {}
    for row in spark.read.format("state-metadata").load(checkpoint).collect():
        name, number = row["operatorName"], int(row["operatorId"])
        stores = _SIDES if name == "symmetricHashJoin" else _variables(row["operatorProperties"])
        found[number] = StateOperator(number=number, name=name, stores=stores, partitions=int(row["numPartitions"]))
    return [found[number] for number in sorted(found)]


def _variables(properties: str | None) -> tuple[str, ...]:
    """Of `transformWithState`, from Spark's description of the operator."""
    known = json.loads(properties) if properties else {}
    return tuple(each["stateName"] for each in known.get("stateVariables", ()) if not each["stateName"].startswith("$"))


def _state(spark: Any, reading: calls.StateReading, operator: StateOperator) -> Any:
    store = reading.question.store or next(iter(operator.stores), "")
    if store and store not in operator.stores:
        known = ", ".join(operator.stores) or "one without a name"
        raise PipelineRefused(f"operator {operator.number} ({operator.name}) has no store {store!r}; it has {known}")
    reader = spark.read.format("statestore").option("path", reading.checkpoint).option("operatorId", operator.number)
    if store:
        reader = reader.option("joinSide" if operator.stores == _SIDES else "stateVarName", store)
    return reader.load()


def _asked(state: Any, question: StateQuestion) -> Any:
    """The rows with these keys: by the text that Spark casts them to, or the one they are shown as."""
    known = state.schema["key"].dataType.names if question.keys else ()
    for name, value in question.keys.items():
        parts = name.split(".")
        if parts[0] not in known:
            raise PipelineRefused(f"the key of this state has no column {parts[0]!r}; it has {', '.join(known)}")
        column = F.col("key")
        for part in parts:
            column = column.getField(part)
        is_asked = (column.cast("string") == value) | (F.get_json_object(_json(column.alias("key")), "$.key") == value)
        state = state.where(is_asked | column.isNull() if value == _NULL else is_asked)
    return state


def _rows(state: Any, question: StateQuestion) -> list[dict[str, Any]]:
    """One more than are asked for, if there are."""
    text = _json(*(_declared(each) for each in state.schema.fields))
    limit = min(question.limit, STATE_ROWS_MAX) + 1
    return [json.loads(row[0]) for row in state.select(text).limit(limit).collect()]


def _json(*columns: Any) -> Any:
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


def _declared(column: Any) -> Any:
    """Of a struct the fields that it says it has: rows of a join's state have one more, which `to_json` stumbles over. Buffers of
    aggregations have several of one name, which are numbered."""
    found = F.col(f"`{column.name}`")
    if not isinstance(column.dataType, StructType):
        return found
    fields = column.dataType.fields
    names = numbered([field.name for field in fields])
    if names != column.dataType.names:
        renamed = zip(names, fields, strict=True)
        return found.cast(StructType([StructField(n, field.dataType) for n, field in renamed])).alias(column.name)
    return F.struct(*(found.getField(name).alias(name) for name in names)).alias(column.name)


def numbered(names: Sequence[str]) -> list[str]:
    """Each name once: the second `count` is `count_2`."""
    taken: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in itertools.count(2))
        free = (each for each in (name, *itertools.islice(others, len(names))) if each not in taken)
        taken.append(next(free))
    return taken
