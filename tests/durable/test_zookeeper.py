"""The register of the leader in a real ZooKeeper: claims, signs of life, lost sessions, cut wires."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kazoo.security import READ_ACL_UNSAFE

from firesteel.adapters.ha.election import RegisterElection
from firesteel.adapters.ha.zookeeper import ZooKeeperRegister
from tests.durable.contenders import Service, contending, record, until_it_leads
from tests.durable.zookeeper import ZooKeeper, wire, zookeeper
from tests.network.processes import until

SESSION_S = 10.0
"""The longest that TICK_MS allows: a process that is not let run for a second or two has its session all the same."""
SHORT_SESSION_S = 4.0
"""Where a session has to end."""


@contextlib.asynccontextmanager
async def register(port: int, root: str, session_s: float = SESSION_S) -> AsyncIterator[ZooKeeperRegister]:
    made = ZooKeeperRegister(f"127.0.0.1:{port}", f"/{root}", session_timeout_s=session_s, connection_timeout_s=300)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def test_of_all_who_claim_one_leads(zookeeper_server: ZooKeeper) -> None:
    async def story() -> None:
        async with contextlib.AsyncExitStack() as opened:
            all_ = [await opened.enter_async_context(register(zookeeper_server.port, "claims")) for _ in range(4)]
            assert await all_[0].newest() is None
            epoch = winner = 0
            for _ in range(3):
                claimed = await asyncio.gather(*(each.claim(record(f"m{i}"), epoch) for i, each in enumerate(all_)))
                ((winner, after),) = [(i, one) for i, one in enumerate(claimed) if one is not None]
                assert after > epoch
                found = await all_[3 - winner].newest()
                assert found is not None
                assert (found.epoch, found.record) == (after, record(f"m{winner}"))
                assert await all_[winner].touch(after)
                assert not await all_[winner].touch(epoch)
                assert await all_[0].claim(record("late"), epoch) is None, "it was over before"
                epoch = after
            sign = await all_[0].newest()
            again = await all_[0].newest()
            assert sign is not None
            assert again is not None
            assert 0 < sign.sign.moment != again.sign.moment, "its session lives"
            news = asyncio.get_running_loop().create_task(all_[1].changed(60))
            await all_[1].newest()
            await all_[winner].give_up(epoch)
            await news
            gone = await all_[1].newest()
            assert gone is not None
            assert gone.sign.moment == 0

    asyncio.run(story())


def test_a_claim_that_zookeeper_refuses_is_trouble(zookeeper_server: ZooKeeper) -> None:
    """Nobody was first: the node may only be read."""

    async def story() -> None:
        async with register(zookeeper_server.port, "refused") as made:
            epoch = await made.claim(record("a"), 0)
            assert epoch is not None
            await asyncio.to_thread(made._client.set_acls, "/refused/leader", READ_ACL_UNSAFE)
            with pytest.raises(OSError, match="refuses the claim: NoAuthError"):
                await made.claim(record("b"), epoch)

    asyncio.run(story())


@contextlib.asynccontextmanager
async def contender(
    port: int, root: str, name: str, session_s: float = SESSION_S
) -> AsyncIterator[tuple[RegisterElection, Service]]:
    async with (
        register(port, root, session_s) as made,
        contending(made, name, lease_ms=int(session_s * 1000), retry_ms=50) as it,
    ):
        yield it


def test_suspended_is_not_lost(tmp_path: Path) -> None:
    """ZooKeeper is away for a while: who leads goes on, is certain of nothing meanwhile, and has its session back."""

    async def story(server: ZooKeeper) -> None:
        async with contender(server.port, "suspended", "a") as (election, service):
            await until_it_leads(service)
            election._renew_deadline_ms = 1_000_000
            server.stop()

            async def is_uncertain() -> bool:
                return not election.certain.is_set()

            await until(is_uncertain)
            assert service.leads
            server.start()
            async with asyncio.timeout(300):
                await election.certain.wait()
            assert election.leads
            assert len(service.tokens) == 1, "nobody else has led"

    with zookeeper(tmp_path / "server") as server:
        asyncio.run(story(server))


def test_a_leader_cut_off_from_zookeeper_alone(zookeeper_server: ZooKeeper) -> None:
    """It stops after a whole session, while its successor leads; mended, it stands by."""

    async def story() -> None:
        async with (
            wire(zookeeper_server.port) as cable,
            contender(cable.port, "cut", "a", SHORT_SESSION_S) as (election, a),
            contender(zookeeper_server.port, "cut", "b", SHORT_SESSION_S) as (_, b),
        ):
            await until_it_leads(a)
            assert b.tokens == []
            cable.cut()
            await until_it_leads(a, False)
            await until_it_leads(b)
            cable.mend()

            async def knows() -> bool:
                return election.leader is not None and election.leader.record.name == "b"

            await until(knows)
            assert (a.leads, b.leads) == (False, True)
            assert a.tokens < b.tokens

    asyncio.run(story())


def test_no_zookeeper_is_said(tmp_path: Path) -> None:
    async def open_at(quorum: str) -> None:
        made = ZooKeeperRegister(quorum, "/x", session_timeout_s=1, connection_timeout_s=0.2)
        await made.open()

    with pytest.raises(OSError, match=r"no ZooKeeper answers at 127.0.0.1:1 within 0.2 s"):
        asyncio.run(open_at("127.0.0.1:1"))
    with pytest.raises(OSError, match=r"is no list of HOST:PORT"):
        asyncio.run(open_at("127.0.0.1:nonsense"))
