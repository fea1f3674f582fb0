"""What a job's journal says, as small data for who watches the cluster; `narration` has the same as lines of a log."""

from collections.abc import Sequence
from dataclasses import dataclass

from firesteel.core.execution.topology import Topology
from firesteel.core.journal.records import (
    CommitsIntended,
    FailureRecorded,
    JournalRecord,
    RegionsDeployed,
    RegionsEnded,
    RegionsFinished,
    RestartPlanned,
    SinkCommitted,
)
from firesteel.model.ids import JobID
from firesteel.model.tasks import SinkCommit
from firesteel.runtime.narration import NO_COMMITS, lines_of

ATTEMPTS_MAX = 16
"""Attempts that one fact names; more of them are counted."""


@dataclass(frozen=True, slots=True)
class JobFact:
    """Something that has become durable of a job."""

    job_id: JobID
    at_ms: int
    kind: str
    """`deployed`, `finished`, `failed`, `canceled`, `restart`, `failure`, `commit`."""
    text: str
    """One line for people, where it is not what happens to every attempt."""
    attempts: tuple[tuple[int, int, str], ...]
    """(region, attempt, worker) of the first of those that it is about; the worker only where it is deployed."""
    count: int
    """Number of them all."""


def facts_of(
    job_id: JobID, records: Sequence[JournalRecord], topology: Topology, intended: tuple[SinkCommit, ...] = NO_COMMITS
) -> list[JobFact]:
    """Facts in the order of the records; states of the job are none: its line has them."""
    found = []
    for record in records:
        if (seen := _seen(record)) is not None:
            kind, attempts, count = seen
            text = next(lines_of(record, topology, intended), "")
            found.append(JobFact(job_id, record.at_ms, kind, text, attempts, count))
    return found


def _seen(record: JournalRecord) -> tuple[str, tuple[tuple[int, int, str], ...], int] | None:
    match record:
        case RegionsDeployed(deployed=deployed):
            return "deployed", tuple(deployed[:ATTEMPTS_MAX]), len(deployed)
        case RegionsFinished(finished=finished):
            return "finished", tuple((each[0], each[1], "") for each in finished[:ATTEMPTS_MAX]), len(finished)
        case RegionsEnded(ended=ended, state=state):
            return state.name.lower(), tuple((*each, "") for each in ended[:ATTEMPTS_MAX]), len(ended)
        case RestartPlanned(entry=entry, regions=regions):
            return "restart", ((entry.region, entry.attempt, entry.task_manager or ""),), len(regions)
        case FailureRecorded(entry=entry):
            return "failure", ((entry.region, entry.attempt, entry.task_manager or ""),), 1
        case CommitsIntended(commits=commits):
            return "commit", (), len(commits)
        case SinkCommitted():
            return "commit", (), 1
        case _:
            return None
