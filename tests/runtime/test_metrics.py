"""What a process measures of itself."""

import asyncio
import errno
from collections.abc import Iterator, Sequence

import pytest

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.core.journal.records import JobStatusRecord, JournalRecord
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.metric import VALUES_MAX, MetricValue
from firesteel.model.metrics import FORK_SERVER_SPARES, JOURNAL_SLOWEST_WRITE, MASTER_PROCESS
from firesteel.model.states import JobStatus
from firesteel.runtime.journalmeter import MeteredJobStore
from firesteel.runtime.metrics import WINDOW_S, LoopLag, MetricRegistry, RecentMaximum
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import mini_cluster, virtual_loop
from tests.runtime.conftest import Do


def test_a_recent_maximum_is_of_one_to_two_windows() -> None:
    recent = RecentMaximum()
    assert recent.read(0.0) is None
    recent.note(3.0, 1.0)
    recent.note(2.0, 2.0)
    assert recent.read(2.0) == 3.0
    assert recent.read(2.0 + WINDOW_S) == 3.0
    recent.note(1.0, 2.0 + WINDOW_S)
    assert recent.read(2.0 + WINDOW_S) == 3.0
    assert recent.read(2.0 + 2 * WINDOW_S) == 1.0
    assert recent.read(2.0 + 4 * WINDOW_S) is None


def test_a_registry_asks_its_sources_when_it_is_asked_and_has_a_limit() -> None:
    registry, asked = MetricRegistry(), list[int]()
    assert registry.values() == ()

    def source() -> list[MetricValue]:
        asked.append(1)
        return [MetricValue(f"m{number}", 0.0) for number in range(VALUES_MAX)]

    registry.add(source)
    registry.add(source)
    assert not asked
    assert len(registry.values()) == VALUES_MAX
    assert len(asked) == 2


def test_a_source_that_fails_costs_its_own_figures_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    registry, files = MetricRegistry(), [0]

    def source() -> Iterator[MetricValue]:
        yield MetricValue("first", 1.0)
        if not files[0]:
            raise OSError(errno.EMFILE, "Too many open files")

    registry.add(source)
    registry.add(lambda: [MetricValue("second", 2.0)])
    for _ in range(3):
        assert [value.id for value in registry.values()] == ["second"]
    assert caplog.text.count("figures are missing") == 1
    files[0] = 1
    assert [value.id for value in registry.values()] == ["first", "second"]
    files[0] = 0
    registry.values()
    assert caplog.text.count("figures are missing") == 2


def test_what_blocks_the_loop_is_its_lag(do: Do) -> None:
    async def story() -> None:
        lag = LoopLag(MASTER_PROCESS)
        assert lag.values() == []
        lag.start()
        await asyncio.sleep(WINDOW_S)
        assert lag.values() == [MASTER_PROCESS.loop_lag.of(0.0)]
        virtual_loop()._now_s += 3.0
        await asyncio.sleep(1.0)
        (worst,) = lag.values()
        assert 2_700 <= worst.value <= 3_000
        lag.stop()
        await asyncio.sleep(3 * WINDOW_S)
        assert lag.values() == []

    do(story())


class SlowStore(InMemoryJobStore):
    """Its writes take a second, and every other one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    async def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord]) -> None:
        await asyncio.sleep(1.0)
        self.writes += 1
        if self.writes % 2 == 0:
            raise OSError("no space left on device")


def test_writes_to_a_journal_are_measured_and_those_that_fail_are_not(do: Do) -> None:
    async def story() -> None:
        store, records = MeteredJobStore(SlowStore()), [JobStatusRecord(at_ms=0, status=JobStatus.RUNNING)] * 3
        job_id, token = JobID("job"), FencingToken(1, "me")
        assert JOURNAL_SLOWEST_WRITE.name not in {value.name for value in store.values()}
        await store.append(job_id, token, records)
        with pytest.raises(OSError, match="no space"):
            await store.append(job_id, token, records)
        await store.append(job_id, token, records)
        measured = {value.name: value.value for value in store.values()}
        assert measured == {
            "journal.writes": 2,
            "journal.records": 6,
            "journal.writeTime": 2_000,
            "journal.slowestWrite": 1_000,
        }

    do(story())


def test_a_worker_tells_what_its_backend_measures(do: Do) -> None:
    async def story() -> None:
        script = TaskScript()
        script.figures = [FORK_SERVER_SPARES.of(2)]
        async with mini_cluster(script) as made:
            await asyncio.sleep(30.0)
            (worker,) = await made.client.list_task_managers()
            assert worker.metrics == (FORK_SERVER_SPARES.of(2),)
            script.figures = [FORK_SERVER_SPARES.of(1)]
            await asyncio.sleep(30.0)
            (worker,) = await made.client.list_task_managers()
            assert worker.metrics == (FORK_SERVER_SPARES.of(1),)

    do(story())
