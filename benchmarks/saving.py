"""What savepoints cost a stream while they are taken: its rate with one every few seconds, beside its rate with none.

The state is 200 MB in RocksDB. Savepoints go to the disk of the checkpoint, where files are linked, and to another file
system, where each is copied: memory, if there is one, so that the disk does not decide.
"""

import asyncio
import base64
import contextlib
import itertools
import os
import random
import shutil
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet

import firesteel as fs
from benchmarks.report import ROOT, Report, Series, Verdict, turned
from firesteel.adapters.spark.streams.snapshots.savepoints import read_manifest
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.pipeline.build import BuildRequest, build_file

KEYS, PAYLOAD_BYTES = 100_000, 2_000
FILLING, BATCH_ROWS, CONTENTS = 8, 200, 20
"""Files that fill the state; rows of each after them, of which so many differ."""
WINDOW, SETTLE = 30, 10
"""Batches that a rate is measured over, and batches before the first that are not counted."""
EVERY_S = 5.0
"""From the start of a savepoint to that of the next."""
RATE_MIN = 0.9
MEMORY = Path("/dev/shm")
LIMIT_S, LOOK_S = 600.0, 0.1
SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def measure(rounds: int) -> Report:
    """Batches a second, turn and turn about; and how long the savepoints took meanwhile."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch, _elsewhere(Path(scratch)) as elsewhere:
        targets = {"none": None, "links": Path(scratch, "savepoints"), "copies": Path(elsewhere, "savepoints")}
        rates: dict[str, list[float]] = {side: [] for side in targets}
        seconds: dict[str, list[float]] = {side: [] for side in targets}
        _write_input(Path(scratch, "input"), SETTLE + 4 * WINDOW * rounds * len(targets))
        async with MiniCluster(fs.Configuration({"cluster.work-dir": f"{scratch}/work"})) as cluster:
            stream = await _Stream.started(cluster, Path(scratch))
            await stream.reaches(FILLING + SETTLE)
            for number in range(rounds):
                for side in turned(list(targets), number):
                    rate, taken = await stream.window(targets[side])
                    rates[side].append(rate)
                    seconds[side] += taken
    return _report(rates, seconds)


def _report(rates: dict[str, list[float]], seconds: dict[str, list[float]]) -> Report:
    alone = rates.pop("none")
    series = [Series("no savepoint", "1/s", tuple(alone))]
    verdicts = []
    for side, values in rates.items():
        shares = tuple(value / other for value, other in zip(values, alone, strict=True))
        series += [
            Series(f"savepoints, {side}", "1/s", tuple(values)),
            Series(f"savepoints, {side} / none", "ratio", shares),
            Series(f"a savepoint, {side}", "s", tuple(seconds[side])),
        ]
        verdicts.append(Verdict(f"rate, {side} / none", series[-2].median, "ratio", at_least=RATE_MIN))
    return Report(case="saving", series=tuple(series), verdicts=tuple(verdicts))


class _Stream:
    """The job while it runs."""

    def __init__(self, cluster: MiniCluster, job_id: JobID, notes: Path) -> None:
        self._cluster, self._job_id, self._notes = cluster, job_id, notes

    @classmethod
    async def started(cls, cluster: MiniCluster, folder: Path) -> "_Stream":
        notes, artifacts = folder / "notes", folder / "artifacts"
        artifacts.mkdir()
        notes.touch()
        request = BuildRequest(
            file=str(ROOT / "benchmarks" / "largestatejob.py"),
            job_id=JobID(uuid.uuid4().hex),
            parameters={"input": str(folder / "input"), "notes": str(notes)},
            configuration=SETTINGS,
            output_dir=str(artifacts),
        )
        job = build_file(request)
        await cluster.client.submit_job(job.graph, job.artifact_paths())
        return cls(cluster, request.job_id, notes)

    def _times(self) -> list[float]:
        """Of all batches until now."""
        return [float(line) for line in self._notes.read_text().splitlines()]

    async def reaches(self, batches: int) -> list[float]:
        """The same, when they are as many."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                if len(times := self._times()) >= batches:
                    return times
                await asyncio.sleep(LOOK_S)

    async def window(self, target: Path | None) -> tuple[float, list[float]]:
        """Batches a second, while savepoints are taken there; and the seconds that each of these took."""
        is_over, begun, taken = asyncio.Event(), len(self._times()), list[float]()
        async with asyncio.TaskGroup() as tasks:
            if target is not None:
                tasks.create_task(self._save(target, is_over, taken))
            times = await self.reaches(begun + 1 + WINDOW)
            is_over.set()
        return WINDOW / (times[begun + WINDOW] - times[begun]), taken

    async def _save(self, target: Path, is_over: asyncio.Event, taken: list[float]) -> None:
        """Savepoints, removed when the last one is done."""
        paths = []
        while not is_over.is_set():
            started = time.perf_counter()
            paths.append(await self._cluster.client.take_savepoint(self._job_id, str(target)))
            taken.append(time.perf_counter() - started)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, EVERY_S - taken[-1])):
                    await is_over.wait()
        for path in paths:
            assert read_manifest(path).size_bytes > KEYS * PAYLOAD_BYTES / 2, "all state is in it"
            await asyncio.to_thread(shutil.rmtree, path)


def _elsewhere(scratch: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder on another file system; on the same one where there is no memory to write to."""
    return tempfile.TemporaryDirectory(prefix="firesteel-bench-", dir=MEMORY if MEMORY.is_dir() else scratch)


def _write_input(directory: Path, batches: int) -> None:
    """Files in the order of their names and times; those after the first few have a few contents."""
    directory.mkdir()
    made = directory.parent / "contents"
    made.mkdir()
    for number in range(FILLING):
        _write_rows(directory / f"{number:06}.parquet", range(number, KEYS, FILLING))
    for number in range(CONTENTS):
        _write_rows(made / str(number), random.sample(range(KEYS), BATCH_ROWS))
    for number, content in zip(range(batches), itertools.cycle(range(CONTENTS)), strict=False):
        shutil.copyfile(made / str(content), directory / f"{FILLING + number:06}.parquet")


def _write_rows(file: Path, keys: Sequence[int]) -> None:
    payloads = [base64.b64encode(os.urandom(PAYLOAD_BYTES * 3 // 4)).decode() for _ in keys]
    parquet.write_table(pyarrow.table({"k": list(keys), "v": [1] * len(keys), "payload": payloads}), file)
