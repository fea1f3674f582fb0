"""What finished attempts have read and written stays known: by vertex what was written, by region what was read."""

import msgspec
import numpy as np

from firesteel.core.execution.figures import Figures
from firesteel.core.execution.topology import Topology
from firesteel.core.journal.endedattempts import ATTEMPTS_KEPT_MAX
from firesteel.core.journal.journal import JobState, fold
from firesteel.core.journal.records import RegionsDeployed, RegionsEnded, RegionsReset
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.jobgraph import FunctionKind, JobGraph
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import IOMetrics, TaskOutcome
from tests.core.graphs import JOB, commit_of, job, outcome

READ = IOMetrics(rows_read=7, bytes_read=70, tasks=3, spark_ms=40, memory_peak_bytes=500)
W1, R0 = ResourceID("w1"), RegionIndex(0)


def with_sources(graph: JobGraph, *names: str) -> JobGraph:
    replace = msgspec.structs.replace
    return replace(
        graph,
        vertices=tuple(
            replace(vertex, functions=(replace(vertex.functions[0], kind=FunctionKind.SOURCE),))
            if vertex.name in names
            else vertex
            for vertex in graph.vertices
        ),
    )


def of(figures: Figures, graph: JobGraph, name: str) -> tuple[IOMetrics, tuple[str, ...]]:
    (vertex,) = (each for each in graph.vertices if each.name == name)
    return figures.of_vertex(vertex)


def test_each_sink_of_a_region_has_written_its_own_rows_and_its_one_source_has_read_all() -> None:
    graph = with_sources(job("a -> x; a -> y"), "a")
    figures = Figures(Topology(graph))
    x, y = (msgspec.structs.replace(commit_of(name), rows=rows, size_bytes=9) for name, rows in (("x", 2), ("y", -1)))
    figures.note(0, TaskOutcome(sinks=(x, y), io=READ))
    assert of(figures, graph, "a") == (
        msgspec.structs.replace(READ, rows_written=0, bytes_written=0),
        (),
    )
    assert of(figures, graph, "x") == (
        msgspec.structs.replace(READ, rows_read=0, bytes_read=0, rows_written=2, bytes_written=9),
        ("rows_read", "bytes_read"),
    )
    assert of(figures, graph, "y")[1] == ("rows_read", "bytes_read", "rows_written")
    assert [each.rows_read for each in figures.of_subtasks(graph.vertices[0], slice(0, 1))] == [7]


def test_of_two_sources_in_a_region_nobody_knows_which_has_read_what() -> None:
    graph = with_sources(job("a -> j; b -> j"), "a", "b")
    figures = Figures(Topology(graph))
    figures.note(0, TaskOutcome(sinks=(commit_of("j"),), io=READ))
    for name in ("a", "b", "j"):
        io, lacking = of(figures, graph, name)
        assert (io.rows_read, io.tasks, lacking[:2]) == (0, 3, ("rows_read", "bytes_read"))


def test_draws_add_up_and_the_next_attempt_begins_with_nothing() -> None:
    graph = job("a*2 => v")
    figures = Figures(Topology(graph))
    of_region = ("rows_read", "bytes_read", "tasks", "spark_ms", "memory_peak_bytes")
    assert of(figures, graph, "a")[1] == (*of_region, "rows_written", "bytes_written")
    (part,) = outcome(graph, ("a",), 0, 0).partitions
    draws = tuple(msgspec.structs.replace(part, rows=rows, size_bytes=1) for rows in (3, 4))
    figures.note(0, TaskOutcome(partitions=draws, io=READ))
    smaller = msgspec.structs.replace(READ, memory_peak_bytes=400)
    figures.note(1, TaskOutcome(partitions=draws, io=smaller))
    together = IOMetrics(
        rows_read=14, bytes_read=140, tasks=6, spark_ms=80, memory_peak_bytes=500, rows_written=14, bytes_written=4
    )
    assert of(figures, graph, "a") == (together, ())
    figures.note(2, TaskOutcome(sinks=(commit_of("v"),)))  # it reads a stored result, and has not said how much
    assert of(figures, graph, "v")[1] == of_region
    figures.forget(np.array([1]))
    assert of(figures, graph, "a")[0].rows_written == 7


def test_what_a_finished_subtask_lacks_is_told_apart_from_what_is_still_to_come() -> None:
    graph = job("v*3")
    figures, (vertex,) = Figures(Topology(graph)), graph.vertices
    uncounted = msgspec.structs.replace(commit_of("v"), rows=2, size_bytes=-1)
    for subtask in (0, 1):
        figures.note(subtask, TaskOutcome(sinks=(uncounted,), io=READ))
    assert "rows_written" in of(figures, graph, "v")[1]
    assert figures.uncounted(vertex, np.array([True, True, False])) == ("bytes_written",)
    assert figures.uncounted(vertex, np.array([False, False, False])) == ()


def test_former_attempts_are_kept_up_to_a_limit() -> None:
    state = JobState(job_id=JOB)
    for attempt in range(ATTEMPTS_KEPT_MAX + 5):
        fold(state, RegionsDeployed(at_ms=10 * attempt, deployed=((R0, attempt, W1),)), 1)
        fold(state, RegionsEnded(at_ms=10 * attempt + 1, ended=((R0, attempt),), state=ExecutionState.CANCELED), 1)
        fold(state, RegionsReset(at_ms=10 * attempt + 2, regions=(R0,)), 1)
    kept = state.history[R0]
    assert [each.attempt for each in kept] == list(range(4, ATTEMPTS_KEPT_MAX + 5))
    assert (kept[0].state, kept[0].task_manager, kept[0].deployed_ms, kept[0].ended_ms) == (
        ExecutionState.CANCELED,
        W1,
        40,
        41,
    )


def test_what_was_never_deployed_has_no_history() -> None:
    state = JobState(job_id=JOB)
    fold(state, RegionsEnded(at_ms=1, ended=((R0, 0),)), 1)
    assert state.history == {}
