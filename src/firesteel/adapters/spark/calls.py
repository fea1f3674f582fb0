"""What functions are called with in a child of the worker, and what they answer: payloads of `wire.CallFunction`, encoded by
who sends them."""

import msgspec

from firesteel.adapters.spark.wire import SessionName, SparkAddress
from firesteel.model.streams import StateQuestion


class WarmUp(msgspec.Struct, frozen=True):
    """Run small queries in a session of that backend; files for them go below the directory."""

    endpoint: SparkAddress
    session: SessionName
    directory: str


class ProbeCluster(msgspec.Struct, frozen=True):
    """Have executors write some rows at that place, which is theirs to make."""

    endpoint: SparkAddress
    session: SessionName
    place: str
    settings: dict[str, str]
    """Of the session."""


class ClusterProbed(msgspec.Struct, frozen=True):
    """What came of ProbeCluster."""

    error: str = ""
    """Why they are of no use: a sentence."""
    hosts: tuple[str, ...] = ()
    """Where the executors run that were given work."""
    application: str = ""
    """Spark's own id of it."""
    files: int = 0
    """Files with rows that they have written."""


class StateReading(msgspec.Struct, frozen=True, kw_only=True):
    """Read state of a checkpoint directory that nobody writes to."""

    endpoint: SparkAddress
    session: SessionName
    """The worker closes it should this process not."""
    settings: dict[str, str]
    """The worker's own, of that session."""
    checkpoint: str
    uid: str
    question: StateQuestion
