"""Inputs of functions that see a share of the rows, for `test_shares.py` and `test_guard.py`."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from firesteel.adapters.spark.shares.guard import ShareGuard
from firesteel.model.ids import DataSetID, JobVertexID
from firesteel.model.jobgraph import Function, FunctionKind, JobEdge, Partitioner
from tests.integration.spark.inprocess import InProcess

BODY = Function(name="counts", uid="counts", kind=FunctionKind.TRANSFORM, inputs=("words",))


class Inputs:
    """Frames of every distribution, most with the columns k, l and v; and the guard that knows them."""

    def __init__(self, spark: Any, scratch: Path, approved: Path | None = None) -> None:
        self.spark, self.scratch = spark, scratch
        self.approved = approved or scratch / uuid.uuid4().hex
        self.guard = ShareGuard(spark, 4, self.approved)
        self.hashed = self.frame("k int, l string, v int", "k")
        self.renamed = self.frame("k int, m int, v int", "k")
        self.cased_text = self.frame("c string collate UTF8_LCASE, v int", "c")
        self.twin = self.frame("k bigint, w int", "k")
        self.other = self.frame("o int, p int", "o")
        self.pair = self.frame("k int, l string, v int", "k", "l")
        self.real = self.frame("x double, d decimal(9,2), v int", "x")
        self.single = self.frame("x float, w int", "x")
        self.event = self.frame("id int, event struct<event_id: int, x: int>", "id")
        spark.conf.set("spark.sql.caseSensitive", "true")
        self.cased = self.frame("k int, K int", "k")
        spark.conf.unset("spark.sql.caseSensitive")
        self.spread = self.frame("k int, l string, v int")
        self.small = self.frame("k int, w int", whole=True)

    def frame(self, schema: str, *keys: str, whole: bool = False) -> Any:
        directory = self.scratch / "empty"
        directory.mkdir(exist_ok=True)
        frame = self.spark.read.schema(schema).parquet(str(directory)).select("*")
        partitioner = Partitioner.HASH if keys else Partitioner.BROADCAST if whole else Partitioner.REBALANCE
        edge = JobEdge(source=DataSetID("d"), target=JobVertexID("v"), partitioner=partitioner, keys=keys)
        self.guard.given(frame, edge, frame.columns)
        return frame

    def call(self, made: Callable[["Inputs"], Any], function: Function = BODY) -> Any:
        """The function's result, which a later function may take. Raises PipelineRefused."""
        frame = self.guard.call(function, lambda: made(self))
        self.guard.returned(function, frame)
        return frame

    def judge(self, made: Callable[["Inputs"], Any], function: Function = BODY) -> None:
        """As the guard does with a function whose result is stored. Raises PipelineRefused."""
        self.guard.leaves(function, self.call(made, function))


@contextlib.contextmanager
def inputs_in(local: InProcess, scratch: Path) -> Iterator[Inputs]:
    """In the session, which is left as it was."""
    hooks = local.spark.client._session_hooks
    before = list(hooks)
    try:
        yield Inputs(local.spark, scratch)
    finally:
        hooks[:] = before
        local.spark.conf.unset("spark.sql.caseSensitive")
        for view in local.spark.catalog.listTables():
            local.spark.catalog.dropTempView(view.name)
