"""FileOrigins: refuses to say which file a row comes from where that would be a file of a stored result.

Fused with the function that reads the files the answer is the user's file; behind a stored result it would be firesteel's.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.model.jobgraph import Function

METADATA = "_metadata"
_FUNCTIONS = ("input_file_name", "input_file_block_start", "input_file_block_length")
_MARKS = tuple(name.encode() for name in (*_FUNCTIONS, METADATA))
_IN_TEXT = re.compile(rf"\b(?:{'|'.join(_FUNCTIONS)})(?=\s*\()|\b{METADATA}\b", re.IGNORECASE)
_ATTRIBUTE = re.compile(rf"`?{METADATA}`?(?:\.|$)", re.IGNORECASE)


class FileOrigins:
    """Refuses questions after files of stored results, for one attempt: a session hook of the Connect client."""

    def __init__(self) -> None:
        self._stored: dict[int, None] = {}
        """Plan ids of what is read of stored results."""
        self._has_column = False
        self._client: Any = None
        self._active = ""

    def given(self, frame: Any, columns: tuple[str, ...]) -> None:
        """`frame` is a stored result."""
        if self._client is None:
            self._client = frame.sparkSession.client
            internals.add_hook(self._client, self)
        self._stored[internals.plan_id_of(frame)] = None
        self._has_column = self._has_column or METADATA in map(str.lower, columns)

    def call(self, function: Function, call: Callable[[], Any]) -> Any:
        """Call the user's function under watch."""
        self._active = function.name
        try:
            return call()
        finally:
            self._active = ""

    def returned(self, function: Function, frame: Any) -> None:
        """Check a function's result. Raises PipelineRefused."""
        if self._stored:
            self._check(function.name, internals.relation_of(frame, self._client))

    def on_execute_plan(self, request: Any) -> Any:
        if self._active:
            self._check(self._active, request.plan)
        return request

    def _check(self, function: str, plan: Any) -> None:
        data = plan.SerializeToString().lower()
        if any(mark in data for mark in _MARKS):
            self._reads_stored(function, plan)

    def _reads_stored(self, function: str, message: Any) -> bool:
        """Whether it is made of a stored result; asked of each relation with what is asked in it."""
        reads = message.DESCRIPTOR.full_name == "spark.connect.Relation" and message.common.plan_id in self._stored
        asked = _asked(message)
        for field, value in message.ListFields():
            for item in value if field.is_repeated else (value,):
                if hasattr(item, "DESCRIPTOR") and item.DESCRIPTOR.full_name != "spark.connect.Expression.Literal":
                    reads = self._reads_stored(function, item) or reads
        is_text = message.DESCRIPTOR.full_name == "spark.connect.SQL"  # whose tables may be views of anything
        if asked and (reads or is_text) and not (self._has_column and asked == METADATA):
            raise PipelineRefused(
                f"{function} asks for {asked} of rows that reach it through a stored result, and it would get a file of"
                " firesteel's: ask in the source that reads the files, as with"
                ' .withColumn("file", F.input_file_name()), and use that column'
            )
        return reads


def _asked(message: Any) -> str:
    """The function or column that this message asks for in its relation, below other relations; or empty."""
    if message.DESCRIPTOR.full_name in ("spark.connect.Relation", "spark.connect.Plan", "spark.connect.Command"):
        return ""
    return next(_questions(message), "")


def _questions(message: Any) -> Iterator[str]:
    match message.DESCRIPTOR.full_name:
        case "spark.connect.Relation" | "spark.connect.Expression.Literal":
            return
        case "spark.connect.SQL":
            yield from _IN_TEXT.findall(message.query)
        case "spark.connect.Expression.ExpressionString":
            yield from _IN_TEXT.findall(message.expression)
        case "spark.connect.Expression.UnresolvedFunction" | "spark.connect.CallFunction":
            yield from (name for name in _FUNCTIONS if message.function_name.lower() == name)
        case "spark.connect.Expression.UnresolvedAttribute":
            yield from [METADATA] if _ATTRIBUTE.match(message.unparsed_identifier) else []
        case _:
            pass
    for field, value in message.ListFields():
        for item in value if field.is_repeated else (value,):
            if hasattr(item, "DESCRIPTOR"):
                yield from _questions(item)
