"""The attempts of one job on one worker: what runs, what has ended and is not acknowledged yet."""

from dataclasses import dataclass, field

from firesteel.model.ids import AllocationID, RegionAttemptID, RegionIndex
from firesteel.model.reports import ExecutionReport, SplitRequest, TaskStateUpdate
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskDeployment, TaskProgress


@dataclass(slots=True)
class Task:
    """An attempt that is on this worker."""

    state: ExecutionState
    allocation_id: AllocationID


@dataclass(slots=True)
class TaskTable:
    """An attempt is started once, also when its deployment comes twice, late, or after its cancellation."""

    running: dict[RegionAttemptID, Task] = field(default_factory=dict)
    unacknowledged: dict[RegionAttemptID, TaskStateUpdate] = field(default_factory=dict)
    """How attempts ended that the job's master may not know of; repeated until acknowledged."""
    progress: dict[RegionAttemptID, TaskProgress] = field(default_factory=dict)
    wants: dict[RegionAttemptID, SplitRequest] = field(default_factory=dict)
    """Running attempts that wait for input splits; repeated until they have them."""
    _newest: dict[RegionIndex, int] = field(default_factory=dict)
    """Newest attempt of each region that was started or cancelled here."""

    def admit(self, deployment: TaskDeployment) -> bool:
        """Note an attempt as started; False when it, or a newer one, was here already."""
        attempt = deployment.attempt
        if self._newest.get(attempt.region, -1) >= attempt.attempt:
            return False
        self._newest[attempt.region] = attempt.attempt
        self.running[attempt] = Task(ExecutionState.INITIALIZING, deployment.allocation_id)
        return True

    def refuse(self, update: TaskStateUpdate) -> None:
        """Note an attempt that never started here as ended."""
        self._newest[update.attempt.region] = max(update.attempt.attempt, self._newest.get(update.attempt.region, -1))
        self.unacknowledged[update.attempt] = update

    def cancel(self, attempt: RegionAttemptID) -> bool:
        """Begin to cancel; False when nothing is to be done for it any more, or is being done."""
        task = self.running.get(attempt)
        if task is None:
            self.refuse(
                self.unacknowledged.get(attempt) or TaskStateUpdate(attempt=attempt, state=ExecutionState.CANCELED)
            )
            return False
        if task.state is ExecutionState.CANCELING:
            return False
        task.state = ExecutionState.CANCELING
        return True

    def change(self, update: TaskStateUpdate) -> bool:
        """Take a state that the worker reports of an attempt; False when that is no news."""
        task = self.running.get(update.attempt)
        if task is None:
            return False
        if update.state.is_terminal:
            del self.running[update.attempt]
            self.progress.pop(update.attempt, None)
            self.wants.pop(update.attempt, None)
            self.unacknowledged[update.attempt] = update
        elif task.state is not ExecutionState.CANCELING:
            task.state = update.state
        return True

    def want(self, request: SplitRequest) -> bool:
        """Note that an attempt waits for input splits; False when it does not run any more."""
        runs = request.attempt in self.running
        if runs:
            self.wants[request.attempt] = request
        return runs

    def take(self, attempt: RegionAttemptID, number: int) -> bool:
        """Whether an attempt waits for this draw; it does so no longer."""
        waits = attempt in self.wants and self.wants[attempt].number == number
        if waits:
            del self.wants[attempt]
        return waits

    def acknowledge(self, attempt: RegionAttemptID) -> None:
        """The job's master has it safe."""
        self.unacknowledged.pop(attempt, None)

    def sits_in(self, allocation_id: AllocationID | None) -> bool:
        """Whether any attempt is in that slot."""
        return any(task.allocation_id == allocation_id for task in self.running.values())

    def seats(self) -> dict[AllocationID, None]:
        """The slots that have an attempt in them."""
        return dict.fromkeys(task.allocation_id for task in self.running.values())

    def executions(self) -> tuple[ExecutionReport, ...]:
        return tuple(ExecutionReport(attempt, task.state, task.allocation_id) for attempt, task in self.running.items())

    def knows(self, attempt: RegionAttemptID) -> bool:
        """Whether the attempt, or a newer one of its region, was started or cancelled here."""
        return self._newest.get(attempt.region, -1) >= attempt.attempt
