"""Messages between processes, over real connections: delivered, in order, or the loss is told at once."""

import asyncio
import socket

import msgspec
import pytest

from firesteel.adapters.rpc import frames as f
from firesteel.adapters.rpc.network import address_at
from firesteel.core.effects import PeerLost, Received
from tests.network.peers import HOST, LIMIT_S, Box, Node, nodes

FAST = {"rpc.keep-alive.interval": "50 ms", "rpc.keep-alive.timeout": "4 s"}


def test_messages_go_both_ways_over_the_one_connection() -> None:
    async def story() -> None:
        async with nodes() as (here, there):
            master, second, worker = Box(here, "master"), Box(here, "second"), Box(there, "worker")
            for number in range(100):
                worker.send(master.address, f"{number}")
            await master.until(lambda box: len(box.texts) == 100)
            assert master.texts == [f"{number}" for number in range(100)]
            for each in (master, second):  # the second was never heard of by the worker
                each.send(worker.address, "answer")
            await worker.until(lambda box: len(box.texts) == 2)
            assert here.server._connections == 1

    asyncio.run(story())


def test_a_host_is_found_by_any_of_its_names() -> None:
    async def story() -> None:
        async with nodes() as (here, there):
            master, worker = Box(here, "master"), Box(there, "worker")
            worker.send(address_at("localhost", here.port, "master"), "hello")
            await master.until(lambda box: box.texts)
            master.send(worker.address, "answer")
            await worker.until(lambda box: box.texts)

    asyncio.run(story())


def test_endpoints_of_one_process_need_no_connection() -> None:
    async def story() -> None:
        async with nodes() as (here, _):
            one, other = Box(here, "one"), Box(here, "other")
            one.send(other.address, "hello")
            assert other.texts == ["hello"]
            here.rpc.unregister(other.address)
            assert [lost.address for lost in one.lost] == [other.address]
            assert here.server._connections == 0

    asyncio.run(story())


def test_an_endpoint_that_is_not_there_or_stops_is_lost_and_the_others_are_not() -> None:
    async def story() -> None:
        async with nodes() as (here, there):
            master, worker, other = Box(here, "master"), Box(there, "worker"), Box(there, "other")
            nobody = address_at(HOST, here.port, "nobody")
            worker.send(nobody, "are you there?")
            await worker.until(lambda box: box.lost)
            assert [lost.address for lost in worker.lost] == [nobody]
            worker.send(master.address, "hello")
            other.send(master.address, "hello")
            await master.until(lambda box: len(box.texts) == 2)
            there.rpc.unregister(worker.address)
            await master.until(lambda box: box.lost)
            assert [lost.address for lost in master.lost] == [worker.address]
            master.send(other.address, "still there?")
            await other.until(lambda box: box.texts)
            assert other.lost == []

    asyncio.run(story())


def test_a_lost_connection_is_told_to_all_who_talked_over_it_and_a_new_one_is_made() -> None:
    async def story() -> None:
        async with nodes() as (here, there):
            master, second = Box(here, "master"), Box(here, "second")
            worker, idle = Box(there, "worker"), Box(there, "idle")
            worker.send(master.address, "one")
            worker.send(second.address, "one")
            await second.until(lambda box: box.texts)
            for channel in list(here.rpc._channels):
                channel._stream.abort()
            await worker.until(lambda box: len(box.lost) == 2)
            assert {lost.address for lost in worker.lost} == {master.address, second.address}
            for each in (master, second):
                await each.until(lambda box: box.lost)
                assert [lost.address for lost in each.lost] == [worker.address]
            assert idle.events == []
            worker.send(master.address, "two")
            await master.until(lambda box: box.texts == ["one", "two"])

    asyncio.run(story())


def test_who_comes_back_over_another_connection_is_lost_and_found() -> None:
    """Its old one may be half-open for long."""

    async def story() -> None:
        async with nodes() as (here, there):
            master, old = Box(here, "master"), Box(there, "worker")
            old.send(master.address, "one")
            await master.until(lambda box: box.texts)
            again = Node()
            new = Box(again, "worker")
            new.send(master.address, "two")
            await master.until(lambda box: len(box.texts) == 2)
            assert [type(event) for event in master.events] == [Received, PeerLost, Received]
            master.send(new.address, "hello")
            await new.until(lambda box: box.texts)
            await there.close()
            await again.close()
            await master.until(lambda box: len(box.lost) == 2)
            assert old.texts == []
            assert [type(each).__name__ for each in there.refusals] == ["Refused"], "two processes of one name"
            assert again.refusals == []

    asyncio.run(story())


def test_nobody_listens_and_then_somebody_does() -> None:
    """Failed connections are told, and tried again after a delay; the first message after it arrives."""

    async def story() -> None:
        with socket.create_server((HOST, 0)) as taken:
            port = taken.getsockname()[1]
        there, here = Node(), Node()
        worker = Box(there, "worker")
        target = address_at(HOST, port, "master")
        try:
            for _ in range(50):
                worker.send(target, "hello")
            await worker.until(lambda box: box.lost)
            assert "can't be reached" in worker.lost[0].reason
            await here.listen(port)
            master = Box(here, "master")
            async with asyncio.timeout(LIMIT_S):
                while not master.texts:
                    worker.send(target, "hello")
                    await asyncio.sleep(0.02)
        finally:
            await there.close()
            await here.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("mine", "theirs", "text"),
    [
        ({"high-availability.cluster-id": "a"}, {"high-availability.cluster-id": "b"}, "belongs to cluster"),
        ({}, {"python": "2.7"}, "runs Python"),
        ({}, {"pyspark": "1.0"}, "runs PySpark"),
    ],
)
def test_who_does_not_belong_here_is_refused(
    mine: dict[str, str], theirs: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        pretended = {key: value for key, value in theirs.items() if "." not in key}
        async with nodes(mine, {key: value for key, value in theirs.items() if "." in key}) as (here, there):
            hello = type(there.settings).hello
            monkeypatch.setattr(
                type(there.settings),
                "hello",
                lambda self, purpose: msgspec.structs.replace(
                    hello(self, purpose), **(pretended if self is there.settings else {})
                ),
            )
            master, worker = Box(here, "master"), Box(there, "worker")
            worker.send(master.address, "let me in")
            await worker.until(lambda box: box.lost)
            assert text in worker.lost[0].reason
            assert len(there.refusals) == 1
            assert master.events == []

    asyncio.run(story())


def test_a_half_open_connection_is_noticed() -> None:
    """A peer that goes on without a word: its machine is off, or its process is stopped."""

    async def story() -> None:
        async with nodes(FAST) as (here, there):
            master, worker = Box(here, "master"), Box(there, "worker")
            worker.send(master.address, "hello")
            await master.until(lambda box: box.texts)
            (link,) = there.rpc._links.values()
            assert link._channel is not None
            await asyncio.sleep(5.0)  # more than the timeout: signs of life hold the connection
            assert master.lost == worker.lost == []
            link._channel._pinging.cancel()
            await master.until(lambda box: box.lost)
            assert "nothing was heard of it for 4 s" in master.lost[0].reason
            await worker.until(lambda box: box.lost)

    asyncio.run(story())


def test_a_slow_reader_is_cut_off_and_others_are_served() -> None:
    """What waits for it is limited; nothing waits for it to read."""

    async def story() -> None:
        async with nodes({"rpc.frame-size.max": "1"}) as (here, there):
            master, worker, other_node = Box(here, "master"), Box(there, "worker"), Node({"rpc.frame-size.max": "1"})
            other = Box(other_node, "other")
            for box in (worker, other):
                box.send(master.address, "hello")
            await master.until(lambda box: len(box.texts) == 2)
            (link,) = there.rpc._links.values()
            assert link._channel is not None
            link._channel._stream._writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(200):
                master.send(worker.address, "x" * 100_000)
            await master.until(lambda box: box.lost)
            assert "reads too slowly" in master.lost[0].reason
            master.send(other.address, "hello")
            await other.until(lambda box: box.texts)
            await other_node.close()

    asyncio.run(story())


@pytest.mark.expects_errors
def test_a_message_beyond_the_limit_is_lost_and_the_connection_is_not() -> None:
    async def story() -> None:
        async with nodes({"rpc.frame-size.max": "1"}) as (here, there):
            master, worker = Box(here, "master"), Box(there, "worker")
            worker.send(master.address, "x" * (1 << 20))
            assert "rpc.frame-size.max" in worker.lost[0].reason
            worker.send(master.address, "short")
            await master.until(lambda box: box.texts)
            assert len(worker.lost) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"FSTL\x00\x63",
        f.preface() + b"\xff\xff\xff\xff",
        f.preface() + f.encode_frame(f.Ping(), 100),
        f.preface() + b"\x00\x00\x00\x01\xc1",
    ],
)
def test_whoever_is_none_of_us_does_no_harm(data: bytes) -> None:
    async def story() -> None:
        async with nodes({"rpc.connect-timeout": "500 ms"}) as (here, there):
            reader, writer = await asyncio.open_connection(HOST, here.port)
            writer.write(data)
            async with asyncio.timeout(LIMIT_S):
                with pytest.raises(asyncio.IncompleteReadError):  # our greeting, and then the end
                    await reader.readexactly(10_000)
            writer.close()
            master, worker = Box(here, "master"), Box(there, "worker")
            worker.send(master.address, "hello")
            await master.until(lambda box: box.texts)

    asyncio.run(story())


def test_what_is_said_last_arrives() -> None:
    """A goodbye, and then the end of the process."""

    async def story() -> None:
        async with nodes() as (here, there):
            master, worker = Box(here, "master"), Box(there, "worker")
            worker.send(master.address, "hello")
            await master.until(lambda box: box.texts)
            worker.send(master.address, "x" * 1_000_000)
            worker.send(master.address, "goodbye")
            await there.close()
            await master.until(lambda box: box.lost)
            assert master.texts[-1] == "goodbye"

    asyncio.run(story())


def test_a_port_that_is_taken() -> None:
    async def story() -> None:
        async with nodes() as (here, _):
            other = Node()
            with pytest.raises(OSError, match="address already in use"):
                await other.listen(here.port)
            await other.close()

    asyncio.run(story())


def test_who_was_replaced_does_not_end_who_came_after_him() -> None:
    """A process that ends says of a message to its name that nobody is there: the name is another's by then."""

    async def story() -> None:
        async with nodes() as (here, older):
            newer = Node(name="newer")
            master, first, second = Box(here, "master"), Box(older, "same"), Box(newer, "same")
            first.send(master.address, "first")
            await master.until(lambda box: box.texts == ["first"])
            second.send(master.address, "second")
            await master.until(lambda box: box.texts == ["first", "second"])
            (way,) = older.rpc._links.values()
            older.rpc._say(way, f.Absent(first.address, "nobody is there"))
            Box(older, "other").send(master.address, "it has come")
            await master.until(lambda box: "it has come" in box.texts)
            assert [each.address for each in master.lost] == [second.address], "the older one, when he was replaced"
            master.send(second.address, "you are known")
            await second.until(lambda box: box.texts == ["you are known"])
            await newer.close()

    asyncio.run(story())
