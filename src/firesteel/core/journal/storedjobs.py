"""What a store of jobs holds: a fold over its entries, as a job's state is one over its records."""

from collections.abc import Iterator
from typing import Union, assert_never

import msgspec

from firesteel.core.journal.journal import JobState, copy_of, fold
from firesteel.core.journal.records import JournalRecord
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.views import JobResult


class Entry(msgspec.Struct, frozen=True, tag=True):
    """One write to the store."""


class GraphStored(Entry, frozen=True):
    """A job was submitted; of a job that is there already it changes nothing but the graph.

    What is left of a former job of that id, which is over and cleaned up, goes: a successor would take it for this one's.
    """

    graph: JobGraph


class RecordsAppended(Entry, frozen=True):
    """To the journal of a job."""

    job_id: JobID
    records: tuple[JournalRecord, ...]


class StateStored(Entry, frozen=True):
    """All that the journal of a job has come to, in a snapshot."""

    state: JobState


class ResultStored(Entry, frozen=True):
    """A job has ended; `dirty` until its cleanup is done."""

    result: JobResult
    dirty: bool = True


class JobRemoved(Entry, frozen=True):
    """Graph and journal of a job are gone, its result is clean."""

    job_id: JobID
    keeps_graph: bool = False
    """The graph stays beside the result, so that the job can be submitted once more."""


class GraphKept(Entry, frozen=True):
    """That of a job whose journal is gone, in a snapshot."""

    graph: JobGraph


class GraphForgotten(Entry, frozen=True):
    """The graph that was kept of an ended job is gone; its result may stay."""

    job_id: JobID


class ResultForgotten(Entry, frozen=True):
    """The result has had its retention."""

    job_id: JobID


AnyEntry = Union[
    GraphStored,
    RecordsAppended,
    StateStored,
    ResultStored,
    JobRemoved,
    GraphKept,
    GraphForgotten,
    ResultForgotten,
]


class StoredJobs:
    """The fold of a store's entries; `history_size` failures are kept of each job."""

    def __init__(self, history_size: int) -> None:
        self._history_size = history_size
        self._graphs: dict[JobID, JobGraph] = {}
        self._states: dict[JobID, JobState] = {}
        self._results: dict[JobID, tuple[JobResult, bool]] = {}
        self._kept: dict[JobID, JobGraph] = {}
        """Graphs of jobs that are cleaned up."""

    def apply(self, entry: AnyEntry) -> None:
        match entry:
            case GraphStored():
                job_id = entry.graph.job_id
                if job_id in self._results and not self._results[job_id][1]:
                    del self._results[job_id]
                self._kept.pop(job_id, None)
                self._graphs[job_id] = entry.graph
                self._states.setdefault(job_id, JobState(job_id=job_id))
            case RecordsAppended():
                for record in entry.records:
                    fold(self._states[entry.job_id], record, self._history_size)
            case StateStored():
                self._states[entry.state.job_id] = entry.state
            case ResultStored():
                self._results[entry.result.job_id] = (entry.result, entry.dirty)
            case JobRemoved():
                graph = self._graphs.pop(entry.job_id, None)
                if graph is not None and entry.keeps_graph:
                    self._kept[entry.job_id] = graph
                self._states.pop(entry.job_id, None)
                if entry.job_id in self._results:
                    self._results[entry.job_id] = (self._results[entry.job_id][0], False)
            case GraphKept():
                self._kept[entry.graph.job_id] = entry.graph
            case GraphForgotten():
                self._kept.pop(entry.job_id, None)
            case ResultForgotten():
                self._results.pop(entry.job_id, None)
                self._kept.pop(entry.job_id, None)
            case _:
                assert_never(entry)

    def snapshot(self) -> Iterator[AnyEntry]:
        """Entries whose fold is this one. To be used up before the next `apply`."""
        for graph in self._graphs.values():
            yield GraphStored(graph)
            yield StateStored(self._states[graph.job_id])
        for result, dirty in self._results.values():
            yield ResultStored(result, dirty)
        for graph in self._kept.values():
            yield GraphKept(graph)

    def graphs(self) -> tuple[JobGraph, ...]:
        """Those of jobs that have a journal."""
        return tuple(self._graphs.values())

    def kept_graphs(self) -> tuple[JobGraph, ...]:
        """Those that are kept of jobs which are cleaned up."""
        return tuple(self._kept.values())

    def results(self) -> tuple[tuple[JobResult, bool], ...]:
        """All results, with whether their cleanup is due."""
        return tuple(self._results.values())

    def state(self, job_id: JobID) -> JobState | None:
        """A copy of a job's state, the caller's to change; None when the job is not stored any more."""
        return copy_of(self._states[job_id]) if job_id in self._states else None
