"""Clients that ask a master which does not lead, and go on following while leaders change."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx

from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from tests.durable.masters import Master, Site, site
from tests.rest.cluster import graph

LIMIT_S = 300.0


async def get(master: Master, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{master.options['rest.port']}", timeout=LIMIT_S) as http:
        return await http.get(path)


async def leader(master: Master) -> dict[str, Any]:
    answer = (await get(master, "/v1/cluster/leader")).json()
    assert isinstance(answer, dict)
    return answer


async def followed(client: HttpClusterClient, job_id: JobID) -> list[JobStatus]:
    return [view.status async for view in client.follow_job(job_id)]


async def start_two(it: Site) -> tuple[Master, Master]:
    """The first one leads, and the second one knows it."""
    first, second = await it.start_master("first"), await it.start_master("second")
    await first.until_it_leads()
    await second.until_it_leads()
    return first, second


def test_a_standby_hands_on_and_clients_follow_through_a_hand_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as it, asyncio.TaskGroup() as group:
            first, second = await start_two(it)
            await it.start_worker(first)
            seen = await leader(second)
            assert seen.pop("leads") is False
            assert (await leader(first)) == {"leads": True, **seen}
            assert seen["rest-address"] == f"http://127.0.0.1:{first.options['rest.port']}"
            async with asyncio.timeout(LIMIT_S):
                masters = (await get(second, "/v1/cluster/masters")).json()
                while not masters["standbys"]:  # its connection is made when it knows the leader
                    masters = (await get(second, "/v1/cluster/masters")).json()
            assert masters["leader"] == {"leads": True, **seen}
            assert [each["name"].partition(" ")[0] for each in masters["standbys"]] == ["jobmanager"]
            it.hold("lines")
            running = await second.client.submit_job(graph("lines => result", "running"), {})
            await it.until_attempts("lines")
            assert (await first.client.request_job(running)).status is JobStatus.RUNNING
            assert (await get(second, f"/jobs/{running}?x=%2F")).json()["jid"] == running
            assert (await get(second, "/v1/jobs/" + "0" * 32)).status_code == 404
            assert (await get(second, "/openapi.json")).status_code == 200
            addresses = [f"http://127.0.0.1:{master.options['rest.port']}" for master in (first, second)]
            many = HttpClusterClient(addresses)
            following = [group.create_task(followed(each, running)) for each in (many, second.client)]
            waiting = group.create_task(many.request_job_result(running))
            stopping = group.create_task(first.stop())
            async with asyncio.timeout(LIMIT_S):
                while (await leader(second))["leads"] is False:
                    await asyncio.sleep(0.01)
            await second.until_it_leads()
            await stopping
            assert (await leader(second))["epoch"] > seen["epoch"]
            await second.until_status(running, JobStatus.RUNNING)
            it.release("lines")
            assert [(await each)[-1] for each in following] == [JobStatus.FINISHED] * 2
            result = await waiting
            assert (result.status, result.restarts) == (JobStatus.FINISHED, 0)
            assert it.attempts() == ["lines", "result"]
            await many.close()

    asyncio.run(story())


def test_nobody_leads(tmp_path: Path) -> None:
    """A standby says when to ask again, and answers for itself."""

    async def story() -> None:
        async with site(tmp_path) as it:
            first, second = await start_two(it)
            first.signal(signal.SIGSTOP)
            stuck = asyncio.get_running_loop().create_task(get(second, "/v1/overview"))
            assert (await leader(second))["leads"] is False
            await asyncio.wait([stuck], timeout=0.5)
            assert not stuck.done(), "the leader is frozen"
            await first.kill()
            answer = await stuck
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            await second.until_it_leads()

    asyncio.run(story())


def test_what_waits_for_a_leader_that_does_not_move(tmp_path: Path) -> None:
    """Once another master leads, questions are put to that one, and whoever wants something done is told to ask again."""

    async def story() -> None:
        # What is asked has to reach the second and the third before the lease of the first is over.
        async with site(tmp_path, **{"high-availability.leader-election.lease-duration": "10 s"}) as it:
            first, second = await start_two(it)
            third = await it.start_master("third")
            await third.until_it_leads()
            await it.start_worker(first)
            it.hold("lines")
            running = await first.client.submit_job(graph("lines => result", "running"), {})
            await it.until_attempts("lines")
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
                listening = [asyncio.Event() for _ in (second, third)]
                for each, begun in zip((second, third), listening, strict=True):
                    group.create_task(streamed(each, running, begun))
                for begun in listening:
                    await begun.wait()
                first.signal(signal.SIGSTOP)
                questions = [group.create_task(overview_asked_with_a_body(each)) for each in (second, third)]
                orders = [group.create_task(cancelled(each, running)) for each in (second, third)]
            for question, order in zip(questions, orders, strict=True):
                assert question.result().status_code in (200, 503), "of the one that leads now, which may not be up yet"
                assert (order.result().status_code, order.result().headers["retry-after"]) == (503, "1")
            leads = [each for each in (second, third) if (await leader(each))["leads"]]
            assert len(leads) == 1
            await leads[0].until_status(running, JobStatus.RUNNING)
            it.release("lines")
            assert (await second.client.request_job_result(running)).status is JobStatus.FINISHED
            first.signal(signal.SIGCONT)

    asyncio.run(story())


async def overview_asked_with_a_body(master: Master) -> httpx.Response:
    """As some clients do; it has to be there for the second leader, too."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{master.options['rest.port']}", timeout=LIMIT_S) as http:
        return await http.request("GET", "/v1/jobs/overview", content=b"{}")


async def cancelled(master: Master, job_id: JobID) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{master.options['rest.port']}", timeout=LIMIT_S) as http:
        return await http.patch(f"/v1/jobs/{job_id}", params={"mode": "cancel"})


async def streamed(master: Master, job_id: JobID, begun: asyncio.Event) -> None:
    """Until the stream of a job's events ends."""
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{master.options['rest.port']}", timeout=LIMIT_S) as http,
        http.stream("GET", f"/v1/jobs/{job_id}/events") as answer,
    ):
        async for _ in answer.aiter_bytes():
            begun.set()
