"""What is written to stores in tests."""

from pathlib import Path

from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.joblog import JobLog
from firesteel.core.journal.records import (
    JobStatusRecord,
    JournalRecord,
    RegionsDeployed,
    RegionsEnded,
)
from firesteel.core.journal.storedjobs import (
    AnyEntry,
    GraphForgotten,
    GraphStored,
    JobRemoved,
    RecordsAppended,
    ResultForgotten,
    ResultStored,
)
from firesteel.model.ids import FencingToken, JobID, RegionIndex, ResourceID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from tests.core.graphs import job

OLD, NEW = FencingToken(1, "first"), FencingToken(2, "second")
RUNNING = JobStatusRecord(at_ms=1, status=JobStatus.RUNNING)
DEPLOYED = RegionsDeployed(at_ms=2, deployed=((RegionIndex(0), 0, ResourceID("w1")),))
ENDED = RegionsEnded(at_ms=3, ended=((RegionIndex(0), 0),))
RECORDS: tuple[JournalRecord, ...] = (RUNNING, DEPLOYED, ENDED)


def result_of(job_id: str) -> JobResult:
    return JobResult(
        job_id=JobID(job_id), name=f"the {job_id}", status=JobStatus.FINISHED, start_time_ms=0, end_time_ms=9
    )


STORY: tuple[AnyEntry, ...] = (
    GraphStored(job("a => b", "first")),
    RecordsAppended(JobID("first"), (RUNNING, DEPLOYED)),
    GraphStored(job("a", "second")),
    RecordsAppended(JobID("second"), (RUNNING,)),
    ResultStored(result_of("second")),
    JobRemoved(JobID("second")),
    GraphStored(job("a", "third")),
    ResultStored(result_of("third")),
    ResultStored(result_of("fourth")),
    ResultForgotten(JobID("fourth")),
    GraphStored(job("a", "fifth")),
    ResultStored(result_of("fifth")),
    JobRemoved(JobID("fifth"), keeps_graph=True),
    GraphStored(job("a", "sixth")),
    ResultStored(result_of("sixth")),
    JobRemoved(JobID("sixth"), keeps_graph=True),
    GraphForgotten(JobID("sixth")),
)
"""One of each kind: a job that runs, one that is gone, one whose cleanup is due, one that is forgotten, one whose graph is
kept, and one whose graph was."""

JOURNAL, SNAPSHOT = "000000000002.journal", "000000000002.snapshot"


def log_in(directory: Path) -> JobLog:
    return JobLog(Disk(directory), history_size=4, snapshot_records=1_000)


def write_story(directory: Path) -> JobLog:
    """Half of it is in a snapshot, half in the journal after it; nothing else is left."""
    log = log_in(directory)
    log.claim(OLD)
    log.append(list(STORY[:5]))
    log.claim(NEW)
    for entry in STORY[5:]:
        log.append([entry])
    return log
