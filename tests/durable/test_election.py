"""Masters that share a directory: one of them leads, and when it is gone another one does."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.election import RegisterElection
from firesteel.adapters.ha.fileregister import FileRegister
from firesteel.adapters.rpc.server import PeerServer
from firesteel.adapters.rpc.settings import network_settings
from firesteel.model.ids import Address
from firesteel.model.messages import Leader
from firesteel.model.options import Configuration
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.register import LeaderRecord, Registered
from tests.durable.contenders import Service, contending, until_it_leads
from tests.network.peers import LIMIT_S
from tests.network.processes import until

FOR_EVER_MS = 1_000_000


@dataclass
class Contender:
    """A master as far as elections go; it contends for two components."""

    election: RegisterElection
    first: Service = field(default_factory=Service)
    second: Service = field(default_factory=Service)

    async def until_it_leads(self, expected: bool = True) -> None:
        async def is_so() -> bool:
            return self.first.leads is self.second.leads is expected

        await until(is_so)


@contextlib.asynccontextmanager
async def contender(
    directory: Path, name: str, port: int, lease_ms: int = FOR_EVER_MS, options: Mapping[str, str] | None = None
) -> AsyncIterator[Contender]:
    record = LeaderRecord(name=name, node="here", host="127.0.0.1", port=port)
    network = network_settings(Configuration(options or {}), name)
    election = RegisterElection(
        FileRegister(Disk(directory)), name, SystemClock(), network=network, lease_ms=lease_ms, retry_ms=20
    )
    it = Contender(election)
    election.contend("first", it.first)
    election.contend("second", it.second)
    await election.start(record)
    try:
        yield it
    finally:
        await election.close()


@pytest.fixture
def ports() -> "tuple[socket.socket, socket.socket]":  # type: ignore[misc]
    """Two ports, of which the first one listens."""
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        first.listen()
        yield first, second


Ports = tuple[socket.socket, socket.socket]


def port_of(of: socket.socket) -> int:
    return int(of.getsockname()[1])


def test_one_leads_and_hands_over_when_it_is_closed(tmp_path: Path, ports: Ports) -> None:
    """At once: the lease would last for ever, and its port listens."""

    async def story() -> None:
        async with contender(tmp_path, "a", port_of(ports[0])) as a:
            await a.until_it_leads()
            told: list[Leader | None] = []
            a.election.watch("first", told.append)
            a.election.confirm("first", Leader(Address("a"), a.first.tokens[0]))
            async with contender(tmp_path, "b", port_of(ports[1])) as b:
                await asyncio.sleep(0.1)
                assert b.first.tokens == []
                await a.election.close()
                await b.until_it_leads()
                assert not a.first.leads
                assert told == [Leader(Address("a"), a.first.tokens[0]), None]
                assert a.first.tokens < b.first.tokens
                assert a.second.tokens < b.second.tokens

    asyncio.run(story())


def test_of_two_that_find_an_empty_directory_one_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their clocks differ by a second: the later epoch removes the earlier one, whose maker is not done yet."""
    record = LeaderRecord(name="a", node="here", host="127.0.0.1", port=1)
    slow, quick = FileRegister(Disk(tmp_path)), FileRegister(Disk(tmp_path))
    create = slow._disk.create

    def overtaken(name: str, data: bytes) -> None:
        create(name, data)
        assert quick._claim(record, 1001) == 1001

    monkeypatch.setattr(slow._disk, "create", overtaken)
    assert slow._claim(record, 1000) is None
    assert quick._epochs() == [1001]


def test_a_leader_whose_port_refuses_is_replaced(tmp_path: Path, ports: Ports) -> None:
    """It runs on, and finds out."""

    async def story() -> None:
        async with contender(tmp_path, "dead", port_of(ports[1])) as dead:
            await dead.until_it_leads()
            await dead.election._tasks.close()
            async with contender(tmp_path, "b", port_of(ports[0])) as b:
                await b.until_it_leads()
                await dead.election._look()
                await dead.until_it_leads(False)

    asyncio.run(story())


def test_a_leader_that_is_silent_is_replaced_after_its_lease(tmp_path: Path, ports: Ports) -> None:
    async def story() -> None:
        async with contender(tmp_path, "silent", port_of(ports[0])) as silent:
            await silent.until_it_leads()
            await silent.election._tasks.close()
            async with contender(tmp_path, "b", port_of(ports[1]), lease_ms=200) as b:
                assert b.first.tokens == []
                await b.until_it_leads()

    asyncio.run(story())


def test_a_process_replaces_its_predecessor_at_once(tmp_path: Path, ports: Ports) -> None:
    async def story() -> None:
        async with contender(tmp_path, "killed", port_of(ports[0])) as killed:
            await killed.until_it_leads()
            await killed.election._tasks.close()
            async with contender(tmp_path, "started again", port_of(ports[0])) as again:
                await again.until_it_leads()
                await killed.election._look()
                await killed.until_it_leads(False)
                assert len(list(tmp_path.iterdir())) == 1

    asyncio.run(story())


def test_a_component_that_contends_again_has_a_newer_token(tmp_path: Path, ports: Ports) -> None:
    async def story() -> None:
        async with contender(tmp_path, "a", port_of(ports[0])) as a:
            late = Service()
            for number in range(1, 4):
                leave = a.election.contend("late", late)

                async def is_granted(number: int = number) -> bool:
                    return len(late.tokens) == number

                await until(is_granted)
                leave()
            assert late.tokens == sorted(set(late.tokens))

    asyncio.run(story())


class HangingRegister(FileRegister):
    """Looks and signs of life have no answer while it hangs."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.answers = asyncio.Event()
        self.answers.set()
        self.waiting = self.waited_at_once = 0

    async def newest(self) -> Registered | None:
        await self.answers.wait()
        return await super().newest()

    async def touch(self, epoch: int) -> bool:
        self.waiting += 1
        self.waited_at_once = max(self.waited_at_once, self.waiting)
        await self.answers.wait()
        self.waiting -= 1
        return await super().touch(epoch)


def test_a_leader_whose_register_hangs_is_suspended_then_stops(tmp_path: Path) -> None:
    """As one whose register fails; one sign of life waits for an answer, however long that takes."""

    async def story() -> None:
        register = HangingRegister(Disk(tmp_path))
        async with contending(register, "a", lease_ms=FOR_EVER_MS, retry_ms=20) as (election, service):

            async def is_uncertain() -> bool:
                return not election.certain.is_set()

            await until_it_leads(service)
            register.answers.clear()
            await until(is_uncertain)
            assert service.leads
            assert "it has not answered" in election.trouble
            register.answers.set()
            async with asyncio.timeout(LIMIT_S):
                await election.certain.wait()
            assert len(service.tokens) == 1

            register.answers.clear()
            await until(is_uncertain)
            election._renew_deadline_ms = 200
            await until_it_leads(service, False)
            assert register.waited_at_once == 1
            register.answers.set()
            await until_it_leads(service)
            assert len(service.tokens) == 2, "the next epoch, in which nobody else leads"

    asyncio.run(story())


class LosingRegister(FileRegister):
    """Every claim is lost, to nobody."""

    claims = 0

    async def claim(self, record: LeaderRecord, after: int) -> int | None:
        self.claims += 1
        return None


def test_who_loses_to_nobody_looks_again_in_time(tmp_path: Path) -> None:
    async def story() -> None:
        register = LosingRegister(Disk(tmp_path))
        async with contending(register, "a", lease_ms=FOR_EVER_MS, retry_ms=FOR_EVER_MS):

            async def has_tried() -> bool:
                return register.claims >= 2

            await until(has_tried)
            await asyncio.sleep(0.1)
            assert register.claims == 2

    asyncio.run(story())


def test_a_leader_of_another_cluster_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two clusters that share a storage have one register: who does not lead says why it can't follow."""

    async def story() -> None:
        other = network_settings(Configuration({"high-availability.cluster-id": "other"}), "other")
        server = PeerServer(other, {})
        record = LeaderRecord(name="other", node="there", host="127.0.0.1", port=await server.listen("127.0.0.1", 0))
        assert await FileRegister(Disk(tmp_path)).claim(record, 0)
        async with contender(tmp_path, "mine", 1) as mine:

            async def is_told() -> bool:
                return "do two clusters share a storage?" in caplog.text

            await until(is_told)
            assert not mine.first.leads
        await server.close()

    asyncio.run(story())
    assert caplog.text.count("is none that this master can follow: it belongs to cluster 'other'") == 1


def test_a_leader_without_tls_is_named_by_a_master_that_wants_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = trustme.CA()
    issued, files = authority.issue_cert("127.0.0.1"), tmp_path / "tls"
    files.mkdir()
    authority.cert_pem.write_to_path(files / "ca.pem")
    issued.private_key_and_cert_chain_pem.write_to_path(files / "own.pem")
    options = {
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.certificate": str(files / "own.pem"),
        "security.ssl.internal.private-key": str(files / "own.pem"),
        "security.ssl.internal.certificate-authorities": str(files / "ca.pem"),
    }

    async def story() -> None:
        server = PeerServer(network_settings(Configuration(), "plain"), {})
        record = LeaderRecord(name="plain", node="there", host="127.0.0.1", port=await server.listen("127.0.0.1", 0))
        assert await FileRegister(Disk(tmp_path)).claim(record, 0)
        async with contender(tmp_path, "mine", 1, options=options) as mine:

            async def is_told() -> bool:
                return "it speaks no TLS: security.ssl.internal.enabled must be the same" in caplog.text

            await until(is_told)
            assert not mine.first.leads
        await server.close()

    asyncio.run(story())
    assert caplog.text.count("is none that this master can follow") == 1
    assert "do two clusters" not in caplog.text


def test_a_register_that_can_not_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "000000000001.leader").write_text("nonsense")
    with pytest.raises(OSError, match=r"000000000001.leader is not a record of a leader: delete it"):
        asyncio.run(FileRegister(Disk(tmp_path)).newest())


def test_only_one_claims_an_epoch(tmp_path: Path) -> None:
    """Who has looked long ago, and claims an epoch that was over before, leads nothing."""

    async def story() -> None:
        register, record = FileRegister(Disk(tmp_path)), LeaderRecord(name="a", node="here", host="h", port=1)
        first = await register.claim(record, 0)
        assert first is not None
        assert await register.claim(record, first) == first + 1
        assert await register.claim(record, first) is None
        assert await register.claim(record, first + 1) == first + 2
        assert await register.claim(record, first) is None
        assert [await register.touch(epoch) for epoch in (first, first + 1, first + 2)] == [False, False, True]

    asyncio.run(story())


def test_whoever_looks_for_a_leader_may_be_there_before_the_first(tmp_path: Path) -> None:
    async def story() -> None:
        register = FileRegister(Disk(tmp_path / "new" / "leader"))
        await register.open()
        with pytest.raises(FileNotFoundError):
            await register.newest()
        (tmp_path / "new" / "leader").mkdir(parents=True)
        assert await register.newest() is None

    asyncio.run(story())
