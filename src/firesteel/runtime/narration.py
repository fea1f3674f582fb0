"""What a job's journal says, in lines of a log for people: states, placement, failures with their cause, commits."""

from collections import Counter
from collections.abc import Iterator

from firesteel.core.execution.topology import Topology
from firesteel.core.journal.records import (
    CheckpointGivenUp,
    CommitsIntended,
    FailureRecorded,
    JobStatusRecord,
    JournalRecord,
    RegionsDeployed,
    RegionsSpared,
    RestartPlanned,
    SavepointCompleted,
    SinkCommitted,
    StopGivenUp,
    StopIntended,
)
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.states import JobStatus
from firesteel.model.tasks import SinkCommit
from firesteel.model.views import ExceptionEntry

NAMED_MAX = 4
"""Attempts, workers and sinks that one line names; more of them are counted."""
CAUSE_CHARS_MAX = 500
NO_COMMITS: tuple[SinkCommit, ...] = ()


def lines_of(record: JournalRecord, topology: Topology, intended: tuple[SinkCommit, ...] = NO_COMMITS) -> Iterator[str]:
    """At most one line; none of what happens to every task. `intended` are the commits that the job has announced."""
    match record:
        case JobStatusRecord(status=status, failure=failure) if status is not JobStatus.CREATED:
            yield f"{status.value}: {_cause(failure)}" if failure is not None else status.value
        case RegionsDeployed(deployed=deployed):
            yield f"deployed {_placed(deployed, topology)}"
        case RegionsSpared(first=first, subtasks=subtasks):
            logical = topology.logical_of(first)
            names = ", ".join(vertex.name for vertex in logical.vertices[:NAMED_MAX])
            yield f"{names}: {subtasks} of {logical.parallelism} subtasks, for there is little to read"
        case RestartPlanned(entry=entry, regions=regions, due_ms=due_ms, at_ms=at_ms, restarts=restarts):
            again = f"{len(regions)} region{'s run' if len(regions) != 1 else ' runs'} again in {due_ms - at_ms} ms"
            yield f"{_failed(entry, topology)}; {again} (restart {restarts})"
        case FailureRecorded(entry=entry):
            yield f"{_failed(entry, topology)}; nothing runs again"
        case CommitsIntended(commits=commits):
            yield f"commits {_listed([_sink(commit) for commit in commits])}"
        case SinkCommitted(commit_id=commit_id):
            sink = next((_sink(commit) for commit in intended if commit.commit_id == commit_id), commit_id)
            yield f"committed {sink}"
        case StopIntended(location=location, drain=drain):
            yield f"{'drains' if drain else 'stops'} with the savepoint {location}"
        case StopGivenUp(failure=failure):
            yield f"goes on, for its savepoint could not be taken: {_cause(failure)}"
        case CheckpointGivenUp(checkpoint_id=checkpoint_id, failure=failure):
            yield f"checkpoint {checkpoint_id} failed: {failure}"
        case SavepointCompleted(location=location):
            yield f"savepoint {location}"
        case _:
            return


def subject_of(record: JournalRecord, topology: Topology) -> tuple[str, int | None]:
    """The vertices, by name, and the attempt that its line is about; nothing where it is about several, or the job."""
    match record:
        case RegionsDeployed(deployed=((region, attempt, _),)):
            pass
        case RestartPlanned(entry=entry) | FailureRecorded(entry=entry) if entry.region >= 0:
            region, attempt = RegionIndex(entry.region), entry.attempt
        case _:
            return "", None
    return ", ".join(vertex.name for vertex in topology.logical_of(region).vertices[:NAMED_MAX]), attempt


def attempt_name(topology: Topology, region: int, attempt: int) -> str:
    """A region's attempt as Flink names those of tasks."""
    logical = topology.logical_of(region)
    names = ", ".join(vertex.name for vertex in logical.vertices[:NAMED_MAX])
    return f"{names} ({region - logical.offset + 1}/{logical.parallelism}) #{attempt}"


def _placed(deployed: tuple[tuple[RegionIndex, int, ResourceID], ...], topology: Topology) -> str:
    if len(deployed) <= NAMED_MAX:
        return "; ".join(
            f"{attempt_name(topology, region, attempt)} on {worker}" for region, attempt, worker in deployed
        )
    counts = Counter(worker for _, _, worker in deployed)
    return f"{len(deployed)} regions: {_listed([f'{count} on {worker}' for worker, count in counts.items()])}"


def _failed(entry: ExceptionEntry, topology: Topology) -> str:
    if entry.region < 0:
        return f"failed: {_cause(entry.failure)}"
    where = f" on {entry.task_manager}" if entry.task_manager is not None else ""
    return f"{attempt_name(topology, entry.region, entry.attempt)} failed{where}: {_cause(entry.failure)}"


def _cause(failure: FailureInfo) -> str:
    """In one line: what user code raises may have several."""
    return " ".join(failure.headline().split())[:CAUSE_CHARS_MAX]


def _sink(commit: SinkCommit) -> str:
    return f"{commit.function} -> {commit.target} ({commit.mode})"


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
