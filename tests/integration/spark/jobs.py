"""Job graphs made by hand, for tests of the Spark backend alone."""

import asyncio
import zipfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.ids import AllocationID, DataSetID, JobID, JobVertexID, RegionAttemptID, RegionIndex, derived_id
from firesteel.model.jobgraph import (
    Artifact,
    ExchangeMode,
    Function,
    FunctionKind,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    RuntimeEnvironment,
)
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import JobInformation, ResultPartition, TaskDeployment, TaskOutcome, TaskProgress


def function(name: str, kind: str = "source", inputs: Sequence[str] = (), **more: Any) -> Function:
    """A function of the module `job`."""
    return Function(
        name=name, uid=name, kind=FunctionKind(kind), entry_point=f"job:{name}", inputs=tuple(inputs), **more
    )


class JobMaker:
    """Packs sources into blobs and makes one-region jobs of them."""

    def __init__(self, blobs: LocalBlobStore, scratch: Path) -> None:
        self._blobs, self._scratch, self._count = blobs, scratch, 0

    def job(
        self,
        source: str,
        functions: Sequence[Function],
        *,
        parameters: Mapping[str, Any] | None = None,
        configuration: Mapping[str, str] | None = None,
        parameter_types: Mapping[str, str] | None = None,
        more_files: Mapping[str, str] | None = None,
        environment: RuntimeEnvironment | None = None,
        archives: Mapping[str, Path] | None = None,
        blocking: Sequence[str] = (),
    ) -> JobInformation:
        """One vertex per function; edges named in `blocking` (by producer) are blocking, others pipelined."""
        self._count += 1
        job_id = JobID(derived_id("job", self._scratch, self._count))
        ids = {f.name: JobVertexID(derived_id("vertex", f.uid)) for f in functions}
        datasets = {f.name: DataSetID(derived_id("dataset", f.uid)) for f in functions}
        edges = [
            JobEdge(
                source=datasets[name],
                target=ids[f.name],
                exchange=ExchangeMode.BLOCKING if name in blocking else ExchangeMode.PIPELINED,
            )
            for f in functions
            for name in f.inputs
        ]
        graph = JobGraph(
            job_id=job_id,
            name=f"job-{self._count}",
            vertices=tuple(JobVertex(id=ids[f.name], name=f.name, functions=(f,)) for f in functions),
            datasets=tuple(
                IntermediateDataSet(id=datasets[f.name], name=f.name, producer=ids[f.name])
                for f in functions
                if f.kind is not FunctionKind.SINK
            ),
            edges=tuple(edges),
            parameters=dict(parameters or {}),
            parameter_types=dict(parameter_types or {}),
            configuration=dict(configuration or {}),
            artifacts=(
                self._pack({"job.py": source, **(more_files or {})}),
                *(self._archive(name, path) for name, path in (archives or {}).items()),
            ),
            environment=environment or RuntimeEnvironment(python="", pyspark=""),
        )
        return JobInformation(graph=graph, user="tester")

    def _archive(self, name: str, path: Path) -> Artifact:
        sha256 = self._blobs.put(path)
        return Artifact(name=f"{path.name}#{name}", kind="archive", sha256=sha256, size_bytes=path.stat().st_size)

    def _pack(self, files: Mapping[str, str]) -> Artifact:
        path = self._scratch / f"code-{self._count}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        sha256 = self._blobs.put(path)
        return Artifact(name="code", kind="code", sha256=sha256, size_bytes=path.stat().st_size)


def deployment(
    job: JobInformation,
    names: Sequence[str] | None = None,
    *,
    region: int = 0,
    attempt: int = 0,
    inputs: Sequence[ResultPartition] = (),
) -> TaskDeployment:
    """One attempt of the region of the vertices `names` (all of them by default)."""
    vertices = [vertex for vertex in job.graph.vertices if names is None or vertex.name in names]
    return TaskDeployment(
        attempt=RegionAttemptID(job.graph.job_id, RegionIndex(region), attempt),
        allocation_id=AllocationID(derived_id("allocation", job.graph.job_id)),
        vertices=tuple(vertex.id for vertex in vertices),
        subtask=0,
        inputs=tuple(inputs),
    )


class Observed:
    """What an attempt told its worker."""

    def __init__(self) -> None:
        self.running = 0
        self.progress: list[TaskProgress] = []

    async def draw_splits(self, number: int) -> DrawnSplits:
        raise AssertionError("no source of these jobs has splits")

    def on_running(self) -> None:
        self.running += 1


def run(
    backend: SparkTaskBackend, job: JobInformation, at: TaskDeployment | None = None, observed: Observed | None = None
) -> Coroutine[Any, Any, TaskOutcome]:
    """The attempt as a coroutine; all of the job's functions by default."""
    seen = observed or Observed()
    return backend.run(
        job,
        at or deployment(job),
        on_running=seen.on_running,
        on_progress=seen.progress.append,
        draw_splits=seen.draw_splits,
    )


Runner = Callable[[Coroutine[Any, Any, Any]], Any]


async def settled(backend: SparkTaskBackend) -> None:
    """Until what follows an attempt is over."""
    await asyncio.gather(*(each.join() for each in backend._cleanups.values()))
