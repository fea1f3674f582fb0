"""The client that programs use, against an endpoint that answers, changes hands, goes away."""

import asyncio
import hashlib
from pathlib import Path

import msgspec
import pytest

from firesteel.assembly.client import MasterClient
from firesteel.client.heartbeats import Attachment
from firesteel.client.http import HttpClusterClient
from firesteel.client.transport import ClusterUnreachable, Refused, RequestFailed, urls
from firesteel.core.effects import DISPATCHER
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph, JobType
from firesteel.model.states import JobStatus
from firesteel.model.views import JobSummary
from firesteel.runtime.client import DuplicateJob, UnknownJob, UnknownResult
from firesteel.testing.backend import TaskScript
from tests.client.conftest import question
from tests.rest.cluster import artifact, graph, rest_cluster

CODE = b"PK" * 100_000
HELD = graph("lines*2 => counts", "held", artifacts=(artifact(CODE),))
SHA256 = hashlib.sha256(CODE).hexdigest()
NOBODY = "http://127.0.0.1:9"
"""Where nobody listens."""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "code.zip"
    path.write_bytes(CODE)
    return path


def test_a_job_through_its_life(tmp_path: Path, script: TaskScript, code: Path) -> None:
    """The second address answers; from then on it is asked first."""

    async def story() -> None:
        script.hold("lines")
        async with (
            rest_cluster(tmp_path, script=script) as rest,
            HttpClusterClient([NOBODY, rest.server.address]) as client,
        ):
            assert await client.submit_job(HELD, {SHA256: code}) == HELD.job_id
            assert await client.submit_job(HELD, {SHA256: code}) == HELD.job_id
            await script.until_running("lines", 2)
            printed = rest.cluster.blobs.outputs
            reading = asyncio.ensure_future(client.read_output(HELD.job_id, "stderr", attempt=1, wait_s=60.0))
            await printed.append(HELD.job_id, "1.stderr", 0, b"a warning\n")
            assert await reading == b"a warning\n"
            assert await client.read_output(HELD.job_id, "stderr", attempt=1, offset=2) == b"warning\n"
            assert await client.request_job(HELD.job_id) == await rest.cluster.client.request_job(HELD.job_id)
            async with asyncio.TaskGroup() as group:
                result = group.create_task(client.request_job_result(HELD.job_id))
                views = group.create_task(views_of(client, HELD.job_id))
                while not views.done() and not await is_seen(client, HELD.job_id):
                    await asyncio.sleep(0.01)
                script.release("lines")
            assert result.result() == await rest.cluster.client.request_job_result(HELD.job_id)
            assert views.result()[-1] is JobStatus.FINISHED
            (line,) = await client.list_jobs()
            assert (line.job_id, line.status, line.name) == (HELD.job_id, JobStatus.FINISHED, "held")
            while (overview := await client.request_cluster_overview()).slots_free < overview.slots_total:
                await asyncio.sleep(0.01)  # slots are free a moment after the end of their job
            assert overview == await rest.cluster.client.request_cluster_overview()

    asyncio.run(story())


def test_jobs_that_end_with_their_client(
    tmp_path: Path, script: TaskScript, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a job goes on while any client shows that it follows it, also under another leader; then it is cancelled."""
    beats: list[JobID] = []
    report = MasterClient.report_client_heartbeat

    async def reported(self: MasterClient, job_id: JobID) -> None:
        await report(self, job_id)
        beats.append(job_id)

    async def beaten(times: int) -> None:
        known = len(beats)
        while len(beats) < known + times:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(MasterClient, "report_client_heartbeat", reported)
    alone = graph("lines => counts", "alone", artifacts=(artifact(CODE),))
    attachment = Attachment(timeout_ms=4_000, interval_ms=50)

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            address = [rest.server.address]
            async with HttpClusterClient(address, attachment=Attachment(interval_ms=50)) as follower:
                async with HttpClusterClient(address, attachment=attachment) as client:
                    await client.submit_job(HELD, {SHA256: code})
                    await follower.submit_job(alone, {SHA256: code})
                    await beaten(2)
                    await anext(follower.follow_job(HELD.job_id))
                rest.cluster.revoke_leadership(DISPATCHER)
                rest.cluster.grant_leadership(DISPATCHER)
                await beaten(3)
                assert (await follower.request_job(HELD.job_id)).status is not JobStatus.CANCELLING
            assert dict.fromkeys(beats) == {HELD.job_id: None}
            async with HttpClusterClient(address) as late:
                result = await late.request_job_result(HELD.job_id)
                assert (result.status, result.failure is None) == (JobStatus.CANCELED, False)
                found = {job.job_id: job for job in await late.list_job_summaries()}
            assert "its client is gone: nothing was heard of it for 4 s" in found[HELD.job_id].reason
            assert not found[alone.job_id].status.is_globally_terminal
            (entry,) = (await rest.get(f"/jobs/{HELD.job_id}/exceptions"))["exceptionHistory"]["entries"]
            assert "its client is gone" in entry["stacktrace"]

    asyncio.run(story())


def test_a_line_of_the_list_is_what_the_master_says(
    tmp_path: Path, script: TaskScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = JobSummary(
        job_id=JobID("a" * 32),
        name="clicks",
        status=JobStatus.CANCELED,
        job_type=JobType.STREAMING,
        owner="sam",
        start_time_ms=1,
        end_time_ms=3,
        modified_ms=2,
        reason="nobody wants it",
        tasks={"CANCELED": 2},
        cluster="east",
        branch_of=JobID("b" * 32),
    )

    async def listed(master: MasterClient) -> list[JobSummary]:
        return [line]

    monkeypatch.setattr(MasterClient, "list_job_summaries", listed)

    async def story() -> None:
        async with (
            rest_cluster(tmp_path, script=script) as rest,
            HttpClusterClient([rest.server.address]) as client,
        ):
            assert await client.list_job_summaries() == [line]
            assert [view.job_type for view in await client.list_jobs()] == [JobType.STREAMING]

    asyncio.run(story())


async def is_seen(client: HttpClusterClient, job_id: JobID) -> bool:
    return (await client.request_job(job_id)).status is JobStatus.RUNNING


async def views_of(client: HttpClusterClient, job_id: JobID) -> list[JobStatus]:
    return [view.status async for view in client.follow_job(job_id)]


def test_what_is_refused(tmp_path: Path, script: TaskScript, code: Path) -> None:
    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text("users: [{name: vera, roles: [view], token: v}, {name: sam, roles: [submit], token: s}]")
        async with rest_cluster(tmp_path, script=script, options={"rest.users-file": str(users)}) as rest:
            address = [rest.server.address]
            async with HttpClusterClient(address) as nobody, HttpClusterClient(address, token="v") as vera:
                with pytest.raises(Refused, match="who you are"):
                    await nobody.list_jobs()
                with pytest.raises(Refused, match="role submit"):
                    await vera.submit_job(HELD, {SHA256: code})
                for odd in ("ü", "a b", "a#b", "a%20b"):
                    with pytest.raises(InvalidJobGraph, match=f"from value '{odd.replace('%20', ' ')}'"):
                        await vera.request_job(JobID(odd))
                for ask in (vera.request_job, vera.request_job_result, vera.cancel_job, lambda id: views_of(vera, id)):
                    with pytest.raises(UnknownJob):
                        await ask(HELD.job_id)
            async with HttpClusterClient(address, token="s") as sam:
                with pytest.raises(InvalidJobGraph, match="SHA-256"):
                    await sam.submit_job(
                        msgspec.structs.replace(HELD, artifacts=(artifact(b"x"),)),
                        {hashlib.sha256(b"x").hexdigest(): code},
                    )
                await sam.submit_job(HELD, {SHA256: code})
                await sam.request_job_result(HELD.job_id)
                with pytest.raises(DuplicateJob, match="has ended"):
                    await sam.submit_job(HELD, {SHA256: code})

    asyncio.run(story())


def test_nobody_answers() -> None:
    """An address that never answered is given up at once."""

    async def story() -> None:
        async with HttpClusterClient([NOBODY], patience_s=600) as client:
            with pytest.raises(ClusterUnreachable, match=r"nobody answers at http://127\.0\.0\.1:9"):
                await client.list_jobs()

    asyncio.run(story())


def test_a_change_of_leaders(tmp_path: Path, script: TaskScript, code: Path) -> None:
    """Who waits and who follows goes on when another one leads; when none does for long, that is said."""

    async def story() -> None:
        script.hold("lines")
        async with (
            rest_cluster(tmp_path, script=script) as rest,
            HttpClusterClient([rest.server.address], patience_s=0.3) as hasty,
            HttpClusterClient([rest.server.address]) as client,
        ):
            async with asyncio.TaskGroup() as group:
                await client.submit_job(HELD, {SHA256: code})
                await script.until_running("lines", 2)
                result = group.create_task(client.request_job_result(HELD.job_id))
                views = group.create_task(views_of(client, HELD.job_id))
                await hasty.list_jobs()
                rest.cluster.revoke_leadership(DISPATCHER)
                with pytest.raises(ClusterUnreachable, match="no master leads"):
                    await asked_for_ever(hasty)
                rest.cluster.grant_leadership(DISPATCHER)
                await client.list_jobs()
                script.release("lines")
            assert result.result().status is JobStatus.FINISHED
            assert views.result()[-1] is JobStatus.FINISHED

    asyncio.run(story())


def test_a_submission_whose_answer_was_lost(tmp_path: Path, code: Path) -> None:
    """The master that took it dies before it answers; asked again, the next one says that the job has ended already."""

    async def story() -> None:
        taken: list[JobID] = []
        async with rest_cluster(tmp_path) as rest, HttpClusterClient([rest.server.address]) as client:

            async def take_and_die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    asked = await question(reader)
                except ConnectionError:
                    writer.close()
                    return
                if asked.startswith(b"GET"):
                    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{"jobs":[]}')
                    writer.close()
                    return
                taken.append(await client.submit_job(HELD, {SHA256: code}))
                await client.request_job_result(HELD.job_id)
                writer.transport.abort()

            async with await asyncio.start_server(take_and_die, "127.0.0.1", 0) as dying:
                port = dying.sockets[0].getsockname()[1]
                both = [f"http://127.0.0.1:{port}", rest.server.address]
                async with HttpClusterClient(both) as follower:
                    assert await follower.list_job_summaries() == []  # from then on the first is asked first
                    assert await follower.submit_job(HELD, {SHA256: code}) == HELD.job_id
            assert taken == [HELD.job_id]
            with pytest.raises(DuplicateJob, match="has ended"):
                await client.submit_job(HELD, {SHA256: code})

    asyncio.run(story())


def test_an_answer_that_is_no_masters_is_an_error() -> None:
    """Of a proxy that wants us to go elsewhere."""

    async def moved(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 301 Moved Permanently\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def story() -> None:
        async with await asyncio.start_server(moved, "127.0.0.1", 0) as proxy:
            address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            async with HttpClusterClient([address]) as client:
                for ask in (client.list_jobs, lambda: views_of(client, HELD.job_id)):
                    with pytest.raises(RequestFailed, match="HTTP 301 Moved Permanently"):
                        await ask()

    asyncio.run(story())


async def asked_for_ever(client: HttpClusterClient) -> None:
    while True:
        await client.list_jobs()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host", ["http://host:8081"]),
        ("a:1, b:2", ["http://a:1", "http://b:2"]),
        ("https://a", ["https://a"]),
        ("https://a:8443/spark/", ["https://a:8443/spark"]),
        ("[::1]:8081", ["http://[::1]:8081"]),
        ("bücher.example", ["http://xn--bcher-kva.example:8081"]),
    ],
)
def test_addresses(text: str, expected: list[str]) -> None:
    assert urls(text) == expected


@pytest.mark.parametrize("text", ["", " , ", "ftp://a", "a:b", "http://", "a b", "a:99999", "http://a..b"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        urls(text)


def test_returned_rows_are_fetched(tmp_path: Path, script: TaskScript, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 1_000

    async def fetch(self: MasterClient, job_id: JobID, function: str = "") -> bytes:
        if (job_id, function) != (HELD.job_id, "top & down"):
            raise UnknownResult(f"job {job_id} has returned no rows of {function!r}")
        return content

    monkeypatch.setattr(MasterClient, "fetch_result", fetch)

    async def story() -> None:
        async with (
            rest_cluster(tmp_path, script=script) as rest,
            HttpClusterClient([rest.server.address]) as client,
        ):
            plain = msgspec.structs.replace(HELD, artifacts=())
            await client.submit_job(plain, {})
            assert await client.fetch_result(HELD.job_id, "top & down") == content
            with pytest.raises(UnknownResult, match="no rows of 'up'"):
                await client.fetch_result(HELD.job_id, "up")

    asyncio.run(story())
