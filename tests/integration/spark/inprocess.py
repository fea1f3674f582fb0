"""Runs a pipeline's regions one after another in the test's own process: real plans, real Spark, no task processes."""

import tests.connectmode  # noqa: F401, I001

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import firesteel as fs
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.adapters.spark.session.context import AttemptContext
from firesteel.adapters.spark.task.plan import RegionPlan
from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.spark.wire import SessionName
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.topology import Topology
from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.commit import gather_commits
from firesteel.core.scheduler.splits import SplitAssigners
from firesteel.model.ids import AllocationID, JobID, RegionAttemptID, RegionIndex
from firesteel.model.jobgraph import JobGraph
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import SinkCommit, TaskDeployment, TaskOutcome, results_of
from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.graph import build_job_graph
from tests.integration.spark.storages import CORES

SETTINGS = {"spark.sql.shuffle.partitions": "3", "spark.sql.session.timeZone": "UTC"}


class InProcess:
    """A Connect session on a backend, and a directory for stored results."""

    def __init__(self, backend: SparkTaskBackend, directory: Path, do: Callable[[Any], Any]) -> None:
        endpoint = do(backend.endpoint(for_outsider=True))
        self.session = AttemptSession(lambda: endpoint, SessionName("tester", str(uuid.uuid4())), "tests", SETTINGS)
        self.directory = directory

    @property
    def spark(self) -> Any:
        return self.session.get()

    def close(self) -> None:
        """While the server lives: a client whose server is gone retries for minutes."""
        if self.session.opened:
            self.session.get().stop()

    def run(self, pipeline: Pipeline, job_id: str = "", **build: Any) -> tuple[SinkCommit, ...]:
        """Every region, producers first; returns the commits that would make the sinks' outputs visible."""
        graph = build_job_graph(pipeline, job_id=JobID(job_id or uuid.uuid4().hex), **build)
        functions = {each.name: each.callable for each in pipeline.definitions}
        topology = Topology(graph)
        tracker = PartitionTracker(topology)
        assigners = SplitAssigners(topology)
        for logical in topology.logical:
            whole = [part for group in tracker.groups_of(logical) for part in results_of(group)]
            for subtask in range(logical.parallelism):
                region = RegionIndex(logical.offset + subtask)
                deployment = TaskDeployment(
                    attempt=RegionAttemptID(graph.job_id, region, 0),
                    allocation_id=AllocationID(""),
                    vertices=tuple(vertex.id for vertex in logical.vertices),
                    subtask=subtask,
                    inputs=(*tracker.inputs_of(logical, subtask), *whole),
                )
                draw = partial(_drawn, (topology, tracker, assigners), region)
                tracker.register(region, self._attempt(graph, deployment, functions, draw))
                assert tracker.key_types.conflict is None, tracker.key_types.conflict
        return gather_commits([tracker.outcomes[region] for region in sorted(tracker.outcomes)])

    def stage_table(self, sql: str, *call: Any, parallelism: int = 1, **options: Any) -> tuple[SinkCommit, ...]:
        """What a job has staged that writes the rows of a query."""
        pipeline = fs.Pipeline("tables")

        @pipeline.source
        def rows(spark: Any) -> Any:
            return spark.sql(sql)

        @pipeline.sink(parallelism=parallelism, inputs={"rows": fs.rebalance()} if parallelism > 1 else {})
        def result(rows: Any) -> None:
            fs.write_table(rows, *call, **options)

        return self.run(pipeline)

    def _attempt(
        self, graph: JobGraph, deployment: TaskDeployment, functions: dict[str, Any], draw: Callable[[int], DrawnSplits]
    ) -> TaskOutcome:
        context = AttemptContext(
            deployment, self.directory, report_staging=lambda location, secrets={}: None, jvm_cores=CORES
        )
        context.draw_splits = draw
        plan = RegionPlan(graph, deployment, self.session, context)
        where = self.directory / deployment.attempt.job_id / str(deployment.attempt.region)
        hooks: list[Any] = self.spark.client._session_hooks
        before = list(hooks)
        try:
            return plan.run(lambda function: functions[function.name], where, str(where))
        finally:
            hooks[:] = before


def _drawn(job: tuple[Topology, PartitionTracker, SplitAssigners], region: RegionIndex, number: int) -> DrawnSplits:
    """A subtask draws at the most twice, the last one all that is left: they run one after another."""
    topology, tracker, assigners = job
    logical = topology.logical_of(region)
    assert logical.splits_from is not None
    finder = RegionIndex(topology.logical[logical.splits_from].offset)
    found = tracker.outcomes[finder].splits
    assert found is not None
    is_last = region == logical.regions()[-1]
    indices = (
        assigners.of(finder, found, JobState(job_id=topology.graph.job_id)).draw("") if is_last or number < 2 else ()
    )
    splits = tuple(found.splits[index] for index in indices) or (found.splits[-1:] if number == 0 else ())
    return DrawnSplits(number=number, splits=splits, schema=found.schema, is_end=not indices)
