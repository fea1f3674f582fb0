"""A stream from a real Kafka through savepoints, deaths of workers, leaders and JVMs, and a new version of its code.

Its outputs are to the row what they are without any of it; and each savepoint, moved elsewhere and given to a cluster that
knows nothing of the first one, goes on to the same end. FIRESTEEL_STREAM_SAVEPOINTS says how many are taken, 3 unless it is
set; there is a death of a worker for every third of them, of a leader for every sixth, of a JVM for every tenth.
"""

import asyncio
import contextlib
import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow.parquet
import pytest

from firesteel.adapters.spark.brokers import CONNECTOR
from firesteel.adapters.storage.batchfiles import BatchFiles
from tests.durable.masters import Master, Site
from tests.durable.test_standby import leader
from tests.network.processes import until
from tests.paths import paths_now
from tests.stack.kafka.broker import Kafka
from tests.stack.kafka.streampipeline import KEYS, MARK, OUTPUTS, PARTITIONS, Fed, as_record, source

SAVEPOINTS = int(os.environ.get("FIRESTEEL_STREAM_SAVEPOINTS", "3"))
WORKERS, LEADERS, JVMS = -(-SAVEPOINTS // 3), -(-SAVEPOINTS // 6), -(-SAVEPOINTS // 10)
DEATHS = ["worker"] * WORKERS + ["leader"] * LEADERS + ["JVM"] * JVMS
RATE = 40
"""Clicks a second."""
PAUSE_S = 3.0
"""Between two things that happen."""
LIMIT_S = 600.0
OPTIONS = {
    "taskmanager.numberOfTaskSlots": "1",
    "taskmanager.spark.class-data-archive": "false",
    "spark.jars.packages": CONNECTOR,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
pytestmark = pytest.mark.timeout(10_800)


@dataclass
class Feeder:
    """Sends clicks and their orders at a steady rate, in a thread of its own, until it is told to end."""

    broker: Kafka
    fed: Fed = field(default_factory=Fed)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        for topic in ("clicks", "orders"):
            self.broker.create(topic, PARTITIONS)
        self._over = threading.Event()
        thread = threading.Thread(target=self._feed)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def end(self) -> None:
        """No more rows, but for marks by which all windows are over."""
        self._over.set()
        time.sleep(1.0)
        later_ms = _now_ms() + 3_600_000
        for partition in range(PARTITIONS):
            mark = as_record(-1, -1 - partition, MARK, 0, later_ms)
            self.broker.send("clicks", partition, [mark])
            self.broker.send("orders", partition, [mark])

    def _feed(self) -> None:
        chance, begun, count = random.Random(1), time.monotonic(), 0
        while not self._over.is_set():
            due = int((time.monotonic() - begun) * RATE)
            clicks: list[list[tuple[str | None, str | None]]] = [[] for _ in range(PARTITIONS)]
            orders: list[tuple[str | None, str | None]] = []
            for _ in range(due - count):
                is_again = bool(self.fed.clicks) and chance.random() < 0.1
                identity, key, value, _ = (
                    self.fed.clicks[-1] if is_again else (count, chance.randrange(KEYS), count % 97, 0)
                )
                at_ms = _now_ms()
                clicks[key % PARTITIONS].append(as_record(len(self.fed.clicks), identity, key, value, at_ms))
                self.fed.clicks.append((identity, key, value, at_ms))
                if identity not in self.fed.orders and chance.random() < 0.5:
                    price = chance.randrange(1_000)
                    self.fed.orders[identity] = price, at_ms
                    orders.append(as_record(0, identity, 0, price, at_ms))
                count += 1
            for partition, rows in enumerate(clicks):
                self.broker.send("clicks", partition, rows)
            self.broker.send("orders", 0, orders)
            self._over.wait(0.1)


@dataclass
class Savepoint:
    """`kept` is where it was moved to."""

    location: Path
    kept: Path


class Cluster:
    """Masters and workers with Spark, as processes; commands are those of a user."""

    def __init__(self, directory: Path, masters: int, workers: int) -> None:
        directory.mkdir()
        self.directory = directory
        self._counts = masters, workers
        places = {
            "cluster.work-dir": str(directory / "work"),
            "execution.checkpointing.dir": str(directory / "checkpoints"),
        }
        (directory / "checkpoints").mkdir()
        self.site = Site(directory, **OPTIONS, **places)
        self.workers: dict[str, asyncio.subprocess.Process] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Cluster"]:
        masters, workers = self._counts
        try:
            for number in range(masters):
                await self.site.start_master(f"master{number}")
            for number in range(workers):
                await self.start_worker(f"worker{number}")
            yield self
        finally:
            for worker in self.workers.values():
                if worker.returncode is None:
                    worker.send_signal(signal.SIGTERM)
                    await worker.wait()
            for master in self.site.masters:
                await master.stop()

    async def start_worker(self, name: str) -> None:
        options = {**self.site.masters[0].options, "taskmanager.resource-id": name}
        arguments = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        with open(self.directory / f"{name}.log", "ab") as log:
            self.workers[name] = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "firesteel", "taskmanager", *arguments, stdout=log, stderr=log
            )

    async def say(self, command: str, *arguments: str) -> str:
        """What `firesteel COMMAND` prints; it has to go well."""
        masters = ",".join(f"127.0.0.1:{each.options['rest.port']}" for each in self.site.masters)
        program = (sys.executable, "-m", "firesteel", command, "--master", masters, *arguments)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*program, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
        assert process.returncode == 0, (command, arguments, out.decode(), err.decode())
        return out.decode().strip()

    async def leader(self) -> Master:
        found: list[Master] = []

        async def is_there() -> bool:
            for master in self.site.masters:
                with contextlib.suppress(httpx.HTTPError):
                    if (await leader(master)).get("leads"):
                        found.append(master)
                        return True
            return False

        await until(is_there)
        return found[0]

    async def view(self, job: str) -> Any:
        return await (await self.leader()).client.request_job(job)  # type: ignore[arg-type]

    async def until_batches(self, job: str, more: int) -> None:
        """All queries run, and have each committed so many batches more."""
        first: dict[str, int] = {}

        async def have() -> bool:
            view = await self.view(job)
            told = [each.failure.headline() for each in view.exceptions]
            assert not view.status.is_globally_terminal, (view.status, told)
            now = {query.uid: query.batch_id for each in view.vertices[0].progress for query in each.queries}
            if view.status.value != "RUNNING" or len(now) < len(OUTPUTS) or min(now.values()) < 0:
                return False
            for uid, batch in now.items():
                first.setdefault(uid, batch)
            return all(batch >= first[uid] + more for uid, batch in now.items())

        async with asyncio.timeout(LIMIT_S):
            await until(have)

    async def has_no_checkpoints(self) -> bool:
        """Its jobs are over, and what they had has gone."""
        return not paths_now(self.directory / "checkpoints", "*/*")

    async def kill(self, kind: str) -> None:
        if kind == "leader":
            master = await self.leader()
            await master.kill()
            await asyncio.sleep(2.0)
            await master.start()
            return
        name = self._busiest()
        if kind == "JVM":
            for each in _jvms(self.workers[name].pid)[:1]:
                each.kill()
            return
        self.workers[name].kill()
        await self.workers[name].wait()
        await self.start_worker(name)

    def _busiest(self) -> str:
        """The worker whose JVM has computed most: the job's."""
        times = {}
        for name, worker in self.workers.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                times[name] = sum(each.cpu_times().user for each in _jvms(worker.pid))
        return max(times, key=lambda name: times[name])


def _jvms(worker: int) -> list[psutil.Process]:
    return [each for each in psutil.Process(worker).children(recursive=True) if _is_jvm(each)]


def _is_jvm(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.name() == "java"
    return False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def written(output: Path, until_batch: dict[str, int] | None = None) -> dict[str, Counter[tuple[Any, ...]]]:
    """Rows that count, without marks; those of batches up to one, where it is given."""
    found = {}
    for name in OUTPUTS:
        batches = BatchFiles(output / name, 0).files() if (output / name).exists() else {}
        files = [
            output / name / file
            for batch, names in batches.items()
            if until_batch is None or batch <= until_batch[name]
            for file in names
        ]
        rows: Counter[tuple[Any, ...]] = Counter()
        for table in map(pyarrow.parquet.read_table, files):
            for row in table.to_pylist():
                if row["k"] != MARK:
                    rows[tuple(row.values())] += 1
        found[name] = rows
    return found


def difference(found: dict[str, Counter[tuple[Any, ...]]], wanted: dict[str, Counter[tuple[Any, ...]]]) -> str:
    told = []
    for name in OUTPUTS:
        lacking, extra = wanted[name] - found[name], found[name] - wanted[name]
        if lacking or extra:
            some = f"{list(lacking.items())[:3]}, {list(extra.items())[:3]}"
            told.append(f"{name}: {lacking.total()} rows lack, {extra.total()} are too many: {some}")
    return "; ".join(told)


async def story(directory: Path, broker: Kafka) -> None:
    feeder, chance = Feeder(broker), random.Random(2)
    output, savepoints = directory / "output", directory / "savepoints"
    file = directory / "code" / "clicks.py"
    file.parent.mkdir()
    file.write_text(source())
    parameters = (
        "-p",
        f"servers={broker.servers}",
        "-p",
        f"output={output}",
        "-D",
        "execution.streaming.trigger=500 ms",
    )
    taken: list[Savepoint] = []
    deaths = [*DEATHS]
    chance.shuffle(deaths)
    with feeder.running():
        async with Cluster(directory / "first", masters=2, workers=2).running() as cluster:
            job = await cluster.say("submit", str(file), *parameters)
            for number in range(SAVEPOINTS):
                await cluster.until_batches(job, 1)
                location = Path((await cluster.say("savepoint", job, str(savepoints))).splitlines()[-1])
                taken.append(Savepoint(location, directory / "moved" / str(number)))
                if number == SAVEPOINTS // 2:
                    stopped = (await cluster.say("stop", job, "-p", str(savepoints))).splitlines()[-1]
                    file.write_text(source(changed=True))
                    job = await cluster.say("submit", str(file), *parameters, "--from-savepoint", stopped)
                for _ in range(-(-len(deaths) // (SAVEPOINTS - number))):
                    kind = deaths.pop()
                    print(f"{time.strftime('%X')} savepoint {number + 1} taken; a {kind} dies", flush=True)
                    await asyncio.sleep(chance.uniform(0, PAUSE_S))
                    await cluster.kill(kind)
                    await asyncio.sleep(chance.uniform(0, PAUSE_S))
            await cluster.until_batches(job, 1)
            await asyncio.to_thread(feeder.end)
            await cluster.until_batches(job, 2)
            await cluster.say("stop", job, "--drain", "-p", str(savepoints))
            wanted = feeder.fed.expected()
            assert not difference(written(output), wanted), difference(written(output), wanted)
            await until(cluster.has_no_checkpoints)
            print(f"{len(feeder.fed.clicks)} clicks, {len(feeder.fed.orders)} orders: outputs are exact", flush=True)
    for each in taken:
        each.kept.parent.mkdir(exist_ok=True)
        shutil.move(each.location, each.kept)
    shutil.rmtree(directory / "first")
    async with Cluster(directory / "second", masters=1, workers=1).running() as cluster:
        for number, each in enumerate(taken):
            await goes_on(cluster, each, directory / "again" / str(number), output, file, broker, wanted)
            print(f"savepoint {number + 1} goes on to the same end", flush=True)


async def goes_on(
    cluster: Cluster,
    savepoint: Savepoint,
    again: Path,
    output: Path,
    file: Path,
    broker: Kafka,
    wanted: dict[str, Counter[tuple[Any, ...]]],
) -> None:
    """What the first job had written up to the savepoint, and what comes after it elsewhere, are the whole together."""
    manifest = json.loads((savepoint.kept / "savepoint.json").read_text())
    batches = {query["uid"]: query["point"]["batch"] for query in manifest["queries"]}
    parameters = ("-p", f"servers={broker.servers}", "-p", f"output={again}")
    job = await cluster.say(
        "submit",
        str(file),
        *parameters,
        "-D",
        "execution.streaming.trigger=available-now",
        "--from-savepoint",
        str(savepoint.kept),
    )
    await cluster.say("wait", job)
    before, after = written(output, batches), written(again)
    found = {name: before[name] + after[name] for name in OUTPUTS}
    assert not difference(found, wanted), (batches, difference(found, wanted))


def test_a_stream_loses_nothing_whoever_dies(tmp_path: Path, broker: Kafka) -> None:
    faulthandler.cancel_dump_traceback_later()  # pytest's limit, which ends the run, is for shorter tests
    asyncio.run(story(tmp_path, broker))
