"""The stream of a cluster's events: what it tells, to whom, and how one goes on after a break."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from firesteel.core.effects import DISPATCHER
from firesteel.rest import broadcast, eventbuffer
from firesteel.rest.eventbuffer import EventBuffer, event
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import graph, rest_cluster
from tests.rest.conftest import Do

LINES, OTHER = graph("lines*2 => counts -> result", "lines"), graph("other", "other")
LIMIT_S = 300


@dataclass
class Told:
    id: str
    kind: str
    data: Any


@contextlib.asynccontextmanager
async def following(http: httpx.AsyncClient, query: str = "", last_id: str = "") -> AsyncIterator[AsyncIterator[Told]]:
    """The events of the stream, to its end."""
    headers = {"Last-Event-ID": last_id} if last_id else {}
    async with asyncio.timeout(LIMIT_S), http.stream("GET", f"/v1/events{query}", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        async with contextlib.aclosing(told(answer)) as events:
            yield events


async def told(answer: httpx.Response) -> AsyncGenerator[Told, None]:
    known: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            continue
        if not line:
            if "event" in known:
                yield Told(known.get("id", ""), known["event"], json.loads(known["data"]))
            known = {}
        else:
            name, _, value = line.partition(": ")
            known[name] = value


async def until(events: AsyncIterator[Told], kind: str, /, **fields: Any) -> Told:
    async for each in events:
        if each.kind == kind and all(each.data.get(name) == value for name, value in fields.items()):
            return each
    raise AssertionError(f"the stream ended without {kind} {fields}")


async def first_of_each(events: AsyncIterator[Told], **wanted: Callable[[Told], bool]) -> dict[str, Told]:
    """Whichever of them comes first: what is told of jobs, of workers and of the line is looked at one after another."""
    found: dict[str, Told] = {}
    while found.keys() != wanted.keys():
        each = await anext(events)
        found |= {name: each for name, holds in wanted.items() if name not in found and holds(each)}
    return found


def workers(**fields: Any) -> Callable[[Told], bool]:
    """Whether an event tells this of the workers."""
    return lambda each: each.kind == "workers" and all(each.data.get(name) == value for name, value in fields.items())


def is_in_state(state: str) -> Callable[[Told], bool]:
    return lambda each: each.kind == "job" and each.data["state"] == state


def test_a_job_is_told_from_its_start_to_its_end(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest, following(rest.http) as events:
            assert (await anext(events)).kind == "leader"
            await rest.submit(LINES)
            found = await first_of_each(
                events,
                deployed=lambda each: each.kind == "attempts" and each.data["kind"] == "deployed",
                running=is_in_state("RUNNING"),
                slots=workers(**{"slots-available": 0}),
            )
            deployed = found["deployed"]
            assert (deployed.data["jid"], deployed.data["count"]) == (LINES.job_id, 2)
            worker = next(iter(rest.cluster.workers))
            assert deployed.data["attempts"] == [[0, 0, worker], [1, 0, worker]]
            (line,) = (await rest.get("/jobs/overview"))["jobs"]
            assert found["running"].data.keys() == line.keys()
            slots = found["slots"].data
            assert (slots["slots-total"], slots["slots-available"], slots["free"]) == (2, 0, {worker: 0})
            script.release("lines")
            found = await first_of_each(events, ended=is_in_state("FINISHED"), freed=workers(**{"slots-available": 2}))
            assert found["ended"].data["tasks"]["finished"] == 4
            assert found["freed"].data["joined"] == []

    do(story())


def test_workers_come_and_go_and_jobs_wait(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines", "other")
        async with rest_cluster(tmp_path, script=script) as rest, following(rest.http) as events:
            await rest.submit(LINES)
            await script.until_running("lines", 2)
            await rest.submit(OTHER)
            queue = (await until(events, "queue", waiting=1)).data
            assert queue["first"][0]["jid"] == OTHER.job_id
            assert queue["first"][0]["slots-missing"] == 1
            assert (await rest.get("/queue")) == queue
            joined = await rest.cluster.start_task_executor()
            came = workers(joined=[joined])
            found = await first_of_each(events, came=came, queue=lambda each: each.kind == "queue")
            assert found["came"].data["taskmanagers"] == 2
            assert found["queue"].data == {"waiting": 0, "first": []}
            await script.until_running("other")
            await rest.cluster.terminate_task_executor(joined)
            found = await first_of_each(
                events,
                failure=lambda each: (each.kind, each.data.get("kind")) == ("attempts", "failure"),
                left=workers(left=[joined]),
            )
            failure = found["failure"].data
            assert failure["jid"] == OTHER.job_id
            assert failure["attempts"] == [[0, 0, joined]]
            assert f"{joined} is lost" in failure["text"]
            assert found["left"].data["taskmanagers"] == 1
            script.release("lines", "other")

    do(story())


def test_slots_of_many_workers(do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event names some of those that have changed; the next ones name the others, whichever they are."""
    monkeypatch.setattr(broadcast, "WORKERS_NAMED_MAX", 2)

    async def story() -> None:
        script.hold("all")
        one_each = rest_cluster(tmp_path, script=script, workers=5, options={"taskmanager.numberOfTaskSlots": "1"})
        async with one_each as rest, following(rest.http) as events:
            await anext(events)
            await rest.submit(graph("all*5", "all"))
            taken: dict[str, int] = {}
            while taken != dict.fromkeys(rest.cluster.workers, 0):
                free = (await until(events, "workers")).data["free"]
                assert 1 <= len(free) <= 2
                taken |= free
            script.release("all")

    do(story())


def test_who_comes_back_goes_on_where_he_was(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            async with following(rest.http) as events:
                await rest.submit(LINES)
                seen = await until(events, "job", state="FINISHED")
            await rest.submit(OTHER)
            await rest.finish(OTHER.job_id)
            async with following(rest.http, last_id=seen.id) as events:
                assert (await anext(events)).kind == "leader"
                found = [await anext(events)]
                while (
                    found[-1].kind != "job"
                    or found[-1].data["state"] != "FINISHED"
                    or found[-1].data["jid"] != OTHER.job_id
                ):
                    found.append(await anext(events))
                assert "resync" not in {each.kind for each in found}
            for unknown in ("nonsense", "0123456789ab-1", f"{seen.id}0000000"):
                async with following(rest.http, last_id=unknown) as events:
                    assert [(await anext(events)).kind, (await anext(events)).kind] == ["leader", "resync"]

    do(story())


def test_events_of_one_job(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(LINES)
            async with following(rest.http, f"?job={LINES.job_id}") as events:
                await rest.submit(OTHER)
                script.release("lines")
                found = [await anext(events)]
                while found[-1].kind != "job" or found[-1].data["state"] != "FINISHED":
                    found.append(await anext(events))
                assert {each.data["jid"] for each in found if each.kind != "leader"} == {LINES.job_id}
            assert (await rest.http.get("/events?job=nonsense")).status_code == 400
            assert (await rest.http.get(f"/events?job={'0' * 32}")).status_code == 404

    do(story())


def test_the_stream_ends_with_its_leader(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            async with following(rest.http) as events:
                await rest.submit(OTHER)
                seen = await until(events, "job", state="FINISHED")
                rest.cluster.revoke_leadership(DISPATCHER)
                assert [each.kind async for each in events if each.kind not in ("job", "attempts", "workers")] == []
            assert (await rest.http.get("/events")).status_code == 503
            rest.cluster.grant_leadership(DISPATCHER)
            while (await rest.http.get("/jobs")).status_code == 503:
                await asyncio.sleep(0.01)
            async with following(rest.http, last_id=seen.id) as events:
                assert [(await anext(events)).kind, (await anext(events)).kind] == ["leader", "resync"]

    do(story())


def test_who_is_outrun_reads_anew(do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventbuffer, "EVENTS_MAX", 4)

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            async with following(rest.http) as events:
                first = await anext(events)
                for number in range(3):
                    await rest.submit(graph("lines => counts => result", f"job {number}"))
                await rest.submit(OTHER)
                await rest.finish(OTHER.job_id)
                async for each in events:
                    if each.kind == "resync" or (each.kind == "job" and each.data["jid"] == OTHER.job_id):
                        break
            async with following(rest.http, last_id=first.id) as events:
                assert [(await anext(events)).kind, (await anext(events)).kind] == ["leader", "resync"]

    do(story())


def test_the_endpoint_stops_with_streams_open(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest, following(rest.http) as events:
            assert (await anext(events)).kind == "leader"
            async with asyncio.timeout(LIMIT_S):
                await rest.server.stop()
            assert [each.kind async for each in events] == []

    do(story())


def test_nothing_is_watched_while_nobody_reads(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            changes = rest.cluster.dispatcher().changes
            assert changes._watches == []
            async with following(rest.http) as one, following(rest.http) as other:
                assert [(await anext(one)).kind, (await anext(other)).kind] == ["leader", "leader"]
                assert len(changes._watches) == 1

    do(story())


def test_a_buffer() -> None:
    """Batches of whole events, each made once for all who are at the same place."""
    buffer = EventBuffer()
    assert buffer.batch(0, None) == (b"", 0)
    big = b"x" * (eventbuffer.BATCH_BYTES_MAX // 2 + 1)
    for _ in range(3):
        buffer.add("job", big)
    first, number = buffer.batch(0, None)
    assert (number, first.count(b"event: job")) == (2, 2)
    assert buffer.batch(0, None)[0] is first
    assert buffer.batch(number, None) == (b"id: %s-3\n%s" % (buffer.name.encode(), event("job", big)), 3)
    assert (buffer.place(f"{buffer.name}-3"), buffer.place(f"{buffer.name}-4"), buffer.place("")) == (3, None, None)


def test_a_buffer_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventbuffer, "EVENTS_BYTES_MAX", 1_000)
    buffer = EventBuffer()
    for _ in range(20):
        buffer.add("job", b"x" * 200)
    kept = [number for number in range(21) if not buffer.has_outrun(number)]
    assert kept == [16, 17, 18, 19, 20], "who knows one of these can go on"
    assert sum(len(each[2]) for each in buffer._events) == buffer._size_bytes <= 1_000
    buffer.add("job", b"x" * 2_000)
    assert [each[0] for each in buffer._events] == [21]
    assert buffer.batch(20, None)[1] == 21
