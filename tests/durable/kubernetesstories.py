"""What the register of `high-availability.type: kubernetes` has to do, at whatever API server."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

from firesteel.adapters.ha.election import RegisterElection
from firesteel.adapters.ha.registers import election_times, leader_register
from firesteel.client.remote import http_client
from firesteel.model.options import Configuration
from firesteel.model.states import JobStatus
from firesteel.runtime.register import LeaderRegister
from tests.durable.contenders import Service, contending, record, until_it_leads
from tests.durable.kubernetes import CONFIG_FILE, ELECTION, LIMIT_S, ApiServer
from tests.durable.masters import site
from tests.durable.test_standby import leader
from tests.durable.zookeeper import wire
from tests.network.processes import until
from tests.rest.cluster import graph

TOLD_S = 20.0
"""Time within which what is wrong is told, on a busy machine: no request lasts longer than 5 s."""

FREEZE_S = 4.0


@contextlib.asynccontextmanager
async def register(options: dict[str, str]) -> AsyncIterator[LeaderRegister]:
    made = leader_register(
        Configuration({"high-availability.type": "kubernetes", "high-availability.storageDir": "/none", **options})
    )
    assert made is not None
    try:
        await made.open()
        yield made
    finally:
        await made.close()


async def of_all_who_claim_one_leads(server: ApiServer) -> None:
    options = server.options()
    async with contextlib.AsyncExitStack() as opened:
        all_ = [await opened.enter_async_context(register(options)) for _ in range(4)]
        assert await all_[0].newest() is None
        epoch = winner = 0
        for _ in range(3):
            claimed = await asyncio.gather(*(each.claim(record(f"m{i}"), epoch) for i, each in enumerate(all_)))
            ((winner, after),) = [(i, one) for i, one in enumerate(claimed) if one is not None]
            assert after > epoch
            found = await all_[3 - winner].newest()
            assert found is not None
            assert (found.epoch, found.record) == (after, record(f"m{winner}"))
            assert found.sign.moment != 0, "it has only not signed yet, whatever the one before has left"
            assert await all_[winner].touch(after)
            assert not await all_[winner].touch(epoch)
            assert await all_[0].claim(record("late"), epoch) is None, "it was over before"
            await all_[winner].give_up(after)
            epoch = after
        gone = await all_[1].newest()
        assert gone is not None
        assert gone.sign.moment == 0
        epoch = await all_[1].claim(record("last"), epoch) or 0
        moments = []
        for _ in range(3):
            assert await all_[1].touch(epoch)
            assert await all_[2].touch(epoch - 1) is False
            seen = await all_[2].newest()
            assert seen is not None
            moments.append(seen.sign.moment)
        assert 0 < moments[0] < moments[1] < moments[2]
        await all_[2].give_up(epoch - 1)
        seen = await all_[2].newest()
        assert seen is not None
        assert seen.sign.moment != 0, "who led before has nothing to give up"


async def news_come_at_once(server: ApiServer) -> None:
    """Of a new leader, also of the first one, and after the API server was away."""
    options = server.options()
    async with register(options) as writes, register(options) as reads:
        epoch = await told_of_a_claim(reads, writes, 0)
        epoch = await told_of_a_claim(reads, writes, epoch)
        server.kill()
        server.start()
        await told_of_a_claim(reads, writes, epoch)


async def told_of_a_claim(reads: LeaderRegister, writes: LeaderRegister, after: int) -> int:
    """Looks at intervals would come too late."""
    claimed: int | None = None
    async with asyncio.timeout(TOLD_S):
        while claimed is None:
            with contextlib.suppress(OSError):  # it is being started
                claimed = await writes.claim(record("it"), after)
        while (found := await reads.newest()) is None or found.epoch != claimed:
            await reads.changed(1_000)
    return claimed


async def what_was_deleted_is_made_again(options: dict[str, str]) -> None:
    """A Lease by the leader; without the ConfigMap nobody leads, and the next epoch is a later one."""
    name = f"firesteel-{options['high-availability.cluster-id']}"
    async with register(options) as one, register(options) as other:
        epoch = await one.claim(record("one"), 0)
        assert epoch is not None
        assert await one.touch(epoch)
        await delete(one, "apis/coordination.k8s.io/v1/leases", name)
        assert await one.touch(epoch)
        found = await other.newest()
        assert found is not None
        assert found.sign.moment > 1
        await delete(one, "api/v1/configmaps", name)
        assert await other.newest() is None
        assert not await one.touch(epoch)
        await asyncio.sleep(1)
        later = await other.claim(record("other"), 0)
        assert later is not None
        assert later > epoch


async def delete(of: LeaderRegister, kind: str, name: str) -> None:
    api = of._api  # type: ignore[attr-defined]
    await api._ask("DELETE", f"{api._path(kind)}/{name}")


@contextlib.asynccontextmanager
async def contender(options: dict[str, str], name: str) -> AsyncIterator[tuple[RegisterElection, Service]]:
    times = election_times(Configuration({"high-availability.type": "kubernetes", **options}))
    async with register(options) as made, contending(made, name, **asdict(times)) as it:
        yield it


def times(*, lease: str, deadline: str, retry: str = "100 ms") -> dict[str, str]:
    return {
        f"{ELECTION}.lease-duration": lease,
        f"{ELECTION}.renew-deadline": deadline,
        f"{ELECTION}.retry-period": retry,
    }


async def a_leader_cut_off_from_the_api_server(server: ApiServer) -> None:
    """It stops at its deadline, while its successor leads after the lease; mended, it stands by."""
    options = {**server.options(), **times(lease="8 s", deadline="3 s")}
    async with wire(server.port) as cable:
        far = {**options, CONFIG_FILE: str(server.kubeconfig(port=cable.port))}
        async with contender(far, "a") as (election, a):
            await until_it_leads(a)
            async with contender(options, "b") as (_, b):
                await asyncio.sleep(0.5)
                assert b.tokens == []
                cable.cut()
                await until_it_leads(a, False)
                assert b.tokens == [], "the deadline is before the end of the lease"
                await until_it_leads(b)
                cable.mend()

                async def knows() -> bool:
                    return election.leader is not None and election.leader.record.name == "b"

                await until(knows)
                assert (a.leads, b.leads) == (False, True)
                assert a.tokens < b.tokens


async def frozen_is_not_lost(server: ApiServer) -> None:
    """Who leads goes on, is certain of nothing meanwhile, and nobody else leads afterwards."""
    options = {**server.options(), **times(lease="300 s", deadline="300 s")}
    async with contender(options, "a") as (election, a):
        await until_it_leads(a)
        async with contender(options, "b") as (_, b):
            server.signal(signal.SIGSTOP)

            async def is_uncertain() -> bool:
                return not election.certain.is_set()

            await until(is_uncertain)
            assert a.leads
            server.signal(signal.SIGCONT)
            async with asyncio.timeout(LIMIT_S):
                await election.certain.wait()
            assert election.leads
            assert (len(a.tokens), b.tokens) == (1, [])


async def masters_while_the_api_server_is_frozen_and_restarted(server: ApiServer, directory: Path) -> None:
    """A job runs all the while. Each of the masters leads once; what is submitted meanwhile runs once."""
    options = {**server.options(), **times(lease="60 s", deadline="60 s")}
    async with site(directory, **options) as it, asyncio.TaskGroup() as group:
        first, second = await it.start_master("first"), await it.start_master("second")
        await it.start_worker(first)
        config = Configuration({**it.options, "rest.address": "high-availability", "client.timeout": "200 s"})
        async with http_client(config) as finding:
            it.hold("lines")
            running = await first.client.submit_job(graph("lines => result", "running"), {})
            await it.until_attempts("lines")
            epoch = (await leader(first))["epoch"]
            assert (await finding.request_job(running)).status is JobStatus.RUNNING
            following = group.create_task(finding.request_job_result(running))

            server.signal(signal.SIGSTOP)
            begun_s = time.monotonic()
            frozen = group.create_task(first.client.submit_job(graph("frozen", "frozen"), {}))
            await asyncio.sleep(FREEZE_S)
            assert (await leader(first))["leads"]
            server.signal(signal.SIGCONT)
            assert (await second.client.request_job_result(await frozen)).status is JobStatus.FINISHED
            print(f"away for {FREEZE_S:g} s, the next job had ended {time.monotonic() - begun_s:.1f} s after its start")

            server.kill()
            await first.until_logged("the register of the leader can't be used")
            assert not (await leader(second)).get("leads")
            server.start()
            assert (await second.run(graph("after", "after"))).status is JobStatus.FINISHED
            assert (await leader(first))["epoch"] == epoch, "nobody else has led"

            await first.kill()
            await second.until_it_leads()
            assert (await leader(second))["epoch"] > epoch
            await second.until_status(running, JobStatus.RUNNING)
            it.release("lines")
            result = await second.client.request_job_result(running)
            assert (result.status, result.restarts) == (JobStatus.FINISHED, 0)
            assert await following == result, "a client that asks Kubernetes finds each leader"
            assert sorted(it.attempts()) == ["after", "frozen", "lines", "result"], "an attempt ran twice"
