"""What attempts of the fake backend leave: stored results, staged outputs, and figures of them."""

import msgspec

from firesteel.model.ids import derived_id
from firesteel.model.jobgraph import ExchangeMode, FunctionKind, JobVertex
from firesteel.model.splits import places_read
from firesteel.model.tasks import (
    InputPlace,
    IOMetrics,
    JobInformation,
    ResultPartition,
    SinkCommit,
    TaskDeployment,
    TaskOutcome,
)
from firesteel.testing.enumeration import range_enumeration

FAKE_SPLITS = 40
"""Input splits of every source that has any."""
COLUMNS = (("n", "bigint"),)
"""Columns of all that is read from outside or written."""


def outcome_of(job: JobInformation, deployment: TaskDeployment) -> TaskOutcome:
    """What an attempt leaves: a result for each data set that is read over a blocking edge, and its sinks' outputs."""
    graph, attempt = job.graph, deployment.attempt
    base = f"{attempt.job_id}/{attempt.region}#{attempt.attempt}"
    stored = {edge.source for edge in graph.edges if edge.exchange is ExchangeMode.BLOCKING}
    datasets = [data for data in graph.datasets if data.producer in deployment.vertices and data.id in stored]
    sinks = [
        vertex
        for vertex in graph.vertices
        if vertex.id in deployment.vertices and vertex.functions[-1].kind is FunctionKind.SINK
    ]
    finders = [
        vertex
        for vertex in graph.vertices
        if vertex.id in deployment.vertices and vertex.functions[0].kind is FunctionKind.SPLITS
    ]
    if finders:
        return TaskOutcome(splits=range_enumeration(FAKE_SPLITS))
    return TaskOutcome(
        partitions=tuple(
            ResultPartition(dataset_id=data.id, subtask=deployment.subtask, location=f"{base}/{data.id}")
            for data in datasets
        ),
        sinks=tuple(_commit(deployment, vertex, base) for vertex in sinks),
        reads=tuple(
            InputPlace(function.name, place, COLUMNS)
            for vertex in graph.vertices
            if vertex.id in deployment.vertices and deployment.subtask == 0
            for function in vertex.functions
            if function.splits is not None
            for place in places_read(function.splits, graph.parameters)
        ),
    )


def counted(outcome: TaskOutcome, io: IOMetrics | None) -> TaskOutcome:
    if io is None:
        return outcome
    rows = {"rows": io.rows_written, "size_bytes": io.bytes_written}
    replace = msgspec.structs.replace
    return replace(
        outcome,
        io=io,
        partitions=tuple(replace(part, **rows) for part in outcome.partitions),
        sinks=tuple(replace(sink, **rows) for sink in outcome.sinks),
    )


def _commit(deployment: TaskDeployment, vertex: JobVertex, base: str) -> SinkCommit:
    return SinkCommit(
        commit_id=derived_id(deployment.attempt, vertex.id),
        vertex_id=vertex.id,
        function=vertex.functions[-1].name,
        format="parquet",
        mode="append",
        target=f"{deployment.attempt.job_id}/{vertex.name}/{deployment.subtask}",
        staging=f"{base}/sink/{vertex.id}",
        files=("part-0",),
        columns=COLUMNS,
    )
