"""Which backend an attempt gets, and when one ends. The backends here have no JVM."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.jvm.pool import BackendPool, Seat
from firesteel.adapters.spark.wire import SparkAddress
from firesteel.adapters.spark.worker.sidesessions import SideSessions
from firesteel.model.ids import AllocationID, JobID, RegionAttemptID, RegionIndex
from firesteel.model.resources import LOCAL_SPARK, SparkApplication
from firesteel.model.tasks import TaskDeployment


class FakeBackend:
    """Counts what it is asked."""

    def __init__(self, alone: bool) -> None:
        self.alone, self.started, self.closed = alone, False, False
        self._users: dict[RegionAttemptID, None] = {}
        self.server = SimpleNamespace(application=lambda: SparkApplication(LOCAL_SPARK), endpoint=self._endpoint)

    async def _endpoint(self) -> SparkAddress:
        return SparkAddress(port=1, token="token", generation=1)

    def hold(self, *_: Any) -> None: ...

    async def close_session(self, *_: Any) -> None: ...

    def start(self) -> None:
        self.started = True

    async def close(self) -> None:
        self.closed = True

    @property
    def users(self) -> tuple[RegionAttemptID, ...]:
        return tuple(self._users)

    def admit(self, attempt: RegionAttemptID) -> None:
        self._users[attempt] = None

    def leave(self, attempt: RegionAttemptID) -> None:
        self._users.pop(attempt, None)


class Maker:
    """Makes them, and remembers them in order."""

    def __init__(self, isolation: str, *, limit: int = 2, spares: int = 1) -> None:
        self.made: list[FakeBackend] = []
        self.pool = BackendPool(isolation, self._make, limit=limit, spares=spares)  # type: ignore[arg-type]
        self.pool.start()

    def _make(self, alone: bool) -> FakeBackend:
        self.made.append(FakeBackend(alone))
        return self.made[-1]

    def seat(self, job: str, *, slot: str = "s", region: int = 0, attempt: int = 0, alone: bool = False) -> Seat:
        deployment = TaskDeployment(
            attempt=RegionAttemptID(JobID(job), RegionIndex(region), attempt),
            allocation_id=AllocationID(slot),
            vertices=(),
            subtask=0,
            alone=alone,
        )
        return Seat(self.pool, deployment)

    @property
    def living(self) -> list[int]:
        return [index for index, backend in enumerate(self.made) if not backend.closed]


@pytest.mark.parametrize(
    ("isolation", "shared_by"),
    [("shared", [(0, 1, 2, 3)]), ("job", [(0, 1), (2, 3)]), ("slot", [(0,), (1,), (2,), (3,)])],
)
def test_isolation_says_who_shares(isolation: str, shared_by: list[tuple[int, ...]]) -> None:
    async def story() -> None:
        maker = Maker(isolation, limit=4)
        whose = [("a", "s1"), ("a", "s2"), ("b", "s3"), ("b", "s4")]
        taken = [maker.seat(job, slot=slot, region=index).take() for index, (job, slot) in enumerate(whose)]
        groups = [[index for index, each in enumerate(taken) if each is backend] for backend in dict.fromkeys(taken)]
        assert [tuple(group) for group in groups] == shared_by
        assert all(backend.started for backend in maker.made)
        assert len(maker.made) == len(shared_by) + (isolation != "shared"), "one spare, where backends are not shared"
        await maker.pool.release_job(JobID("a"))
        assert [backend.closed for backend in maker.made if backend in taken] == (  # type: ignore[comparison-overlap]
            [False] if isolation == "shared" else [len(group) > 0 and group[0] < 2 for group in groups]
        )
        await maker.pool.close()
        assert not maker.living

    asyncio.run(story())


@pytest.mark.parametrize(
    ("isolation", "told"),
    [
        ("shared", [(("a", "b"), True), (("b",), False)]),
        ("job", [(("a",), False), (("b",), False), (("b",), False), ((), False)]),
    ],
)
def test_whose_an_application_is(isolation: str, told: list[tuple[tuple[str, ...], bool]]) -> None:
    async def story() -> None:
        maker = Maker(isolation, limit=4)
        first = maker.seat("a")
        first.take()
        maker.seat("b").take()
        maker.seat("b", region=1, alone=True).take()
        assert [(each.jobs, each.is_shared) for each in maker.pool.applications()] == told
        first.leave()
        jobs, _ = told[0]
        kept = jobs if isolation == "job" else ("b",)
        assert maker.pool.applications()[0].jobs == kept, "a job's own stays its own between its attempts"
        await maker.pool.close()

    asyncio.run(story())


def test_a_backend_that_nobody_uses_makes_room_and_no_other() -> None:
    async def story() -> None:
        maker = Maker("slot", limit=2, spares=0)
        first, second = maker.seat("a", slot="s1"), maker.seat("a", slot="s2", region=1)
        first.take()
        second.take()
        first.leave()
        maker.seat("b", slot="s3").take()
        await asyncio.sleep(0)
        await maker.pool.release_job(JobID("nobody"))
        assert maker.living == [1, 2], "the first one's slot is another job's now"
        maker.seat("c", slot="s4").take()
        await maker.pool.release_job(JobID("nobody"))
        assert maker.living == [1, 2, 3], "what is used stays, even over the limit"
        await maker.pool.close()

    asyncio.run(story())


def test_a_backend_in_which_a_commit_runs_makes_no_room() -> None:
    async def story() -> None:
        maker = Maker("job", limit=1, spares=0)
        sessions = SideSessions(maker.pool.shared, "", {})
        async with sessions.open(), sessions.open():
            maker.seat("a").take()
            await maker.pool.release_job(JobID("nobody"))
            assert maker.living == [0, 1]
            assert maker.pool.applications()[0].jobs == (), "it is no job's"
        maker.seat("b").take()
        await maker.pool.release_job(JobID("nobody"))
        assert maker.living == [1, 2], "it is over"
        await maker.pool.close()

    asyncio.run(story())


@pytest.mark.parametrize("isolation", ["shared", "job"])
def test_an_attempt_that_must_be_alone_has_a_backend_that_ends_with_it(isolation: str) -> None:
    async def story() -> None:
        maker = Maker(isolation)
        neighbour, suspect = maker.seat("a"), maker.seat("a", region=1, attempt=2, alone=True)
        assert suspect.take() is not neighbour.take()
        assert suspect.take() is suspect.take()
        own = suspect.take()
        suspect.leave()
        suspect.leave()
        await maker.pool.release_job(JobID("nobody"))
        assert own.closed  # type: ignore[attr-defined]
        assert not neighbour.take().closed  # type: ignore[attr-defined]
        await maker.pool.close()

    asyncio.run(story())


def test_attempts_that_run_at_a_time_have_scheduler_pools_of_their_own_and_names_are_given_again() -> None:
    """Spark never forgets a pool: as many as attempts run at a time are enough, however many have run."""

    async def story() -> None:
        maker = Maker("shared")
        first, second = maker.seat("a"), maker.seat("b")
        assert first.scheduler_pool != second.scheduler_pool
        first.leave()
        assert maker.seat("c").scheduler_pool == first.scheduler_pool
        first.leave()
        assert maker.seat("d").scheduler_pool not in (first.scheduler_pool, second.scheduler_pool)
        await maker.pool.close()

    asyncio.run(story())


def test_who_needs_no_spark_takes_no_backend() -> None:
    async def story() -> None:
        maker = Maker("job", spares=0)
        maker.seat("a").leave()
        assert not maker.made

    asyncio.run(story())
