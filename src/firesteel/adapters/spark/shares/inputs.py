"""A stored result that a subtask reads, as the planner is to see it."""

import functools
from collections.abc import Sequence
from typing import Any

from firesteel.adapters.spark.exchange.layout import key_position
from firesteel.adapters.spark.internals import relation_of
from firesteel.adapters.spark.shares.marking import PARTITIONS, Input, spread
from firesteel.model.jobgraph import JobEdge, Partitioner

_NEUTRAL_TYPES = {
    "tinyint": "bigint",
    "smallint": "bigint",
    "int": "bigint",
    "float": "decimal(38,17)",
    "double": "decimal(38,17)",
}
"""In which type keys of a family are laid out when Spark would cast or normalise them before it compares them. Rows that
are equal meet all the same: `exchange/layout.py` hashes them as one type. A cast to it that a user would write loses nothing, or
is one that nobody writes."""


def input_over(edge: JobEdge, frame: Any, columns: Sequence[str]) -> Input:
    """The input that stands for `frame`, read over `edge`, in marked plans."""
    if edge.partitioner is Partitioner.BROADCAST:
        return Input()
    client = frame.sparkSession.client
    if edge.partitioner is not Partitioner.HASH or not edge.keys:
        return Input(spread(relation_of(frame, client)))
    positions = [key_position(key, tuple(columns)) for key in edge.keys]
    plain = _laid_out(frame, columns, positions, {})

    @functools.cache
    def neutral() -> Any:  # asks Spark for the types, so only when a plan is asked about a second time
        found = {position: _neutral(frame.schema.fields[position]) for position in positions}
        types = {position: kind for position, kind in found.items() if kind}
        return relation_of(_laid_out(frame, columns, positions, types), client)

    return Input(relation_of(plain, client), neutral)


def _laid_out(frame: Any, columns: Sequence[str], positions: Sequence[int], types: dict[int, str]) -> Any:
    """The frame laid out by position: two columns may have names that differ in case only, or not at all."""
    from pyspark.sql import functions as F

    numbered = frame.toDF(*(f"c{index}" for index in range(len(columns))))
    for position, kind in types.items():
        numbered = numbered.withColumn(f"c{position}", F.col(f"c{position}").cast(kind))
    return numbered.repartition(PARTITIONS, *(F.col(f"c{position}") for position in positions)).toDF(*columns)


def _neutral(field: Any) -> str:
    """The type in which a key is laid out for the second question, or empty."""
    shown = field.dataType.simpleString()
    if shown.startswith("decimal"):
        return "decimal(38,17)"
    if shown.startswith("string collate"):
        return "string"
    if shown.startswith("interval"):
        months = "month" in shown or "year" in shown
        return "interval year to month" if months else "interval day to second"
    return _NEUTRAL_TYPES.get(shown, "")
