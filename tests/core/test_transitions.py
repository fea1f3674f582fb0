"""Every transition table, for all pairs of states."""

import itertools
from enum import Enum
from typing import Any

import numpy as np
import pytest

from firesteel.core.dispatcher.jobentry import JOB_STAGE_TRANSITIONS, JobStage
from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.states import ALLOWED, DEPLOYED, DEPLOYED_STATES, EXECUTION_TRANSITIONS, TERMINAL
from firesteel.core.execution.topology import Topology
from firesteel.core.leadership.contender import CONTENDER_TRANSITIONS, ContenderState
from firesteel.core.machine import InvalidTransition, TransitionTable
from firesteel.core.scheduler.jobstates import job_transitions
from firesteel.core.slots.table import TASK_SLOT_TRANSITIONS, TaskSlotState
from firesteel.model.states import ExecutionState, JobStatus
from tests.core.graphs import job

TABLES: dict[str, tuple[TransitionTable[Any], type[Enum], Enum, tuple[Enum, ...]]] = {
    "execution": (
        EXECUTION_TRANSITIONS,
        ExecutionState,
        ExecutionState.CREATED,
        (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED),
    ),
    "job": (
        TransitionTable(job_transitions()),
        JobStatus,
        JobStatus.CREATED,
        (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED),
    ),
    "task slot": (TASK_SLOT_TRANSITIONS, TaskSlotState, TaskSlotState.FREE, ()),
    "contender": (CONTENDER_TRANSITIONS, ContenderState, ContenderState.WAITING, ()),
    "job stage": (JOB_STAGE_TRANSITIONS, JobStage, JobStage.STORING, (JobStage.DONE,)),
}
"""Table, its states, where it begins, where it ends."""

NOT_STATES_OF_A_JOBMASTER = (JobStatus.INITIALIZING,)
"""Of a job whose JobMaster has not spoken yet."""


def reachable(table: TransitionTable[Any], start: Enum) -> set[Enum]:
    """Every state that moves lead to from `start`, itself included."""
    found = {start}
    while more := {target for source, target in table.edges if source in found} - found:
        found |= more
    return found


@pytest.mark.parametrize("name", TABLES)
def test_a_move_is_refused_exactly_when_the_table_does_not_have_it(name: str) -> None:
    table, states, _, _ = TABLES[name]
    for source, target in itertools.product(states, repeat=2):
        if (source, target) in table.edges:
            table.check(source, target, "it")
        else:
            with pytest.raises(InvalidTransition, match=rf"it: invalid transition \[{source.name} -> {target.name}\]"):
                table.check(source, target, "it")


@pytest.mark.parametrize("name", TABLES)
def test_every_state_is_reached_and_only_ends_have_no_way_out(name: str) -> None:
    table, states, start, ends = TABLES[name]
    used = [state for state in states if state not in NOT_STATES_OF_A_JOBMASTER]
    assert reachable(table, start) == set(used)
    assert {state for state in used if not any(source is state for source, _ in table.edges)} == set(ends)
    assert all(reachable(table, state) & set(ends or (start,)) for state in used), "a state leads nowhere"


@pytest.mark.parametrize("name", TABLES)
def test_every_move_says_when(name: str) -> None:
    assert all(when and not when.endswith(".") for when in TABLES[name][0].edges.values())


def test_the_matrix_says_what_the_table_says() -> None:
    for source, target in itertools.product(ExecutionState, repeat=2):
        assert ALLOWED[source, target] == ((source, target) in EXECUTION_TRANSITIONS.edges)
    assert [state for state in ExecutionState if TERMINAL[state]] == [s for s in ExecutionState if s.is_terminal]
    assert [state for state in ExecutionState if DEPLOYED[state]] == sorted(DEPLOYED_STATES)


@pytest.mark.parametrize("source", ExecutionState)
def test_rows_move_as_the_table_says_or_not_at_all(source: ExecutionState) -> None:
    """Two rows in `source`, one that may go anywhere the table lets CREATED go."""
    for target in ExecutionState:
        graph = ExecutionGraph(Topology(job("v*3")))
        graph.restore(np.array([0]), source)
        graph.attempt[0] = 1
        graph.restore(np.array([2]), source)
        graph.attempt[2] = 1
        rows = np.array([0, 2])
        if (source, target) in EXECUTION_TRANSITIONS.edges:
            graph.move(rows, target, 5)
            assert graph.state.tolist() == [target, ExecutionState.CREATED, target]
            assert graph.entered_ms[target].tolist() == [5, 0, 5]
        else:
            with pytest.raises(InvalidTransition, match=rf"region job/0#1: .*{source.name} -> {target.name}"):
                graph.move(rows, target, 5)
            assert graph.state.tolist() == [source, ExecutionState.CREATED, source]
        graph.validate()


def test_a_refused_move_moves_no_row() -> None:
    graph = ExecutionGraph(Topology(job("v*2")))
    graph.restore(np.array([1]), ExecutionState.RUNNING)
    with pytest.raises(InvalidTransition, match="region job/1#0"):
        graph.move(np.array([0, 1]), ExecutionState.SCHEDULED, 5)
    assert graph.state.tolist() == [ExecutionState.CREATED, ExecutionState.RUNNING]


def test_the_error_carries_the_story() -> None:
    with pytest.raises(InvalidTransition) as caught:
        TASK_SLOT_TRANSITIONS.check(TaskSlotState.FREE, TaskSlotState.ACTIVE, "slot 3", ("1 was freed", "2 was asked"))
    assert caught.value.story == ("1 was freed", "2 was asked")
    assert str(caught.value).splitlines()[1:] == ["  1 was freed", "  2 was asked"]
