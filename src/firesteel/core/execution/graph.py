"""The ExecutionGraph in columns: one row a pipelined region, whose subtasks move together.

A vertex's subtask i is row `offset + i` of its logical region: vertices are views on these columns.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from firesteel.core.execution.figures import Figures
from firesteel.core.execution.states import ALLOWED, DEPLOYED, STATE_COUNT, TERMINAL, TERMINAL_STATES
from firesteel.core.execution.topology import LogicalRegion, Regions, Topology
from firesteel.core.machine import InvalidTransition
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex, ResourceID
from firesteel.model.states import ExecutionState

NO_WORKER = -1


class ExecutionGraph:
    """Attempt states of all regions of a job. Sizes: R regions, S execution states."""

    def __init__(self, topology: Topology) -> None:
        rows = topology.region_count
        self.topology = topology
        self.job_id: JobID = topology.graph.job_id
        self.state: npt.NDArray[np.uint8] = np.zeros(rows, dtype=np.uint8)
        """[R] ExecutionState of the current attempt."""
        self.attempt: npt.NDArray[np.int32] = np.zeros(rows, dtype=np.int32)
        """[R] number of the current attempt, from 0."""
        self.worker: npt.NDArray[np.int32] = np.full(rows, NO_WORKER, dtype=np.int32)
        """[R] index into `workers` of where the current attempt was deployed, or NO_WORKER."""
        self.entered_ms: npt.NDArray[np.int64] = np.zeros((STATE_COUNT, rows), dtype=np.int64)
        """[S, R] when the current attempt entered each state; 0 when it has not."""
        self.figures = Figures(topology)
        self.workers: list[ResourceID] = []
        self._worker_index: dict[ResourceID, int] = {}
        self.counts: npt.NDArray[np.int64] = np.zeros((len(topology.logical), STATE_COUNT), dtype=np.int64)
        """[logical regions, S] how many regions are in each state."""
        for logical in topology.logical:
            self.counts[logical.index, ExecutionState.CREATED] = logical.parallelism
        self._totals = [0] * STATE_COUNT
        """[S] how many regions of the job are in each state."""
        self._totals[ExecutionState.CREATED] = rows

    def move(self, regions: Regions, target: ExecutionState, now_ms: int) -> None:
        """Move rows to a state. Raises InvalidTransition, and moves none, when any may not."""
        sources = self.state[regions]
        if not ALLOWED[sources, target].all():
            bad = int(regions[~ALLOWED[sources, target]][0])
            name = ExecutionState(int(self.state[bad])).name
            raise InvalidTransition(f"region {self.attempt_id(bad)}: invalid transition [{name} -> {target.name}]")
        self._set(regions, target)
        self.entered_ms[target, regions] = now_ms

    def reset(self, regions: Regions) -> None:
        """Begin the next attempt of rows whose current one has ended."""
        assert TERMINAL[self.state[regions]].all(), "only an ended attempt can be followed by another"
        self._set(regions, ExecutionState.CREATED)
        self.attempt[regions] += 1
        self.worker[regions] = NO_WORKER
        self.entered_ms[:, regions] = 0
        self.figures.forget(regions)

    def restore(self, regions: Regions, state: ExecutionState) -> None:
        """Set rows to what the journal says; only before anything has moved."""
        self._set(regions, state)

    def recall(self, region: int, worker: ResourceID, entered_ms: Mapping[ExecutionState, int]) -> None:
        """Note what the journal knows of a row's current attempt; only before anything has moved."""
        self.place(region, worker)
        for state, at_ms in entered_ms.items():
            self.entered_ms[state, region] = max(0, at_ms)

    def place(self, region: int, worker: ResourceID) -> None:
        """Note where a row's current attempt is deployed."""
        if worker not in self._worker_index:
            self._worker_index[worker] = len(self.workers)
            self.workers.append(worker)
        self.worker[region] = self._worker_index[worker]

    def worker_of(self, region: int) -> ResourceID | None:
        """Where the current attempt was deployed, or None."""
        index = int(self.worker[region])
        return None if index == NO_WORKER else self.workers[index]

    def deployed_on(self, worker: ResourceID) -> Regions:
        """Rows whose current attempt that worker may have, ascending."""
        if worker not in self._worker_index:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero((self.worker == self._worker_index[worker]) & DEPLOYED[self.state])

    def in_state(self, *states: ExecutionState) -> Regions:
        """Rows in any of the states, ascending."""
        wanted = np.zeros(STATE_COUNT, dtype=bool)
        wanted[list(states)] = True
        return np.flatnonzero(wanted[self.state])

    def state_of(self, region: int) -> ExecutionState:
        return ExecutionState(int(self.state[region]))

    def attempt_id(self, region: int) -> RegionAttemptID:
        """The current attempt of a row."""
        return RegionAttemptID(self.job_id, RegionIndex(int(region)), int(self.attempt[region]))

    def is_current(self, attempt: RegionAttemptID) -> bool:
        """Whether it is this job's, and the newest of its region."""
        return (
            attempt.job_id == self.job_id
            and 0 <= attempt.region < len(self.state)
            and int(self.attempt[attempt.region]) == attempt.attempt
        )

    def count(self, *states: ExecutionState) -> int:
        """How many rows are in any of the states."""
        return sum(self._totals[state] for state in states)

    @property
    def all_terminal(self) -> bool:
        return self.count(*TERMINAL_STATES) == len(self.state)

    @property
    def all_finished(self) -> bool:
        return self.count(ExecutionState.FINISHED) == len(self.state)

    def nbytes(self) -> int:
        """Bytes of the columns."""
        columns = (self.state, self.attempt, self.worker, self.entered_ms, self.counts)
        return sum(column.nbytes for column in columns) + self.figures.nbytes()

    def _set(self, regions: Regions, target: ExecutionState) -> None:
        for logical, part in self.topology.split(np.sort(regions)):
            self._recount(logical, part, target)
        self.state[regions] = target

    def _recount(self, logical: LogicalRegion, part: Regions, target: ExecutionState) -> None:
        left = np.bincount(self.state[part], minlength=STATE_COUNT)
        self.counts[logical.index] -= left
        self.counts[logical.index, target] += len(part)
        self._totals = [total - gone for total, gone in zip(self._totals, left.tolist(), strict=True)]
        self._totals[target] += len(part)

    def validate(self) -> None:
        """Counts say what the columns say."""
        for logical in self.topology.logical:
            rows = self.state[logical.rows]
            assert (self.counts[logical.index] == np.bincount(rows, minlength=STATE_COUNT)).all(), "counts are off"
        assert self._totals == self.counts.sum(axis=0).tolist(), "totals are off"
        assert (self.worker[self.in_state(ExecutionState.CREATED)] == NO_WORKER).all(), (
            "an undeployed attempt has a worker"
        )
