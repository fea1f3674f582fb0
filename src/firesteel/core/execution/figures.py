"""What ended attempts have read and written, in columns: what is shown of a finished task stays what it was."""

import numpy as np
import numpy.typing as npt

from firesteel.core.execution.topology import LogicalRegion, Topology
from firesteel.model.ids import JobVertexID
from firesteel.model.jobgraph import FunctionKind, JobVertex
from firesteel.model.tasks import PEAKS, IOMetrics, TaskOutcome

READ = ("rows_read", "bytes_read", "tasks", "spark_ms", "memory_peak_bytes")
"""Figures of a region. Which of its vertices has read the rows is not always known; the others are shown with each."""
WRITTEN = ("rows_written", "bytes_written")
UNKNOWN = -1

_NOTHING = IOMetrics()


class Figures:
    """Figures of the current attempts that have finished. A region runs as one query, so what it reads is known for all of it;
    what is written is known by vertex, since each writes for itself."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.read: npt.NDArray[np.int64] = np.full((len(READ), topology.region_count), UNKNOWN, dtype=np.int64)
        """[READ, regions]"""
        self._maker = {dataset.id: dataset.producer for dataset in topology.graph.datasets}
        self.written: dict[JobVertexID, npt.NDArray[np.int64]] = {
            vertex.id: np.full((len(WRITTEN), vertex.parallelism), UNKNOWN, dtype=np.int64)
            for vertex in topology.graph.vertices
        }
        """[WRITTEN, subtasks]"""

    def note(self, region: int, outcome: TaskOutcome) -> None:
        """The region's current attempt has left this."""
        io = outcome.io or _NOTHING
        self.read[:, region] = [getattr(io, name) for name in READ]
        logical = self._topology.logical_of(region)
        for vertex in logical.vertices:
            self.written[vertex.id][:, region - logical.offset] = 0
        parts = ((self._maker[part.dataset_id], part.rows, part.size_bytes) for part in outcome.partitions)
        sinks = ((sink.vertex_id, sink.rows, sink.size_bytes) for sink in outcome.sinks)
        for vertex_id, rows, size_bytes in (*parts, *sinks):
            self._add(self.written[vertex_id][:, region - logical.offset], (rows, size_bytes))

    def forget(self, regions: npt.NDArray[np.int64]) -> None:
        """Their next attempts begin."""
        self.read[:, regions] = UNKNOWN
        for logical, part in self._topology.split(np.sort(regions)):
            for vertex in logical.vertices:
                self.written[vertex.id][:, part - logical.offset] = UNKNOWN

    def of_subtasks(self, vertex: JobVertex, chosen: slice) -> list[IOMetrics]:
        """Figures of some of its subtasks. Costs nothing for the others."""
        logical = self._topology.by_vertex[vertex.id]
        columns = np.concatenate((self._read_of(vertex, logical, chosen), self.written[vertex.id][:, chosen]))
        names = (*READ, *WRITTEN)
        return [IOMetrics(**dict(zip(names, values, strict=True))) for values in columns.T.tolist()]

    def of_vertex(self, vertex: JobVertex) -> tuple[IOMetrics, tuple[str, ...]]:
        """What is known of its subtasks together, and the names of figures that some lack."""
        columns, names = self._columns(vertex), (*READ, *WRITTEN)
        known = np.where(columns >= 0, columns, 0)
        sums, largest = known.sum(axis=1).tolist(), known.max(axis=1).tolist()
        together = {name: largest[place] if name in PEAKS else sums[place] for place, name in enumerate(names)}
        return IOMetrics(**together), _lacking(columns)

    def uncounted(self, vertex: JobVertex, finished: npt.NDArray[np.bool_]) -> tuple[str, ...]:
        """Names of figures that some of the `finished` [subtasks] lack: they will not be known any more."""
        return _lacking(self._columns(vertex)[:, finished])

    def nbytes(self) -> int:
        return self.read.nbytes + sum(columns.nbytes for columns in self.written.values())

    def _columns(self, vertex: JobVertex) -> npt.NDArray[np.int64]:
        """[READ and WRITTEN, subtasks]"""
        logical = self._topology.by_vertex[vertex.id]
        return np.concatenate((self._read_of(vertex, logical), self.written[vertex.id]))

    def _read_of(self, vertex: JobVertex, logical: LogicalRegion, chosen: slice = slice(None)) -> npt.NDArray[np.int64]:
        """[READ, chosen subtasks]. Of several vertices of a region nobody knows which has read what, unless it is only one that
        reads what was there before."""
        columns = self.read[:, logical.rows][:, chosen]
        readers = [each.id for each in logical.vertices if _reads(each, logical)]
        if len(logical.vertices) == 1 or readers == [vertex.id]:
            return columns
        shown = columns.copy()
        shown[: READ.index("tasks")] = UNKNOWN
        return shown

    @staticmethod
    def _add(column: npt.NDArray[np.int64], values: tuple[int, int]) -> None:
        for place, value in enumerate(values):
            known = value >= 0 and column[place] >= 0
            column[place] = column[place] + value if known else UNKNOWN


def _lacking(columns: npt.NDArray[np.int64]) -> tuple[str, ...]:
    complete: list[bool] = np.all(columns >= 0, axis=1).tolist()
    return tuple(name for name, is_known in zip((*READ, *WRITTEN), complete, strict=True) if not is_known)


def _reads(vertex: JobVertex, logical: LogicalRegion) -> bool:
    """Whether it reads what was there before its region: a source, or a stored result."""
    kinds = (FunctionKind.SOURCE, FunctionKind.SPLITS, FunctionKind.SCRIPT)
    is_source = any(function.kind in kinds for function in vertex.functions)
    return is_source or any(given.edge.target == vertex.id for given in logical.inputs)
