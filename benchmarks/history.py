"""A history server over the archives of 10,000 jobs from three clusters: the index, the list, a job, and memory."""

import contextlib
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.report import Report, Series, Verdict
from firesteel.adapters.history.record import Origin, archived_job, encode_job
from firesteel.model.ids import JobID, JobVertexID, ResourceID, derived_id
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.views import JobResult, JobView, SubtaskView, VertexView

JOBS, CLUSTERS = 10_000, 3
VERTICES, PARALLELISM = 3, 4
LISTINGS, LOOKS = 20, 200
"""Lists, and jobs that are opened, in a round."""

LIST_MS_MAX, MEMORY_MIB_MAX = 1_000, 250
BEGIN_MS = 1_700_000_000_000
STARTED = re.compile(rb"REST at (http://\S+)")


def measure(rounds: int) -> Report:
    """Seconds until all are listed, milliseconds of one list and of a job, MiB of the process in the end."""
    found: dict[str, list[float]] = {"index": [], "list": [], "processor": [], "job": [], "memory": []}
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as directory:
        places = [Path(directory) / f"cluster-{number}" for number in range(CLUSTERS)]
        size_bytes = fill(places)
        for _ in range(rounds):
            for name, value in one_round(places).items():
                found[name].append(value)
    series = (
        Series("index built", "s", tuple(found["index"])),
        Series("list of all jobs", "ms", tuple(found["list"])),
        Series("the server's processor for a list", "ms", tuple(found["processor"])),
        Series("one job", "ms", tuple(found["job"])),
        Series("memory of the server", "MiB", tuple(found["memory"])),
        Series("file of a job", "bytes", (size_bytes,)),
    )
    return Report(
        case="history",
        series=series,
        verdicts=(
            Verdict("list of all jobs", statistics.median(found["list"]), "ms", at_most=LIST_MS_MAX),
            Verdict("memory of the server", max(found["memory"]), "MiB", at_most=MEMORY_MIB_MAX),
        ),
    )


def one_round(places: list[Path]) -> dict[str, float]:
    begin_s = time.perf_counter()
    with server(places) as (process, http):
        while (len(listed(http))) < JOBS:
            time.sleep(0.02)
        index_s = time.perf_counter() - begin_s
        before_s = processor_s(process)
        listings_ms = [timed_ms(lambda: http.get("/jobs/overview")) for _ in range(LISTINGS)]
        listing_ms = (processor_s(process) - before_s) * 1_000 / LISTINGS
        ids = [each["jid"] for each in random.Random(1).sample(listed(http), LOOKS)]
        jobs_ms = [timed_ms(lambda job_id=job_id: http.get(f"/jobs/{job_id}").raise_for_status()) for job_id in ids]
        memory_mib = psutil.Process(process.pid).memory_info().rss / (1 << 20)
    return {
        "index": index_s,
        "list": statistics.median(listings_ms),
        "processor": listing_ms,
        "job": statistics.median(jobs_ms),
        "memory": memory_mib,
    }


def processor_s(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


def listed(http: httpx.Client) -> list[Any]:
    jobs: list[Any] = json.loads(http.get("/jobs/overview").content)["jobs"]
    return jobs


def timed_ms(work: Any) -> float:
    begin_s = time.perf_counter()
    work()
    return (time.perf_counter() - begin_s) * 1_000


@contextlib.contextmanager
def server(places: list[Path]) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """A process of its own, as users start it."""
    options = {
        "historyserver.archive.fs.dir": ",".join(map(str, places)),
        "historyserver.web.port": "0",
    }
    arguments = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
    command = [sys.executable, "-m", "firesteel", "historyserver", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None, "a pipe"
        started = STARTED.search(process.stdout.readline())
        assert started is not None, "it says where it serves"
        with httpx.Client(base_url=started[1].decode(), timeout=60.0) as http:
            yield process, http
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def fill(places: list[Path]) -> int:
    """Write the archives as masters do; returns the size of one file."""
    size = 0
    for place in places:
        place.mkdir()
    for number in range(JOBS):
        view = job_view(number)
        result = JobResult(
            job_id=view.job_id,
            name=view.name,
            status=view.status,
            start_time_ms=view.start_time_ms,
            end_time_ms=view.end_time_ms,
        )
        origin = Origin(cluster=f"cluster-{number % CLUSTERS}", firesteel="0.1.0", archived_ms=view.end_time_ms)
        data = encode_job(archived_job(view, result, origin))
        size = len(data)
        (places[number % CLUSTERS] / f"{view.job_id}.job").write_bytes(data)
    return size


def job_view(number: int) -> JobView:
    start_ms = BEGIN_MS + number * 1_000
    status = JobStatus.FAILED if number % 20 == 0 else JobStatus.FINISHED
    return JobView(
        job_id=JobID(derived_id("benchmark", number)),
        name=f"pipeline {number % 100}",
        status=status,
        timestamps_ms={"CREATED": start_ms, "RUNNING": start_ms + 5, status.value: start_ms + 900},
        start_time_ms=start_ms,
        end_time_ms=start_ms + 900,
        regions=VERTICES * PARALLELISM,
        vertices=tuple(vertex_view(place, start_ms) for place in range(VERTICES)),
        parameters={"input": "/data/in", "output": "/data/out"},
    )


def vertex_view(place: int, start_ms: int) -> VertexView:
    entered = {"CREATED": start_ms, "RUNNING": start_ms + 20, "FINISHED": start_ms + 300}
    return VertexView(
        id=JobVertexID(derived_id("vertex", place)),
        name=f"vertex {place}",
        functions=(f"function_{place}",),
        kinds=("transform",),
        parallelism=PARALLELISM,
        status=ExecutionState.FINISHED,
        tasks={"FINISHED": PARALLELISM},
        attempts=1,
        start_time_ms=start_ms,
        end_time_ms=start_ms + 300,
        subtasks=tuple(
            SubtaskView(
                subtask=index,
                state=ExecutionState.FINISHED,
                attempt=0,
                task_manager=ResourceID(f"worker-{index}"),
                entered_ms=entered,
            )
            for index in range(PARALLELISM)
        ),
    )
