"""Storages that stop answering while attempts run: what these are told, and what failures are blamed on. No Spark; the storage
is a function."""

import asyncio
import itertools
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.worker.storagewatch import BLAMED_S, StorageWatch
from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.schemes import storage_of
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.tasks import TaskProgress
from firesteel.runtime.ports import TaskFailedError
from tests.core.graphs import job

ATTEMPT = RegionAttemptID(JobID("a" * 32), RegionIndex(0), 0)
RESULTS, BUCKET = "hdfs://nn:8020", "s3://lake"
OF_SPARK = FailureInfo(
    kind=FailureKind.PARTITION, message="Job aborted", spark_error="FAILED_READ_FILE", partitions=(f"{RESULTS}/x",)
)
WHY = f"{RESULTS}/_: http://nn:9870 does not answer (timed out); is fs.hdfs.webhdfs-address right?"


class Storages:
    """`down`: why they don't answer, by storage."""

    def __init__(self) -> None:
        self.down: dict[str, OSError] = {}
        self.now_s = 100.0
        self.asked: list[str] = []
        self.watch = StorageWatch({}, f"{RESULTS}/results", self.ask, lambda: self.now_s)

    def ask(self, storage: str, settings: Mapping[str, str]) -> None:
        self.asked.append(storage)
        if storage in self.down:
            raise self.down[storage]


def a_run(*staging: str, graph: str = "a => b") -> Any:
    task = SimpleNamespace(
        job=SimpleNamespace(graph=job(graph)),
        results=f"{RESULTS}/results/1",
        deployment=SimpleNamespace(attempt=ATTEMPT),
    )
    return SimpleNamespace(task=task, staging=dict.fromkeys(staging), silence=lambda: "")


async def failed(storages: Storages, run: Any, failure: FailureInfo) -> FailureInfo:
    with pytest.raises(TaskFailedError) as caught:
        async with storages.watch.over(run, lambda progress: None):
            raise TaskFailedError(failure)
    return caught.value.failure


def test_an_attempt_is_told_what_it_waits_for_and_that_it_does_no_more() -> None:
    storages, told = Storages(), list[TaskProgress]()

    async def story() -> None:
        async with storages.watch.over(a_run(), told.append) as progressed:
            await storages.watch.look()
            assert told == [], "nothing is said of what answers"
            storages.down[RESULTS] = OSError(WHY)
            await storages.watch.look()
            storages.now_s += 13
            await storages.watch.look()
            progressed(TaskProgress(attempt=ATTEMPT, tasks_done=7))
            storages.down.clear()
            await storages.watch.look()
            await storages.watch.look()

    asyncio.run(story())
    waits = [
        f"{RESULTS}, which does not answer (for {s} s; http://nn:9870 does not answer (timed out))" for s in (0, 13, 13)
    ]
    assert [each.waits_for for each in told] == [*waits, ""]
    assert [each.tasks_done for each in told] == [0, 0, 7, 7]


def test_an_attempt_is_told_that_its_backend_is_silent() -> None:
    storages, told, silent = Storages(), list[TaskProgress](), ["Spark to answer (silent for 9 s)", ""]

    async def story() -> None:
        run = a_run()
        run.silence = lambda: silent[0]
        async with storages.watch.over(run, told.append):
            silent.pop(0)
            await storages.watch.look()

    asyncio.run(story())
    assert [each.waits_for for each in told] == ["Spark to answer (silent for 9 s)", ""]


def test_a_failure_while_a_storage_is_silent_is_the_storages() -> None:
    """And no stored result is lost by it."""
    storages = Storages()
    storages.down[RESULTS] = OSError(WHY)
    failure = asyncio.run(failed(storages, a_run(), OF_SPARK))
    assert failure.message == f"{RESULTS} does not answer (for 0 s; http://nn:9870 does not answer (timed out))"
    assert (failure.kind, failure.may_pass, failure.partitions) == (FailureKind.ENVIRONMENT, True, ())
    assert "Job aborted" in failure.trace


def test_one_that_was_silent_just_now_may_be_the_cause_and_not_for_long() -> None:
    storages = Storages()

    async def story() -> list[FailureInfo]:
        async with storages.watch.over(a_run(), lambda progress: None):
            storages.down[RESULTS] = OSError(WHY)
            await storages.watch.look()
            storages.down.clear()
            storages.now_s += 9
            await storages.watch.look()
        first = await failed(storages, a_run(), OF_SPARK)
        storages.now_s += BLAMED_S + 1
        return [first, await failed(storages, a_run(), OF_SPARK)]

    just_now, later = asyncio.run(story())
    assert just_now.message == f"{RESULTS} did not answer (for 9 s; http://nn:9870 does not answer (timed out))"
    assert later == OF_SPARK


@pytest.mark.parametrize(
    "failure",
    [
        FailureInfo(kind=FailureKind.USER, message="ZeroDivisionError", exception="ZeroDivisionError"),
        FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="no such column", spark_error="UNRESOLVED_COLUMN"),
        FailureInfo(kind=FailureKind.ENVIRONMENT, message="the JVM has died", backend="b1"),
    ],
)
def test_what_has_another_cause_stays_what_it_is(failure: FailureInfo) -> None:
    storages = Storages()
    storages.down[RESULTS] = OSError(WHY)
    assert asyncio.run(failed(storages, a_run(), failure)) == failure


def test_what_has_never_answered_is_blamed_for_nothing_nor_what_says_no() -> None:
    storages, place = Storages(), f"{BUCKET}/.firesteel-staging/x"
    silent = FailureInfo(kind=FailureKind.USER, message="write_parquet: it is silent", exception="OSError")

    async def story() -> None:
        storages.down[BUCKET] = OSError("s3://lake: it does not answer")
        assert await failed(storages, a_run(place, graph="a"), silent) == silent
        storages.down[BUCKET] = Unusable("s3://lake: no")
        assert await failed(storages, a_run(place, graph="a"), silent) == silent
        assert storages.asked == [], "which takes its time"
        async with storages.watch.over(a_run(place, graph="a"), lambda progress: None):
            await storages.watch.look()
            storages.down.clear()
            await storages.watch.look()
        storages.down[BUCKET] = OSError("s3://lake: it does not answer")
        found = await failed(storages, a_run(place, graph="a"), silent)
        assert found.message == f"{BUCKET} does not answer (for 0 s; it does not answer)"

    asyncio.run(story())
    assert RESULTS not in storages.asked, "a job that stores nothing has nothing to do with it"


def test_a_name_that_nobody_can_be_asked_by_is_blamed_for_nothing_and_ends_no_watch() -> None:
    storages = Storages()
    storages.watch = StorageWatch({}, "", clock=lambda: storages.now_s)
    failure = FailureInfo(kind=FailureKind.USER, message="write_parquet: no such host", exception="OSError")

    async def story() -> FailureInfo:
        run = a_run("hdfs://a..b:8020/.firesteel-staging/x", graph="a")
        async with storages.watch.over(run, lambda progress: None):
            await storages.watch.look()
        return await failed(storages, run, failure)

    assert asyncio.run(story()) == failure


def test_one_that_hangs_is_asked_by_one_at_a_time_however_many_fail_of_it() -> None:
    """Each asks in a thread, of which a worker has few."""
    storages, ticks = Storages(), itertools.count(100)
    let_go, asking = threading.Event(), list[int]()

    def hang(storage: str, settings: Mapping[str, str]) -> None:
        asking.append(len(asking))
        assert let_go.wait(60)
        raise OSError(WHY)

    async def story() -> list[FailureInfo]:
        storages.watch = StorageWatch({}, f"{RESULTS}/results", hang, lambda: float(next(ticks)))
        failures = [asyncio.ensure_future(failed(storages, a_run(), OF_SPARK)) for _ in range(30)]
        while not asking:
            await asyncio.sleep(0)
        let_go.set()
        return await asyncio.gather(*failures)

    assert all(failure.may_pass for failure in asyncio.run(story()))
    assert len(asking) == 2, "the second was begun when all had come"


def test_a_source_that_is_where_results_are_is_told_by_its_name() -> None:
    storages = Storages()
    storages.down[RESULTS] = OSError(WHY)
    reading = FailureInfo(kind=FailureKind.USER, message="Call From a to nn:8020 failed", spark_error="X")
    assert asyncio.run(failed(storages, a_run(graph="a"), reading)).may_pass


@pytest.mark.parametrize(
    ("uri", "storage"),
    [
        ("hdfs://NN:8020/a/b", "hdfs://NN:8020"),
        ("s3a://lake/x", "s3://lake"),
        ("/a/b", ""),
        ("file:///a", ""),
        ("gs://b/x", ""),
        ("jdbc:staged", ""),
        ("hdfs:///x", ""),
        ("", ""),
    ],
)
def test_storages_by_uri(uri: str, storage: str) -> None:
    assert storage_of(uri) == storage
