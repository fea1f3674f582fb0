"""A runner's services: one a grant, never two at once, and another one after a failure."""

import asyncio
from dataclasses import dataclass, field

import pytest

from firesteel.adapters.ha.embedded import EmbeddedLeaderElection
from firesteel.core.leadership.candidate import FAILURES_MAX, STABLE_MS
from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages import Leader
from firesteel.runtime.leadership import LeaderRunner
from firesteel.runtime.services import StaleLeader
from tests.runtime.conftest import Do


@dataclass
class Stage:
    """Services that note when they come and go."""

    start_s: float = 0.0
    stop_s: float = 0.0
    errors: list[Exception] = field(default_factory=list)
    """What the next starts raise."""
    stop_error: Exception | None = None
    alive: int = 0
    story: list[str] = field(default_factory=list)
    lost: list[Exception] = field(default_factory=list)
    election: EmbeddedLeaderElection = field(default_factory=lambda: EmbeddedLeaderElection("test"))

    def runner(self) -> LeaderRunner:
        return LeaderRunner("it", self.election, self.start, on_lost=self.lost.append)

    async def start(self, token: FencingToken) -> "Service":
        assert not self.alive, "two services at once"
        self.alive += 1
        try:
            await asyncio.sleep(self.start_s)
            if self.errors:
                raise self.errors.pop(0)
        except BaseException:
            self.alive -= 1
            self.story.append(f"no {token.epoch}")
            raise
        self.story.append(f"up {token.epoch}")
        return Service(self, token)


@dataclass
class Service:
    stage: Stage
    token: FencingToken

    @property
    def leader(self) -> Leader:
        return Leader(Address("it"), self.token)

    async def stop(self) -> None:
        await asyncio.sleep(self.stage.stop_s)
        self.stage.alive -= 1
        self.stage.story.append(f"down {self.token.epoch}")
        if self.stage.stop_error is not None:
            raise self.stage.stop_error


def test_one_service_a_grant(do: Do) -> None:
    async def story() -> None:
        stage = Stage(start_s=1, stop_s=1)
        told: list[Leader | None] = []
        stage.election.watch("it", told.append)
        runner = stage.runner()
        runner.start()
        await asyncio.sleep(5)
        stage.election.revoke("it")
        await asyncio.sleep(5)
        stage.election.grant("it")
        await asyncio.sleep(5)
        stage.election.grant("it")
        await asyncio.sleep(5)
        await runner.stop()
        assert stage.story == ["up 1", "down 1", "up 2", "down 2", "up 3", "down 3"]
        assert [who and who.token.epoch for who in told] == [1, None, 2, 3, None]

    do(story())


@pytest.mark.parametrize("moment_s", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("again", [False, True])
def test_revoked_at_any_moment(do: Do, moment_s: float, again: bool) -> None:
    """While the service comes up, at the moment it is up, after; and granted anew at once."""

    async def story() -> None:
        stage = Stage(start_s=1, stop_s=1)
        runner = stage.runner()
        runner.start()
        await asyncio.sleep(moment_s)
        stage.election.revoke("it")
        if again:
            stage.election.grant("it")
        await asyncio.sleep(10)
        assert stage.alive == again
        assert (runner.service is not None) == again
        await runner.stop()
        assert stage.alive == 0

    do(story())


@pytest.mark.parametrize("moment_s", [None, 0.0, 0.5, 1.0, 1.5])
def test_stopped_at_any_moment(do: Do, moment_s: float | None) -> None:
    """Also in the same breath as it began: a grant on its way starts nothing any more."""

    async def story() -> None:
        stage = Stage(start_s=1, stop_s=1)
        runner = stage.runner()
        runner.start()
        if moment_s is not None:
            await asyncio.sleep(moment_s)
        async with asyncio.TaskGroup() as group:
            group.create_task(runner.stop())
            group.create_task(runner.stop())
        assert stage.alive == 0
        runner.start()
        runner.on_granted(FencingToken(99, "test"))
        await asyncio.sleep(10)
        assert stage.alive == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    do(story())


def test_contenders_take_over(do: Do) -> None:
    async def story() -> None:
        stage, other = Stage(), Stage()
        other.election = stage.election
        first, second = stage.runner(), other.runner()
        first.start()
        second.start()
        await asyncio.sleep(1)
        assert (stage.alive, other.alive) == (1, 0)
        await first.stop()
        await asyncio.sleep(1)
        assert (stage.alive, other.alive) == (0, 1)
        await second.stop()
        assert other.story == ["up 2", "down 2"]

    do(story())


def test_a_start_that_fails_is_tried_again(do: Do) -> None:
    """Under a new token, and a little later each time."""

    async def story() -> None:
        stage = Stage(errors=[OSError("no route"), StaleLeader("another one"), OSError("no route")])
        runner = stage.runner()
        runner.start()
        await asyncio.sleep(1)
        assert stage.story == ["no 1", "no 2", "no 3", "up 4"]
        await runner.stop()

    do(story())


@pytest.mark.expects_errors
def test_failing_too_often_is_told(do: Do) -> None:
    async def story() -> None:
        stage = Stage(errors=[ZeroDivisionError(str(number)) for number in range(100)])
        runner = stage.runner()
        runner.start()
        await asyncio.sleep(1_000)
        assert len(stage.story) == FAILURES_MAX + 1
        assert [str(error) for error in stage.lost] == [str(FAILURES_MAX)]
        assert not stage.election._contenders
        await runner.stop()

    do(story())


def test_failures_of_long_ago_are_forgotten(do: Do) -> None:
    async def story() -> None:
        stage = Stage()
        runner = stage.runner()
        runner.start()
        for _ in range(3 * FAILURES_MAX):
            await asyncio.sleep(STABLE_MS / 1_000 + 10)
            assert stage.alive == 1
            runner.fail(OSError("the journal"))
            runner.fail(OSError("told twice"))
        await asyncio.sleep(1)
        assert (stage.lost, stage.alive) == ([], 1)
        await runner.stop()

    do(story())


def test_stopping_while_it_waits_to_contend_again(do: Do) -> None:
    async def story() -> None:
        stage = Stage(errors=[OSError("no route")] * 6)
        runner = stage.runner()
        runner.start()
        await asyncio.sleep(4)
        begin = asyncio.get_running_loop().time()
        await runner.stop()
        assert asyncio.get_running_loop().time() == begin
        await asyncio.sleep(100)
        assert stage.alive == 0

    do(story())


@pytest.mark.expects_errors
def test_a_service_that_does_not_stop_cleanly(do: Do) -> None:
    """It is reported, and the next one comes."""

    async def story() -> None:
        stage = Stage(stop_error=ZeroDivisionError("a bug"))
        runner = stage.runner()
        runner.start()
        await asyncio.sleep(1)
        stage.election.revoke("it")
        await asyncio.sleep(1)
        stage.stop_error = None
        if "it" not in stage.election.components():
            stage.election.grant("it")
        await asyncio.sleep(1)
        assert stage.alive == 1
        await runner.stop()

    do(story())
