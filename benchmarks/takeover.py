"""A new leader reads what a journal of a million records has come to."""

import itertools
import tempfile
import time
from pathlib import Path

from benchmarks.report import Report, Series, Verdict
from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.joblog import JobLog
from firesteel.assembly.highavailability import SNAPSHOT_RECORDS
from firesteel.core.journal.records import (
    JournalRecord,
    RegionsDeployed,
    RegionsEnded,
    RegionsReset,
)
from firesteel.core.journal.storedjobs import AnyEntry, GraphStored, RecordsAppended, ResultStored
from firesteel.model.ids import FencingToken, JobID, RegionIndex, ResourceID, derived_id
from firesteel.model.jobgraph import JobGraph, RuntimeEnvironment
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult

RECORDS, JOBS, REGIONS, ENDED_JOBS = 1_000_000, 100, 100, 1_000
RECORDS_PER_WRITE = 300
TAKEOVER_MS_MAX = 5_000


def measure(rounds: int) -> Report:
    """Milliseconds from the claim to all jobs being known; the writing of it all is shown beside it."""
    takeovers: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        begin = time.perf_counter()
        _write(_log(directory, 0))
        written_s = time.perf_counter() - begin
        size_mib = sum(file.stat().st_size for file in Path(directory).iterdir()) / 1024 / 1024
        for number in range(1, rounds + 1):
            begin = time.perf_counter()
            log = _log(directory, number)
            takeovers.append((time.perf_counter() - begin) * 1000)
            assert len(log.jobs.graphs()) == JOBS, "jobs are missing"
            assert len(log.jobs.results()) == ENDED_JOBS, "results are missing"
    taken = Series("take over", "ms", tuple(takeovers))
    written = Series("write the records", "records/s", (RECORDS / written_s,))
    return Report(
        "takeover",
        (taken, written, Series("size on the disk", "MiB", (size_mib,))),
        (Verdict("take over, median", taken.median, "ms", at_most=TAKEOVER_MS_MAX),),
    )


def _log(directory: str, epoch: int) -> JobLog:
    log = JobLog(Disk(Path(directory)), history_size=16, snapshot_records=SNAPSHOT_RECORDS)
    log.claim(FencingToken(epoch, "benchmark"))
    return log


def _write(log: JobLog) -> None:
    """Jobs that restart and restart, beside many that have ended."""
    jobs = [JobID(derived_id("running", number)) for number in range(JOBS)]
    entries: list[AnyEntry] = [GraphStored(_graph(job_id)) for job_id in jobs]
    entries += [ResultStored(_result(number), dirty=False) for number in range(ENDED_JOBS)]
    log.append(entries)
    worker = ResourceID("worker")
    batch: list[AnyEntry] = []
    for number, job_id in zip(range(RECORDS // 3), itertools.cycle(jobs), strict=False):
        region = RegionIndex(number // JOBS % REGIONS)
        records: tuple[JournalRecord, ...] = (
            RegionsDeployed(at_ms=number, deployed=((region, 0, worker),)),
            RegionsEnded(at_ms=number, ended=((region, 0),)),
            RegionsReset(at_ms=number, regions=(region,)),
        )
        batch.append(RecordsAppended(job_id, records))
        if 3 * len(batch) >= RECORDS_PER_WRITE:
            log.append(batch)
            batch = []
    log.append(batch)


def _graph(job_id: JobID) -> JobGraph:
    return JobGraph(
        job_id=job_id,
        name="restarting",
        vertices=(),
        datasets=(),
        edges=(),
        environment=RuntimeEnvironment(python="3.11", pyspark="4.3.0"),
    )


def _result(number: int) -> JobResult:
    return JobResult(
        job_id=JobID(derived_id("ended", number)),
        name="ended",
        status=JobStatus.FINISHED,
        start_time_ms=0,
        end_time_ms=1,
    )
