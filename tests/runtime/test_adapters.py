"""The transport, the election, the store and the clock of one process."""

import asyncio
import time

import pytest

from firesteel.adapters.ha.embedded import EmbeddedLeaderElection, InMemoryJobStore
from firesteel.adapters.rpc.inproc import InProcessRpc
from firesteel.core.effects import Event, PeerLost, Received
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import JobStatusRecord
from firesteel.model.ids import Address, FencingToken, JobID
from firesteel.model.messages import Leader
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.services import StaleLeader
from tests.runtime.cluster import graph
from tests.runtime.conftest import Do
from tests.runtime.cores import envelope

OLD, NEW = FencingToken(1, "a"), FencingToken(2, "a")


# ── transport ────────────────────────────────────────────────────────────────────────────────
class Box:
    def __init__(self, rpc: InProcessRpc, address: str) -> None:
        self.events: list[Event] = []
        rpc.register(Address(address), self)

    def tell(self, event: Event) -> None:
        self.events.append(event)


def test_messages_arrive_in_order() -> None:
    rpc = InProcessRpc()
    a, b = Box(rpc, "a"), Box(rpc, "b")
    sent = [envelope("a", "b") for _ in range(3)]
    for item in sent:
        rpc.send(item)
    assert b.events == [Received(item) for item in sent]
    assert a.events == []


def test_peers_of_an_endpoint_that_goes_are_told_once() -> None:
    rpc = InProcessRpc()
    a, b, stranger = Box(rpc, "a"), Box(rpc, "b"), Box(rpc, "stranger")
    rpc.send(envelope("a", "b"))
    rpc.send(envelope("a", "b"))
    rpc.unregister(Address("b"))
    rpc.unregister(Address("b"))
    assert a.events == [PeerLost("b", "it has stopped")]
    assert len(b.events) == 2
    assert stranger.events == []
    rpc.send(envelope("a", "b"))
    assert a.events[1:] == [PeerLost("b", "nobody is there")]
    rpc.send(envelope("gone", "b"))
    Box(rpc, "b")
    rpc.unregister(Address("a"))
    rpc.unregister(Address("b"))
    rpc.unregister(Address("stranger"))
    assert (rpc._mailboxes, rpc._peers) == ({}, {})


def test_an_address_is_taken_once() -> None:
    rpc = InProcessRpc()
    Box(rpc, "a")
    with pytest.raises(AssertionError, match="a is taken"):
        Box(rpc, "a")


# ── election ─────────────────────────────────────────────────────────────────────────────────
class Contender:
    def __init__(self) -> None:
        self.told: list[FencingToken | None] = []

    def on_granted(self, token: FencingToken) -> None:
        self.told.append(token)

    def on_revoked(self) -> None:
        self.told.append(None)


def test_the_first_contender_leads_and_the_next_follows(do: Do) -> None:
    async def story() -> None:
        election = EmbeddedLeaderElection("test")
        first, second = Contender(), Contender()
        leave = election.contend("it", first)
        assert first.told == []
        leave_second = election.contend("it", second)
        await asyncio.sleep(0)
        assert ([token and token.epoch for token in first.told], second.told) == ([1], [])
        leave()
        leave()
        await asyncio.sleep(0)
        assert [token and token.epoch for token in second.told] == [2]
        leave_second()
        assert election._contenders == {}
        with pytest.raises(LookupError, match="nobody leads it"):
            election.revoke("it")
        with pytest.raises(LookupError, match="nobody contends for it"):
            election.grant("it")

    do(story())


def test_who_has_left_is_granted_nothing(do: Do) -> None:
    async def story() -> None:
        election = EmbeddedLeaderElection("test")
        contender = Contender()
        election.contend("it", contender)()
        await asyncio.sleep(0)
        assert contender.told == []

    do(story())


def test_only_the_newest_leader_is_published(do: Do) -> None:
    async def story() -> None:
        election = EmbeddedLeaderElection("test")
        seen: list[Leader | None] = []
        contender = Contender()
        election.contend("it", contender)
        end = election.watch("it", seen.append)
        await asyncio.sleep(0)
        election.grant("it")
        await asyncio.sleep(0)
        old, new = (Leader(Address("it"), token) for token in contender.told if token)
        election.confirm("it", old)
        assert seen == []
        election.confirm("it", new)
        late: list[Leader | None] = []
        election.watch("it", late.append)()
        assert (seen, late) == ([new], [new])
        end()
        election.revoke("it")
        assert seen == [new]
        assert election._listeners == {}

    do(story())


def test_a_revoked_leader_is_not_confirmed(do: Do) -> None:
    """Its service came up too late: the listeners must not be sent to it."""

    async def story() -> None:
        election = EmbeddedLeaderElection("test")
        contender = Contender()
        election.contend("it", contender)
        await asyncio.sleep(0)
        election.revoke("it")
        (token,) = (token for token in contender.told if token)
        election.confirm("it", Leader(Address("it"), token))
        assert election.components() == ()

    do(story())


# ── store ────────────────────────────────────────────────────────────────────────────────────
RECORD = JobStatusRecord(at_ms=1, status=JobStatus.CREATED)


def test_old_job_masters_are_shut_out(do: Do) -> None:
    async def story() -> None:
        store, stored = InMemoryJobStore(), graph("lines")
        await store.load(OLD)
        await store.put_graph(stored, OLD)
        assert await store.claim_journal(stored.job_id, OLD) == JobState(job_id=stored.job_id)
        await store.append(stored.job_id, OLD, [RECORD])
        assert (await store.claim_journal(stored.job_id, NEW)).created_ms == 1
        for attempt in (
            store.append(stored.job_id, OLD, [RECORD]),
            store.claim_journal(stored.job_id, OLD),
            store.append(JobID("unknown"), NEW, [RECORD]),
            store.claim_journal(JobID("unknown"), NEW),
        ):
            with pytest.raises(StaleLeader):
                await attempt
        assert store.journal(stored.job_id) == (RECORD,)

    do(story())


def test_old_dispatchers_are_shut_out(do: Do) -> None:
    async def story() -> None:
        store, stored = InMemoryJobStore(), graph("lines")
        result = JobResult(job_id=stored.job_id, name="job", status=JobStatus.FINISHED, start_time_ms=0, end_time_ms=1)
        await store.load(OLD)
        await store.put_graph(stored, OLD)
        await store.put_result(result, OLD)
        assert await store.load(NEW) == ((stored,), ((result, True),))
        for attempt in (
            store.load(OLD),
            store.put_graph(stored, OLD),
            store.put_result(result, OLD),
            store.clean_up(stored.job_id, OLD),
            store.forget_result(stored.job_id, OLD),
        ):
            with pytest.raises(StaleLeader):
                await attempt
        await store.clean_up(stored.job_id, NEW)
        await store.clean_up(stored.job_id, NEW)
        assert await store.load(NEW) == ((), ((result, False),))
        with pytest.raises(StaleLeader, match="not stored any more"):
            await store.claim_journal(stored.job_id, NEW)
        await store.forget_result(stored.job_id, NEW)
        await store.forget_result(stored.job_id, NEW)
        assert await store.load(NEW) == ((), ())

    do(story())


# ── clock ────────────────────────────────────────────────────────────────────────────────────
def test_the_clock_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when somebody sets the wall clock back."""
    clock = SystemClock()
    first = clock.now_ms()
    assert abs(first - time.time() * 1_000) < 60_000
    monkeypatch.setattr(time, "time", lambda: 0.0)
    times = [clock.now_ms() for _ in range(1_000)]
    assert times == sorted(times)
    assert times[0] >= first
