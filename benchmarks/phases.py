"""Where the time of a small word count goes on a warm cluster, phase by phase, beside the bare query in the same Spark.

The bare side is there twice: in a session that stays open, and in a new one for each query, as a job has it. What
happens within Spark is read from its event log, whose times are whole milliseconds; it is written for all sides alike.
"""

import asyncio
import contextlib
import itertools
import json
import os
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import firesteel as fs
from benchmarks.bare import NEW_SESSIONS
from benchmarks.report import ROOT, Report, Series, Verdict
from benchmarks.texts import copy_a_few
from benchmarks.warm import (
    OVERHEAD_MS_MAX,
    ROUNDS_MIN,
    WARM_UP_ROUNDS,
    bare_client,
    built,
    fresh_copy,
    query,
    run,
)
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.minicluster import MiniCluster
from firesteel.model.tasks import Committed, JobInformation, SinkCommit, TaskDeployment, TaskOutcome

WITHIN_SPARK = ("analysis", "planning, codegen", "execution", "commit in Spark")
BARE = ("plan, to Spark", *WITHIN_SPARK, "answer, footers")
JOB = (
    "submission, graph, slot",
    "process",
    "modules, session",
    "plan in Python",
    *BARE,
    "report",
    "decision",
    "commit",
    "result",
)
"""Each phase ends where the next one begins."""
FSYNC, TOTAL = "fsync, within these", "in all"
EVENTS_LIMIT_S, EVENTS_LOOK_S = 10.0, 0.02
_OPERATION = "org.apache.spark.sql.connect.service.SparkListenerConnectOperation"

Phases = dict[str, float]
"""Milliseconds by name."""


def measure(rounds: int) -> Report:
    """Milliseconds of each phase of each side, in turn."""
    return asyncio.run(_measure(max(rounds, ROUNDS_MIN)))


async def _measure(rounds: int) -> Report:
    sides: dict[str, list[Phases]] = {"bare": [], "bare, new session": [], "job": []}
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        folder = Path(scratch)
        texts, events = copy_a_few(folder / "texts"), EventLog(folder / "events")
        settings = {"cluster.work-dir": str(folder / "work"), **events.settings}
        async with MiniCluster(fs.Configuration(settings), backend=NotingBackend) as cluster:
            job = TimedJob(cluster, events, folder, texts)
            await job.run(fresh_copy(texts), folder / "first")
            async with bare_client(cluster) as bare, bare_client(cluster, "benchmarks.bare", NEW_SESSIONS) as anew:
                for number in range(-WARM_UP_ROUNDS, rounds):
                    measured = (
                        await bare_phases(bare, events, fresh_copy(texts), folder / f"bare{number}"),
                        await bare_phases(anew, events, fresh_copy(texts), folder / f"anew{number}"),
                        await job.run(fresh_copy(texts), folder / f"job{number}"),
                    )
                    if number >= 0:
                        for found, phases in zip(sides.values(), measured, strict=True):
                            found.append(phases)
    return _report(sides)


def _report(sides: Mapping[str, Sequence[Phases]]) -> Report:
    series = tuple(
        Series(f"{phase}: {side}", "ms", tuple(each[phase] for each in rounds))
        for phase in (*JOB, FSYNC, TOTAL)
        for side, rounds in sides.items()
        if phase in rounds[0]
    )
    totals = {each.name: each.median for each in series}
    bare_ms, anew_ms, job_ms = (totals[f"{TOTAL}: {side}"] for side in sides)
    return Report(
        case="phases",
        series=series,
        verdicts=(
            Verdict("job - bare query", job_ms - bare_ms, "ms", at_most=OVERHEAD_MS_MAX),
            Verdict("bare query, new session - open session", anew_ms - bare_ms, "ms"),
        ),
    )


async def bare_phases(client: Process, events: "EventLog", source: str, output: Path) -> Phases:
    """Those of one query of a bare client."""
    began_s = time.time()
    await query(client, source, output)
    ended_s = time.time()
    return between(BARE, [began_s, *await events.moments(began_s), ended_s])


class TimedJob:
    """The word count as a job, built once."""

    def __init__(self, cluster: MiniCluster, events: "EventLog", folder: Path, texts: Path) -> None:
        self._cluster, self._events, self._notes = cluster, events, folder / "notes"
        parameters = {"input": str(texts), "output": "later", "notes": str(self._notes)}
        self._built = built(ROOT / "benchmarks" / "phasejob.py", folder / "artifacts", parameters)

    async def run(self, source: str, output: Path) -> Phases:
        """Run it once; its phases."""
        self._notes.unlink(missing_ok=True)
        (worker,) = self._cluster.workers.values()
        backend = worker.backend
        assert isinstance(backend, NotingBackend)
        backend.moments.clear()
        began_s = time.time()
        with timed_fsync() as fsyncs_ms:
            await run(self._cluster, self._built, input=source, output=str(output))
        ended_s = time.time()
        deployed, running, reported, decided, committed = backend.moments
        called, planned, staged = map(float, self._notes.read_text().split())
        within = await self._events.moments(began_s)
        moments = [began_s, deployed, running, called, planned, *within, staged, reported, decided, committed, ended_s]
        return {**between(JOB, moments), FSYNC: sum(fsyncs_ms)}


class NotingBackend(SparkTaskBackend):
    """Notes when it is given an attempt, when user code begins, when the attempt has ended; and when a commit does."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.moments: list[float] = []

    def _note(self) -> None:
        self.moments.append(time.time())

    async def run(
        self, job: JobInformation, deployment: TaskDeployment, *, on_running: Callable[[], None], **others: Any
    ) -> TaskOutcome:
        def running() -> None:
            self._note()
            on_running()

        self._note()
        outcome = await super().run(job, deployment, on_running=running, **others)
        self._note()
        return outcome

    async def commit(self, commit: SinkCommit) -> Committed:
        self._note()
        done = await super().commit(commit)
        self._note()
        return done


class EventLog:
    """What Spark tells of its queries, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": directory.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        self._read = 0

    async def moments(self, since_s: float) -> list[float]:
        """Of the one query since then: begun, analysed, its first task may begin, its last job has ended, it has ended."""
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(EVENTS_LIMIT_S):
            while not any(event["Event"] == f"{_OPERATION}Finished" for event in events):
                await asyncio.sleep(EVENTS_LOOK_S)
                events += self._new(since_s)
        operation = {
            event["Event"].removeprefix(_OPERATION): event["eventTime"] for event in events if "eventTime" in event
        }
        begun = [event["Submission Time"] for event in events if event["Event"] == "SparkListenerJobStart"]
        ended = [event["Completion Time"] for event in events if event["Event"] == "SparkListenerJobEnd"]
        times_ms = operation["Started"], operation["Analyzed"], min(begun), max(ended), operation["Finished"]
        return [each / 1_000 for each in times_ms]

    def _new(self, since_s: float) -> list[dict[str, Any]]:
        """Events that were written since the last look, as far as they are later."""
        (file,) = self._directory.iterdir()
        with file.open("rb") as log:
            log.seek(self._read)
            lines = [line for line in log if line.endswith(b"\n")]
        self._read += sum(map(len, lines))
        return [event for event in map(json.loads, lines) if _time_ms(event) >= since_s * 1_000]


def _time_ms(event: Mapping[str, Any]) -> float:
    """0 for events that have none, or none that is looked at."""
    times = ("eventTime", "Submission Time", "Completion Time")
    return float(next((event[name] for name in times if name in event), 0))


def between(names: Sequence[str], moments: Sequence[float]) -> Phases:
    """Milliseconds from moment to moment, and in all."""
    spans = {name: (end - begin) * 1_000 for name, (begin, end) in zip(names, itertools.pairwise(moments), strict=True)}
    return {**spans, TOTAL: (moments[-1] - moments[0]) * 1_000}


@contextlib.contextmanager
def timed_fsync() -> Iterator[list[float]]:
    """Milliseconds of each `os.fsync` of this process."""
    found: list[float] = []
    sync = os.fsync

    def timed(descriptor: Any) -> None:
        started = time.perf_counter()
        sync(descriptor)
        found.append((time.perf_counter() - started) * 1_000)

    os.fsync = timed  # type: ignore[assignment]
    try:
        yield found
    finally:
        os.fsync = sync
