"""What a JobMaster is asked for, about its job's savepoints."""

from dataclasses import dataclass

from firesteel.core.requests import Request
from firesteel.model.streams import AfterSavepoint


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint(Request[int]):
    """Answered with the checkpoint's number, when it is complete and durable, or CheckpointFailed."""


@dataclass(frozen=True, slots=True)
class TriggerSavepoint(Request[str]):
    """Answered with the savepoint's location, or SavepointFailed, when that is durable. The same id is the same savepoint."""

    savepoint_id: str
    """Chosen by who asks; 32 hex digits."""
    directory: str = ""
    """Where it is to be made; empty: where the configuration says."""
    after: AfterSavepoint = AfterSavepoint.GO_ON
