"""State names, with Flink's spelling, as its REST clients read them."""

from enum import Enum, IntEnum


class JobStatus(Enum):
    """State of a job. The transition table is in `core.scheduler.jobstates`."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"

    @property
    def is_globally_terminal(self) -> bool:
        """The job has ended for good, in every process and for every leader."""
        return self in _GLOBALLY_TERMINAL

    @property
    def is_terminal(self) -> bool:
        """Ended for good, or suspended in this process only."""
        return self in _GLOBALLY_TERMINAL or self is JobStatus.SUSPENDED


_GLOBALLY_TERMINAL = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)


class ExecutionState(IntEnum):
    """State of an attempt; an integer, since the execution graph keeps it in columns."""

    CREATED = 0
    SCHEDULED = 1
    DEPLOYING = 2
    INITIALIZING = 3
    RUNNING = 4
    FINISHED = 5
    CANCELING = 6
    CANCELED = 7
    FAILED = 8
    RECONCILING = 9

    @property
    def is_terminal(self) -> bool:
        return self in (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)
