"""Submitting jobs: what is taken, and that of what is refused nothing is stored and nothing runs."""

import asyncio
import errno
import json
import pickle
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from firesteel.model.ids import JobID, JobVertexID, derived_id
from firesteel.model.jobgraph import JobGraph, JobType, encode_job_graph
from firesteel.model.resources import ResourceProfile
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import RestCluster, artifact, graph, job_id_of, rest_cluster, submission
from tests.rest.conftest import Do

CODE = b"PK" + bytes(range(256)) * 400
GOOD = graph("lines*2 => counts -> result", "good", artifacts=(artifact(CODE),))
PLAIN = graph("lines", "plain")


def test_a_job_with_artifacts(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """The same submission again is the same job; other content under its id, and any after its end, is refused."""

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            parts = submission(GOOD, {"code.zip": CODE})
            first = await rest.http.post("/v1/jobs", files=parts)
            assert first.status_code == 202, first.text
            assert job_id_of(first.json()) == GOOD.job_id
            again = await rest.http.post("/jobs", files=parts)
            assert (again.status_code, again.json()) == (202, first.json())
            assert (rest.cluster.work_dir / "blobs" / GOOD.artifacts[0].sha256).read_bytes() == CODE
            other = msgspec.structs.replace(GOOD, name="other")
            refused = await rest.http.post("/v1/jobs", files=submission(other, {"code.zip": CODE}))
            assert refused.status_code == 409
            assert "another job" in refused.json()["errors"][0]
            await script.until_running("lines", 2)
            script.release("lines")
            assert (await rest.finish(GOOD.job_id))["application-status"] == "SUCCEEDED"
            ended = await rest.http.post("/v1/jobs", files=parts)
            assert ended.status_code == 409
            assert "has ended already (FINISHED)" in ended.json()["errors"][0]
            assert len(script.of("lines")) == 2
            assert list((tmp_path / "rest" / "uploads").iterdir()) == []

    do(story())


def changed(plain: JobGraph = PLAIN, **fields: Any) -> list[Any]:
    return submission(msgspec.structs.replace(plain, **fields))


def altered(**fields: Any) -> list[Any]:
    """A graph whose first vertex differs."""
    first, *rest = PLAIN.vertices
    return changed(vertices=(msgspec.structs.replace(first, **fields), *rest))


def raw_graph(content: bytes) -> list[Any]:
    return [(name, part if name == "request" else ("graph.json", content)) for name, part in submission(PLAIN)]


def raw_request(content: str) -> list[Any]:
    return [("request", (None, content)), *submission(PLAIN)[1:]]


def as_builtins(**fields: Any) -> bytes:
    return json.dumps({**msgspec.to_builtins(PLAIN), **fields}).encode()


BAD: dict[str, tuple[list[Any], int, str]] = {
    "no graph": (raw_request('{"jobGraphFileName": "other.json"}'), 400, "were not uploaded: other.json"),
    "no request": (submission(PLAIN)[1:], 400, "'request'"),
    "request twice": ([*submission(PLAIN), submission(PLAIN)[0]], 400, "twice"),
    "request that is no JSON": (raw_request("{"), 400, "is not what it should be"),
    "request of wrong types": (raw_request('{"jobGraphFileName": 3}'), 400, "is not what it should be"),
    "a pickle for a graph": (raw_graph(pickle.dumps(PLAIN)), 400, "not a job graph"),
    "half a graph": (raw_graph(encode_job_graph(PLAIN)[:-9]), 400, "not a job graph"),
    "a graph of wrong types": (raw_graph(as_builtins(vertices=3)), 400, "not a job graph"),
    "a graph of another schema": (raw_graph(as_builtins(schema=99)), 400, "schema 99"),
    "deep JSON": (raw_graph(b"[" * 100_000), 400, "not a job graph"),
    "bytes that are no text": (raw_graph(b'{"schema": 1, "name": "\xff"}'), 400, "not a job graph"),
    "a job id that is a path": (changed(job_id=JobID("../../etc/passwd")), 400, "32 hex digits"),
    "a vertex id that is a path": (altered(id=JobVertexID("..")), 400, "32 hex digits"),
    "no vertices": (changed(vertices=()), 400, "no vertices"),
    "negative parallelism": (altered(parallelism=-1), 400, "parallelism -1"),
    "cores without memory": (altered(resources=ResourceProfile(1.0, 0)), 400, "only partially configured: beside cpu"),
    "a stream in shares": (
        changed(job_type=JobType.STREAMING, vertices=(msgspec.structs.replace(PLAIN.vertices[0], parallelism=2),)),
        400,
        "parallelism=2: a function of a streaming pipeline",
    ),
    "a number that is too large": (raw_graph(as_builtins(parameters={"seed": 1 << 70})), 400, "more than 64 bits"),
    "a name that moves the cursor": (changed(name="\x1b[2J"), 400, "can't be printed"),
    "a name that is a book": (changed(name="x" * 100_000), 400, "100000 characters"),
    "half a character": (raw_graph(b'{"schema": 1, "name": "\\ud800"}'), 400, "not a job graph"),
    "more subtasks than there are": (altered(parallelism=1 << 40), 400, "are possible"),
    "a vertex twice": (changed(vertices=PLAIN.vertices * 2), 400, "two vertex entries"),
    "an unknown option": (changed(configuration={"rest.prot": "1"}), 400, "rest.prot"),
    "an option of a wrong type": (changed(configuration={"restart-strategy.type": "x"}), 400, "restart-strategy.type"),
    "an artifact nobody uploaded": (submission(GOOD), 400, "No uploaded file has the SHA-256"),
    "an artifact of other content": (submission(GOOD, {"code.zip": b"evil"}), 400, "No uploaded file has the SHA-256"),
    "an artifact of another size": (
        submission(graph("v", "size", artifacts=(artifact(CODE, size_bytes=1),)), {"code.zip": CODE}),
        400,
        "and 1 by the job graph",
    ),
    "an artifact nobody knows": (submission(PLAIN, {"more.zip": b"x"}), 400, "knows nothing of these files: more.zip"),
    "a file that is not named": ([*submission(PLAIN), ("file_9", ("x", b"x"))], 400, "not named in the request: x"),
    "a file of a foreign name": ([*submission(PLAIN), ("file_9", ("ключ 🔑", b"x"))], 400, "in the request: ключ 🔑"),
    "a file twice": ([*submission(PLAIN), submission(PLAIN)[1]], 400, "comes twice"),
    "a job graph of Java objects": (raw_graph(b"\xac\xed\x00\x05sr"), 400, "a job of Java classes for Flink"),
    "jar files": (submission(PLAIN, jobJarFileNames=["job.jar"]), 400, "firesteel runs PySpark pipelines"),
    "a name named twice": (
        submission(PLAIN, {"a": b"x"}, jobArtifactFileNames=["a", "a"]),
        400,
        "named twice",
    ),
    **{
        f"a file called {name!r}": ([*submission(PLAIN), ("file_9", (name, b"x"))], 400, "no plain file name")
        for name in ("../x", "/etc/passwd", "a/b", "..", "x" * 300)
    },
    "too many files": (submission(PLAIN, {f"f{index}": b"" for index in range(256)}), 400, "at most 256 files"),
    "a request that is too large": (raw_request(" " * (2 << 20)), 413, "has more than"),
    "an upload that is too large": (submission(PLAIN, {"big": bytes(3 << 20)}), 413, "rest.server.max-content-length"),
}


def test_bad_input(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script, options={"rest.server.max-content-length": "2m"}) as rest:
            for name, (parts, status, words) in BAD.items():
                answer = await rest.http.post("/v1/jobs", files=parts)
                assert answer.status_code == status, (name, answer.text)
                (error,) = answer.json()["errors"]
                assert words in error, name
                await nothing_is_stored(rest, tmp_path, name)
            assert (await rest.http.post("/v1/jobs", json={})).status_code == 400
            no_end = {"content-type": "multipart/form-data; boundary=x"}
            for content in (b"", b"--x", b"--y\r\n", b'--x\r\ncontent-disposition: form-data; name="request"\r\n\r\n{'):
                answer = await rest.http.post("/v1/jobs", content=content, headers=no_end)
                assert answer.status_code == 400, content
            for kind in ("multipart/form-data", f"multipart/form-data; boundary={'x' * 71}"):
                answer = await rest.http.post("/v1/jobs", content=b"", headers={"content-type": kind})
                assert (answer.status_code, "boundary" in answer.text) == (400, True), answer.text
            await rest.submit(PLAIN)
            await rest.finish(PLAIN.job_id)

    do(story())
    assert [record.functions for record in script.attempts] == [("lines",)]


async def nothing_is_stored(rest: RestCluster, tmp_path: Path, name: str) -> None:
    assert (await rest.get("/jobs"))["jobs"] == [], name
    uploads = tmp_path / "rest" / "uploads"
    assert not uploads.exists() or list(uploads.iterdir()) == [], name
    assert list((rest.cluster.work_dir / "blobs").iterdir()) == [], name


def test_a_disk_that_is_full(do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What known jobs need is kept free; a disk that fills up in the middle is as clear."""

    async def refused(options: dict[str, str], words: str) -> None:
        async with rest_cluster(tmp_path, script=script, options=options) as rest:
            answer = await rest.http.post("/v1/jobs", files=submission(GOOD, {"code.zip": CODE}))
            assert answer.status_code == 507, answer.text
            assert words in answer.json()["errors"][0]
            assert "Nothing was submitted: free some space" in answer.json()["errors"][0]
            await nothing_is_stored(rest, tmp_path, words)
            assert (await rest.http.post("/v1/jobs", files=submission(PLAIN))).status_code == 202
            await rest.finish(PLAIN.job_id)

    do(refused({"blob.disk.min-free": "100000000t"}, "blob.disk.min-free keeps"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("firesteel.adapters.blob.local.os.fsync", full)
    do(refused({}, "the master's disk is full"))


def test_a_storage_that_does_not_answer(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as that, and not as a bug. It is not told as 503, either: that is asked again as something that may be done."""

    def silent(*_: object) -> None:
        raise OSError("the bucket does not answer")

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            with monkeypatch.context() as broken:
                broken.setattr("firesteel.adapters.blob.local.os.fsync", silent)
                answer = await rest.http.post("/v1/jobs", files=submission(GOOD, {"code.zip": CODE}))
                assert answer.status_code == 500
                assert "can't reach its files or storage (the bucket does not answer)" in answer.json()["errors"][0]
            assert (await rest.http.post("/v1/jobs", files=submission(GOOD, {"code.zip": CODE}))).status_code == 202
            await rest.finish(GOOD.job_id)

    do(story())


def test_of_a_job_that_no_queue_takes_nothing_is_stored(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script, options={"jobmanager.queues": "etl=2"}) as rest:
            lost = msgspec.structs.replace(GOOD, configuration={"job.queue": "nowhere"})
            answer = await rest.http.post("/v1/jobs", files=submission(lost, {"code.zip": CODE}))
            assert answer.status_code == 400, answer.text
            assert "nowhere" in answer.text
            await nothing_is_stored(rest, tmp_path, "nowhere")

    do(story())


@pytest.mark.parametrize("declares_length", [True, False])
def test_a_client_that_goes_in_the_middle(
    do: Do, script: TaskScript, tmp_path: Path, declares_length: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firesteel.rest.uploads.WRITE_BYTES", 1)

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            request = httpx.Request("POST", "http://x/v1/jobs", files=submission(GOOD, {"code.zip": CODE}))
            body = request.read()
            length = f"Content-Length: {len(body)}" if declares_length else "Transfer-Encoding: chunked"
            kind = request.headers["content-type"]
            _, writer = await asyncio.open_connection(*rest.server.host_port)
            half = body[: len(body) // 2]
            chunk = half if declares_length else b"%x\r\n%s\r\n" % (len(half), half)
            writer.write(
                f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{length}\r\n\r\n".encode()
                + chunk
            )
            await writer.drain()
            uploads = tmp_path / "rest" / "uploads"
            while not (uploads.exists() and list(uploads.iterdir())):
                await asyncio.sleep(0.01)
            writer.close()
            await writer.wait_closed()
            while list(uploads.iterdir()):
                await asyncio.sleep(0.01)
            await nothing_is_stored(rest, tmp_path, "half an upload")

    do(story())
    assert script.attempts == []


@pytest.mark.parametrize("write_bytes", [1, 1 << 20])
def test_files_on_disk_and_in_memory(
    do: Do, script: TaskScript, tmp_path: Path, write_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firesteel.rest.uploads.WRITE_BYTES", write_bytes)
    contents = {"empty": b"", "large": bytes(range(256)) * 10_000, "code.zip": CODE}
    job = graph("lines", "files", artifacts=tuple(artifact(content, name) for name, content in contents.items()))

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            answer = await rest.http.post("/jobs", files=submission(job, contents))
            assert answer.status_code == 202, answer.text
            for each in job.artifacts:
                stored = (rest.cluster.work_dir / "blobs" / each.sha256).read_bytes()
                assert stored == contents[each.name], each.name
            assert list((tmp_path / "rest" / "uploads").iterdir()) == []
            script.release("lines")
            await rest.finish(job.job_id)

    do(story())


def test_what_a_killed_endpoint_has_left_is_deleted(do: Do, script: TaskScript, tmp_path: Path) -> None:
    left = tmp_path / "rest" / "uploads" / "upload-x"
    left.mkdir(parents=True)

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script):
            assert not left.exists()

    do(story())


def test_too_many_uploads_at_once(do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            monkeypatch.setattr("firesteel.rest.uploads.AT_ONCE_MAX", 0)
            answer = await rest.http.post("/jobs", files=submission(PLAIN))
            assert answer.status_code == 429
            await nothing_is_stored(rest, tmp_path, "one upload too many")
            monkeypatch.undo()
            await rest.submit(PLAIN)
            await rest.finish(PLAIN.job_id)

    do(story())


def test_submissions_of_many_at_once(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """Sixteen clients, every job twice at the same time: each is one job, and every one ends."""

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            script.hold("v")
            graphs = [graph("v", f"job {index}") for index in range(16)]
            await asyncio.gather(*(rest.submit(each) for each in [*graphs, *graphs]))
            script.release("v")
            ends = await asyncio.gather(*(rest.finish(each.job_id) for each in graphs))
            assert {end["application-status"] for end in ends} == {"SUCCEEDED"}
            assert {job["id"] for job in (await rest.get("/jobs"))["jobs"]} == {
                derived_id(f"job {n}") for n in range(16)
            }

    do(story())
    assert len(script.attempts) == 16
