"""Jobs while leaders change, workers come and go, attempts and stores fail: seeded, in virtual time."""

import asyncio
import contextlib
import random

import pytest

from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.refusals import CancelRefused
from firesteel.model.states import JobStatus
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import FIXED_DELAY, finish, graph, mini_cluster
from tests.runtime.conftest import Do
from tests.runtime.stores import FailingStore

SHAPES = ("a*2 => b*2 -> c*2", "a => b => c", "a*3 |> b*3", "a*2", "a => b; a => c; b => d; c => d")
OPTIONS = {**FIXED_DELAY, "restart-strategy.fixed-delay.attempts": "1000", "slot.idle.timeout": "2 s"}


class Chaos:
    """Disturbs a cluster as a seed says."""

    def __init__(self, seed: int, cluster: MiniCluster, script: TaskScript, store: FailingStore) -> None:
        self.chance = random.Random(seed)
        self.cluster, self.script, self.store = cluster, script, store
        self.ids: list[JobID] = []
        self.cancelled: set[JobID] = set()

    async def run(self) -> None:
        deeds = (
            self.submit,
            self.submit,
            self.change_leader,
            self.change_leader,
            self.change_worker,
            self.fail_task,
            self.fail_store,
            self.cancel,
        )
        for _ in range(40):
            await self.chance.choice(deeds)()
            await asyncio.sleep(self.chance.choice((0, 0, 0.001, 0.02, 0.5, 3)))

    async def submit(self) -> None:
        if len(self.ids) < 12:
            name = f"job{len(self.ids)}"
            self.ids.append(await self.cluster.client.submit_job(graph(self.chance.choice(SHAPES), name), {}))

    async def change_leader(self) -> None:
        components = [DISPATCHER, RESOURCE_MANAGER, *self.ids]
        component = self.chance.choice(components)
        with contextlib.suppress(LookupError):
            self.cluster.revoke_leadership(component)
            await asyncio.sleep(self.chance.choice((0, 0, 0.01, 1)))
            self.cluster.grant_leadership(component)

    async def change_worker(self) -> None:
        if len(self.cluster.workers) > 1 and self.chance.random() < 0.6:
            await self.cluster.terminate_task_executor(self.chance.choice(list(self.cluster.workers)))
        elif len(self.cluster.workers) < 4:
            await self.cluster.start_task_executor()

    async def fail_task(self) -> None:
        self.script.fail(self.chance.choice("abcd"), times=self.chance.randint(1, 3))

    async def fail_store(self) -> None:
        self.store.operation = self.chance.choice(("load", "append", "claim_journal", "put_result", "clean_up"))
        self.store.left, self.store.durable = self.chance.randint(1, 3), self.chance.random() < 0.5

    async def cancel(self) -> None:
        if self.ids and self.chance.random() < 0.4:
            job_id = self.chance.choice(self.ids)
            self.cancelled.add(job_id)
            with contextlib.suppress(CancelRefused):  # it commits
                await self.cluster.client.cancel_job(job_id)


@pytest.mark.parametrize("seed", range(20))
def test_every_job_ends_right(do: Do, script: TaskScript, seed: int) -> None:
    async def story() -> None:
        pace = random.Random(seed)
        script.pause_s = lambda: pace.choice((0.0, 0.001, 0.1, 2.0))
        store = FailingStore("", 0)
        async with mini_cluster(script, workers=2, store=store, options=OPTIONS) as cluster:
            chaos = Chaos(seed, cluster, script, store)
            await chaos.run()
            for job_id in chaos.ids:
                result = await finish(cluster, job_id)
                allowed = {JobStatus.FINISHED} | ({JobStatus.CANCELED} if job_id in chaos.cancelled else set())
                assert result.status in allowed, result
                visible = {name: done for name, done in script.visible.items() if name.startswith(job_id)}
                assert len(result.sinks) == sum(len(done) for done in visible.values())
                view = await cluster.client.request_job(job_id)
                assert view.status is result.status
            await asyncio.sleep(120)
            overview = await cluster.client.request_cluster_overview()
            assert overview.slots_free == overview.slots_total == 2 * len(cluster.workers)
            for worker in cluster.workers.values():
                worker.endpoint.core.validate()
                assert worker.endpoint.core.jobs == {}

    do(story())
