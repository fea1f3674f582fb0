"""One mailbox, in order, fair; timers, questions, work in the background; and how it all ends."""

import asyncio
from dataclasses import dataclass

import pytest

from firesteel.adapters.rpc.inproc import InProcessRpc
from firesteel.core.effects import Effect, Event, PeerLost, Received, SetTimer, Started, Timer, TimerFired
from firesteel.core.requests import Asked, Reply, Request
from firesteel.runtime.endpoint import EVENTS_PER_TURN_MAX, Endpoint, EndpointStopped
from firesteel.runtime.services import StaleLeader
from tests.runtime.cluster import virtual_loop
from tests.runtime.conftest import Do
from tests.runtime.cores import RecordingCore, envelope


@dataclass(frozen=True)
class Ping(Event):
    number: int


@dataclass(frozen=True)
class Alarm(Timer):
    name: str


@dataclass(frozen=True)
class Unknown(Effect):
    pass


class Question(Request):
    pass


class Bench:
    """An endpoint, and what its supervisor was told."""

    def __init__(self, core: RecordingCore, rpc: InProcessRpc | None = None) -> None:
        self.core, self.broken = core, list[Exception]()
        self.rpc = rpc or InProcessRpc()
        self.endpoint = Endpoint(core, self.rpc, virtual_loop(), self.broken.append)
        self.endpoint.start()


def test_events_are_handled_in_order(do: Do) -> None:
    """Also those that are told while others are handled."""

    async def story() -> None:
        def react(event: Event) -> list[Effect]:
            if event == Ping(1):
                bench.endpoint.tell(Ping(4))
            return []

        bench = Bench(RecordingCore(react=react))
        for number in (1, 2, 3):
            bench.endpoint.tell(Ping(number))
        assert bench.core.events == []
        await bench.endpoint.catch_up()
        assert bench.core.events == [Started(), Ping(1), Ping(2), Ping(3), Ping(4)]
        await bench.endpoint.stop()

    do(story())


def test_a_busy_endpoint_lets_others_run(do: Do) -> None:
    async def story() -> None:
        bench = Bench(RecordingCore())
        for number in range(3 * EVENTS_PER_TURN_MAX):
            bench.endpoint.tell(Ping(number))
        await asyncio.sleep(0)
        assert len(bench.core.events) == EVENTS_PER_TURN_MAX
        await asyncio.sleep(0)
        assert len(bench.core.events) == 2 * EVENTS_PER_TURN_MAX
        await bench.endpoint.catch_up()
        assert bench.core.events == [Started(), *map(Ping, range(3 * EVENTS_PER_TURN_MAX))]
        await bench.endpoint.stop()

    do(story())


def test_messages_beyond_the_limit_are_dropped_and_nothing_else(
    do: Do, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("firesteel.runtime.endpoint.MAILBOX_MAX", 3)

    async def story() -> None:
        bench = Bench(RecordingCore())
        for _ in range(4):
            bench.endpoint.tell(Received(envelope("x", "it")))
            bench.endpoint.tell(Ping(1))
        await bench.endpoint.catch_up()
        assert [type(event) for event in bench.core.events] == [Started, Received, *(Ping,) * 4]
        bench.endpoint.tell(Received(envelope("x", "it")))
        await bench.endpoint.catch_up()
        assert len(bench.core.seen(Received)) == 2
        await bench.endpoint.stop()

    do(story())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["it is behind"] * 2


def test_timers_fire_once_and_equal_ones_replace_each_other(do: Do) -> None:
    async def story() -> None:
        def react(event: Event) -> list[Effect]:
            now_ms = virtual_loop().now_ms()
            match event:
                case Started():
                    return [SetTimer(Alarm("a"), now_ms + 100), SetTimer(Alarm("b"), now_ms - 5)]
                case Ping():
                    return [SetTimer(Alarm("a"), now_ms + 1_000)]
                case _:
                    return []

        bench = Bench(RecordingCore(react=react))
        await asyncio.sleep(0.05)
        assert bench.core.seen(TimerFired) == [TimerFired(Alarm("b"))]
        bench.endpoint.tell(Ping(1))
        await asyncio.sleep(0.9)
        assert len(bench.core.seen(TimerFired)) == 1
        await asyncio.sleep(60)
        assert bench.core.seen(TimerFired) == [TimerFired(Alarm("b")), TimerFired(Alarm("a"))]
        bench.endpoint.tell(Ping(2))
        await bench.endpoint.catch_up()
        await bench.endpoint.stop()
        await asyncio.sleep(60)
        assert len(bench.core.seen(TimerFired)) == 2

    do(story())


def answering(value: object) -> RecordingCore:
    return RecordingCore(react=lambda event: [Reply(event.request_id, value)] if isinstance(event, Asked) else [])


def test_questions_are_answered(do: Do) -> None:
    async def story() -> None:
        good, bad, mute = Bench(answering(7)), Bench(answering(LookupError("unknown"))), Bench(RecordingCore())
        assert await good.endpoint.ask(Question()) == 7
        with pytest.raises(LookupError, match="unknown"):
            await bad.endpoint.ask(Question())
        async with asyncio.TaskGroup() as clients:
            waiting = clients.create_task(mute.endpoint.ask(Question()))
            given_up = clients.create_task(mute.endpoint.ask(Question()))
            await mute.endpoint.catch_up()
            given_up.cancel()
            await asyncio.wait([given_up])
            asked = mute.core.seen(Asked)
            assert len(mute.endpoint._answers) == 1
            mute.core._react = lambda event: [Reply(e.request_id, "late") for e in asked if isinstance(e, Asked)]
            mute.endpoint.tell(Ping(1))
        assert waiting.result() == "late"
        for bench in (good, bad, mute):
            await bench.endpoint.stop()

    do(story())


def test_questions_fail_when_it_stops(do: Do) -> None:
    async def story() -> None:
        bench = Bench(RecordingCore())
        async with asyncio.TaskGroup() as clients:
            waiting = [clients.create_task(fails(bench.endpoint)) for _ in range(3)]
            await asyncio.sleep(0)
            await bench.endpoint.stop()
        assert [task.result() for task in waiting] == ["it"] * 3
        assert await fails(bench.endpoint) == "it"

    async def fails(endpoint: Endpoint) -> str:
        with pytest.raises(EndpointStopped) as stopped:
            await endpoint.ask(Question())
        return str(stopped.value)

    do(story())


@pytest.mark.expects_errors
@pytest.mark.parametrize("how", ["core", "effect", "background"])
def test_a_bug_ends_this_endpoint_alone(do: Do, how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        def react(event: Event) -> list[Effect]:
            if event == Ping(1) and how == "core":
                raise ZeroDivisionError("a bug")
            return [Unknown()] if event == Ping(1) and how == "effect" else []

        async def work() -> None:
            if how == "background":
                raise ZeroDivisionError("a bug")
            await asyncio.sleep(3_600)

        rpc = InProcessRpc()
        other = Bench(RecordingCore("other"), rpc)
        bench = Bench(RecordingCore(react=react), rpc)
        rpc.send(envelope("it", "other"))
        task = bench.endpoint.background(work())
        for number in (0, 1, 2):
            bench.endpoint.tell(Ping(number))
        await asyncio.sleep(1)
        (error,) = bench.broken
        assert type(error) is (AssertionError if how == "effect" else ZeroDivisionError)
        assert task.done()
        if how != "background":
            assert bench.core.events[-1] in (Ping(0), Ping(1))
        bench.endpoint.tell(Ping(3))
        await bench.endpoint.catch_up()
        assert Ping(3) not in bench.core.events
        assert [type(event) for event in other.core.events] == [Started, Received, PeerLost]
        assert other.broken == []
        await bench.endpoint.stop()
        await other.endpoint.stop()

    do(story())
    assert "it broke" in caplog.text


@pytest.mark.parametrize("error", [OSError("the disk is gone"), StaleLeader("another one leads")])
def test_the_worlds_faults_end_it_without_an_error_line(do: Do, error: Exception) -> None:
    async def story() -> None:
        async def work() -> None:
            raise error

        bench = Bench(RecordingCore())
        bench.endpoint.background(work())
        await asyncio.sleep(1)
        assert bench.broken == [error]
        await bench.endpoint.stop()

    do(story())


def test_stopping_waits_for_what_is_under_way(do: Do) -> None:
    """Its clean-up, too; what that raises is no second end. Stopping again waits as well."""

    async def story() -> None:
        ended: list[str] = []

        async def work(name: str) -> None:
            try:
                await asyncio.sleep(3_600)
            finally:
                await asyncio.sleep(2)
                ended.append(name)
                if name == "bad":
                    raise OSError("while it stopped")

        bench = Bench(RecordingCore())
        for name in ("good", "bad"):
            bench.endpoint.background(work(name))
        await asyncio.sleep(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(bench.endpoint.stop())
            group.create_task(bench.endpoint.stop())
        assert ended == ["good", "bad"]
        assert bench.broken == []
        bench.endpoint.tell(Ping(1))
        await bench.endpoint.catch_up()
        assert Ping(1) not in bench.core.events

    do(story())


def test_catching_up_ends_when_the_endpoint_does(do: Do) -> None:
    async def story() -> None:
        bench = Bench(RecordingCore())
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(bench.endpoint.catch_up())
            await asyncio.sleep(0)
            bench.endpoint.tell(Ping(1))
            await bench.endpoint.stop()
        await bench.endpoint.catch_up()

    do(story())
