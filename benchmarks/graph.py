"""The size of things: a job of 2 × 20,000 subtasks, joined all to all."""

import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from benchmarks.report import Report, Series, Verdict
from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.topology import Topology
from firesteel.core.scheduler.strategy import schedulable, schedulable_after
from firesteel.model.ids import DataSetID, JobID, JobVertexID, derived_id
from firesteel.model.jobgraph import (
    DistributionPattern,
    ExchangeMode,
    Function,
    FunctionKind,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    Partitioner,
    RuntimeEnvironment,
)
from firesteel.model.states import ExecutionState

PARALLELISM = 20_000
SUBTASKS = 2 * PARALLELISM
BUILD_MS_MAX = 100
BYTES_PER_SUBTASK_MAX = 300

Job = tuple[ExecutionGraph, PartitionTracker]
Result = TypeVar("Result")


def measure(rounds: int) -> Report:
    """Milliseconds to build and to schedule, bytes that stay."""
    graph = job_graph()
    build(graph)
    builds = [timed(lambda: build(graph))[0] for _ in range(rounds)]
    waves = [wave(build(graph)) for _ in range(rounds)]
    memory = [kept_bytes(graph) / SUBTASKS for _ in range(rounds)]
    series = (
        Series("graph and regions built", "ms", tuple(builds)),
        Series("first wave finished, second found", "ms", tuple(waves)),
        Series("memory", "bytes/subtask", tuple(memory)),
    )
    return Report(
        case="graph",
        series=series,
        verdicts=(
            Verdict("built", series[0].median, "ms", at_most=BUILD_MS_MAX),
            Verdict("memory", series[2].median, "bytes/subtask", at_most=BYTES_PER_SUBTASK_MAX),
        ),
    )


def job_graph() -> JobGraph:
    """Two vertices of built-in no-ops with a blocking exchange between them."""
    first, second = (JobVertexID(derived_id(name)) for name in ("first", "second"))
    dataset = DataSetID(derived_id("first", "dataset"))
    edge = JobEdge(
        source=dataset,
        target=second,
        pattern=DistributionPattern.ALL_TO_ALL,
        exchange=ExchangeMode.BLOCKING,
        partitioner=Partitioner.REBALANCE,
    )
    return JobGraph(
        job_id=JobID(derived_id("benchmark")),
        name="benchmark",
        vertices=(vertex(first, "first"), vertex(second, "second")),
        datasets=(IntermediateDataSet(id=dataset, name="first", producer=first),),
        edges=(edge,),
        environment=RuntimeEnvironment(python="3.11", pyspark=""),
    )


def vertex(vertex_id: JobVertexID, name: str) -> JobVertex:
    """A vertex with one no-op function."""
    function = Function(name=name, uid=name, kind=FunctionKind.NOOP)
    return JobVertex(id=vertex_id, name=name, functions=(function,), parallelism=PARALLELISM)


def build(graph: JobGraph) -> Job:
    """What a JobMaster keeps of a job's subtasks, and the regions that may run at once."""
    topology = Topology(graph)
    execution, partitions = ExecutionGraph(topology), PartitionTracker(topology)
    assert len(schedulable(execution, partitions)) == PARALLELISM
    return execution, partitions


def wave(job: Job) -> float:
    """Milliseconds to run the first vertex through its states and find that all of the second may run."""
    execution, partitions = job
    regions = np.arange(PARALLELISM)

    def run() -> int:
        for state in (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, ExecutionState.RUNNING):
            execution.move(regions, state, 1)
        execution.move(regions, ExecutionState.FINISHED, 2)
        partitions.available[regions] = True
        return len(schedulable_after(execution, partitions, regions))

    elapsed, ready = timed(run)
    assert ready == PARALLELISM
    return elapsed


def kept_bytes(graph: JobGraph) -> int:
    """Bytes that a built job holds, numpy's among them."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        job = build(graph)
        after = tracemalloc.get_traced_memory()[0]
        assert job[0].nbytes() <= after - before, "tracemalloc does not see numpy's memory"
        return after - before
    finally:
        tracemalloc.stop()


def timed(function: Callable[[], Result]) -> tuple[float, Result]:
    """Milliseconds and the result."""
    started = time.perf_counter()
    result = function()
    return (time.perf_counter() - started) * 1_000, result
