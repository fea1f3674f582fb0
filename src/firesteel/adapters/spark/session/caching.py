"""The cache of an attempt: kept apart from other sessions' plans, and given back when its session is closed.

Spark's cache belongs to the JVM and is looked up by what a plan looks like. So another job that reads the same files
would be answered from it, also when they have been replaced since; and closing a session releases nothing. Therefore a
plan that is cached gets a condition that is always true and that no other plan has (Spark's optimiser drops it, after it
has looked into the cache); and the worker is told what to release, before it is cached.
"""

import re
import uuid
from collections.abc import Callable
from typing import Any

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.wire import Cached

RELATION_BYTES_MAX = 8 * 1024 * 1024
"""A larger plan is not told to the worker: it is released when nobody uses the JVM."""
_IDENTIFIER = r"(?:`(?:[^`]|``)+`|\w+)"
_CACHE_TABLE = re.compile(rf"\s*CACHE\s+(?:LAZY\s+)?TABLE\s+({_IDENTIFIER}(?:\s*\.\s*{_IDENTIFIER})*)", re.IGNORECASE)

Note = Callable[[Cached], None]


class CacheWatch:
    """The watch over all that the sessions of a task process have Spark cache. `note` hears of each."""

    def __init__(self, note: Note) -> None:
        self._note = note

    def install(self) -> None:
        """Have `DataFrame.persist` set apart what it caches."""
        from pyspark.sql.connect.dataframe import DataFrame

        persist = DataFrame.persist

        def persist_apart(frame: Any, *level: Any, **levels: Any) -> Any:
            self._about_to_cache(frame)
            return persist(frame, *level, **levels)

        DataFrame.persist = persist_apart  # type: ignore[method-assign,assignment]

    def add(self, session: Any) -> None:
        """A session was opened."""
        internals.add_hook(session.client, self)

    def on_execute_plan(self, request: Any) -> Any:
        """Hook of the session: notes tables and views that are cached by name, which is a name in the whole JVM."""
        name = _cached_table(request.plan)
        if name:
            self._note(Cached(request.session_id, statement=f"UNCACHE TABLE IF EXISTS {name}"))
        return request

    def _about_to_cache(self, frame: Any) -> None:
        client = frame.sparkSession.client
        mark = uuid.uuid4().hex
        internals.change_relation(frame, lambda relation: _set_apart(relation, mark))
        data = internals.relation_of(frame, client).SerializeToString()
        self._note(Cached(internals.session_id_of(client), data if len(data) <= RELATION_BYTES_MAX else b""))


def _set_apart(relation: Any, mark: str) -> Any:
    """The relation with its condition."""
    import pyspark.sql.connect.proto as pb2

    apart = pb2.Relation()
    apart.filter.input.CopyFrom(relation)
    condition = apart.filter.condition.unresolved_function
    condition.function_name = "=="
    for _ in range(2):
        condition.arguments.add().literal.string = mark
    return apart


def _cached_table(plan: Any) -> str:
    root = plan.root
    if root.catalog.HasField("cache_table"):
        return str(root.catalog.cache_table.table_name)
    command = plan.command.sql_command
    found = _CACHE_TABLE.match(command.sql or command.input.sql.query or root.sql.query)
    return found[1] if found else ""
