"""Runs a pipeline's regions one after another in the test's own process: real plans, real Spark, no task processes."""

import tests.connectmode  # noqa: F401, I001

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firesteel.adapters.spark.backend import SparkTaskBackend
from firesteel.adapters.spark.context import AttemptContext
from firesteel.adapters.spark.plan import RegionPlan
from firesteel.adapters.spark.session import AttemptSession
from firesteel.adapters.spark.wire import SessionName
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.topology import Topology
from firesteel.core.scheduler.commit import gather_commits
from firesteel.model.ids import AllocationID, JobID, RegionAttemptID, RegionIndex
from firesteel.model.jobgraph import JobGraph
from firesteel.model.tasks import SinkCommit, TaskDeployment, TaskOutcome
from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.graph import build_job_graph

SETTINGS = {"spark.sql.shuffle.partitions": "3", "spark.sql.session.timeZone": "UTC"}


class InProcess:
    """A Connect session on a backend, and a directory for stored results."""

    def __init__(self, backend: SparkTaskBackend, directory: Path, do: Callable[[Any], Any]) -> None:
        endpoint = do(backend.endpoint())
        self.session = AttemptSession(lambda: endpoint, SessionName("tester", str(uuid.uuid4())), "tests", SETTINGS)
        self.directory = directory

    @property
    def spark(self) -> Any:
        return self.session.get()

    def run(self, pipeline: Pipeline, **build: Any) -> tuple[SinkCommit, ...]:
        """Every region, producers first; returns the commits that would make the sinks' outputs visible."""
        graph = build_job_graph(pipeline, job_id=JobID(uuid.uuid4().hex), **build)
        functions = {each.name: each.callable for each in pipeline.definitions}
        topology = Topology(graph)
        tracker = PartitionTracker(topology)
        for logical in topology.logical:
            for subtask in range(logical.parallelism):
                region = RegionIndex(logical.offset + subtask)
                deployment = TaskDeployment(
                    attempt=RegionAttemptID(graph.job_id, region, 0),
                    allocation_id=AllocationID(""),
                    vertices=tuple(vertex.id for vertex in logical.vertices),
                    subtask=subtask,
                    inputs=tracker.inputs_of(logical, subtask),
                )
                tracker.register(region, self._attempt(graph, deployment, functions))
                assert tracker.key_types.conflict is None, tracker.key_types.conflict
        return gather_commits([tracker.outcomes[region] for region in sorted(tracker.outcomes)])

    def _attempt(self, graph: JobGraph, deployment: TaskDeployment, functions: dict[str, Any]) -> TaskOutcome:
        context = AttemptContext(deployment, self.directory, {}, report_staging=lambda location, secrets={}: None)
        plan = RegionPlan(graph, deployment, self.session, context)
        where = self.directory / deployment.attempt.job_id / str(deployment.attempt.region)
        try:
            return plan.run(lambda function: functions[function.name], where)
        finally:
            hooks: list[Any] = self.spark.client._session_hooks
            hooks.clear()
