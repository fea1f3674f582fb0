"""Shares change no result: random plans over random names, on shares and on the whole.

SHARE_PLANS says how many (few by default, 1,000 for the record), SHARE_SEED where they begin.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.exchange.layout import WHOLE, Layout
from firesteel.adapters.spark.exchange.partitions import StoredResults
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.shares.guard import ShareGuard
from firesteel.model.ids import DataSetID, JobVertexID
from firesteel.model.jobgraph import Function, FunctionKind, JobEdge, Partitioner
from firesteel.model.tasks import ResultPartition
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.randomplans import A, B, Body
from tests.integration.spark.storages import CORES, always_in_buckets

PLANS = int(os.environ.get("SHARE_PLANS", "12"))
FIRST = int(os.environ.get("SHARE_SEED", "0"))
pytestmark = [pytest.mark.spark, *([pytest.mark.timeout(0)] if PLANS > 100 else [])]
FUNCTION = Function(name="body", uid="body", kind=FunctionKind.TRANSFORM, inputs=("a", "b"))
LAYOUTS: tuple[tuple[JobEdge, JobEdge], ...] = tuple(
    (
        JobEdge(source=DataSetID("a"), target=JobVertexID("t"), partitioner=mine, keys=keys),
        JobEdge(source=DataSetID("b"), target=JobVertexID("t"), partitioner=theirs, keys=keys[:1] and ("k",)),
    )
    for mine, keys, theirs in (
        (Partitioner.HASH, ("k",), Partitioner.HASH),
        (Partitioner.HASH, ("k",), Partitioner.BROADCAST),
        (Partitioner.HASH, ("id", "k"), Partitioner.BROADCAST),
        (Partitioner.REBALANCE, (), Partitioner.BROADCAST),
    )
)


class Tables:
    """The two inputs, stored once a layout."""

    def __init__(self, spark: Any, directory: Path) -> None:
        self._spark, self._directory, self._results = spark, directory, StoredResults(jvm_cores=CORES)
        self._reads = 0
        self._stored: dict[tuple[str, int, tuple[str, ...]], ResultPartition] = {}
        low = [(n % 5 if n % 7 else None, n % 3, n % 4, (n % 2, n % 3, n), n % 6, "abc"[n % 3]) for n in range(40)]
        self._frames = {
            "a": spark.createDataFrame(low, A),
            "b": spark.createDataFrame([(n % 6 if n else None, n, str(n % 3), n % 4) for n in range(9)], B),
        }

    def read(self, edge: JobEdge, parallelism: int, subtask: int) -> tuple[Any, tuple[str, ...]]:
        broadcast = edge.partitioner is Partitioner.BROADCAST
        layout = WHOLE if broadcast or parallelism == 1 else Layout(parallelism, edge.keys)
        key = (edge.source, layout.subpartitions, layout.keys)
        if key not in self._stored:
            where = f"{self._directory}/{edge.source}-{layout.subpartitions}-{'-'.join(layout.keys)}"
            self._stored[key] = self._results.store(self._frames[edge.source], where, edge.source, 0, layout=layout)
        stored = self._stored[key]
        self._reads += 1
        return self._results.read(
            self._spark, [stored], range(subtask, subtask + 1), self._directory / f"read-{self._reads}"
        ), stored.columns


def test_random_plans_give_on_shares_what_they_give_on_the_whole(local: InProcess, tmp_path: Path) -> None:
    tables = Tables(local.spark, tmp_path / "tables")
    told: Counter[str] = Counter()
    for number in range(FIRST, FIRST + PLANS):
        body = Body(number)
        edges = LAYOUTS[number % len(LAYOUTS)]
        expected = _whole(local.spark, tables, edges, body)
        if expected is None:
            told["no plan"] += 1
            continue
        for parallelism in (1, 3, 7):
            with always_in_buckets() if parallelism == 3 else contextlib.nullcontext():
                found = _on_shares(local.spark, tables, edges, body, tmp_path / f"{number}-{parallelism}", parallelism)
            told["refused" if found is None else "approved"] += parallelism > 1
            assert parallelism > 1 or found is not None, f"plan {number} is refused on one share: {body.story}"
            assert found in (None, expected), f"plan {number} at parallelism {parallelism}: {body.story}"
    print(dict(told))
    assert told["approved"] > 0


def _whole(spark: Any, tables: Tables, edges: tuple[JobEdge, JobEdge], body: Body) -> Counter[str] | None:
    """The rows on all rows, or None for a body that makes no plan."""
    from pyspark.errors import PySparkException

    try:
        return _rows(body(spark, *(tables.read(edge, 1, 0)[0] for edge in edges)))
    except PySparkException:
        return None


def _on_shares(
    spark: Any, tables: Tables, edges: tuple[JobEdge, JobEdge], body: Body, approved: Path, parallelism: int
) -> Counter[str] | None:
    """The rows of all shares, or None when the guard refuses the plan."""
    hooks = spark.client._session_hooks
    found: Counter[str] = Counter()
    for subtask in range(parallelism):
        frames = [tables.read(edge, parallelism, subtask) for edge in edges]
        guard = ShareGuard(spark, parallelism, approved) if parallelism > 1 else None
        try:
            result = _under(guard, frames, edges, partial(body, spark, *(frame for frame, _ in frames)))
        except PipelineRefused:
            return None
        finally:
            hooks.clear()
            if guard is not None and guard._planner._shadow is not None:
                guard._planner._shadow.release_session()  # A worker does it: a JVM with thousands of them has no room.
        found += _rows(result)
    return found


def _under(guard: ShareGuard | None, frames: Any, edges: Any, call: Callable[[], Any]) -> Any:
    if guard is None:
        return call()
    for (frame, columns), edge in zip(frames, edges, strict=True):
        guard.given(frame, edge, columns)
    result = guard.call(FUNCTION, call)
    guard.returned(FUNCTION, result)
    guard.leaves(FUNCTION, result)
    return result


def _rows(frame: Any) -> Counter[str]:
    table = frame.toArrow()
    columns = [column.to_pylist() for column in table.columns]
    return Counter(map(repr, zip(*columns, strict=True))) if columns else Counter({"()": table.num_rows})
