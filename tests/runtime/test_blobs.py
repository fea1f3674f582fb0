"""Artifacts of a job: with its submission they come, with its clean-up they go, and no other job loses its own."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing
from firesteel.core.effects import DISPATCHER
from firesteel.minicluster import MiniCluster
from firesteel.model.branches import JobCopy
from firesteel.model.jobgraph import Artifact, InvalidJobGraph, JobGraph
from firesteel.model.states import JobStatus
from firesteel.model.tasks import RESULT_FORMAT, SinkCommit
from firesteel.runtime.client import DuplicateJob
from firesteel.testing import outcomes
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import finish, graph, mini_cluster
from tests.runtime.conftest import Do
from tests.runtime.stores import FailingStore

CODE = b"print('hello')"
SHA = hashlib.sha256(CODE).hexdigest()
NONE_KEPT = {"jobstore.retryable.max-capacity": "0"}
"""Nothing to try again what did not finish: its code goes with it."""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "code.zip"
    path.write_bytes(CODE)
    return path


def with_code(name: str, sha256: str = SHA) -> JobGraph:
    artifact = Artifact(name="code.zip", kind="code", sha256=sha256, size_bytes=len(CODE))
    return msgspec.structs.replace(graph("lines", name), artifacts=(artifact,))


def is_there(cluster: MiniCluster) -> bool:
    try:
        return cluster.blobs.path(SHA).read_bytes() == CODE
    except BlobMissing:
        return False


def test_blobs_go_with_the_last_job_that_names_them(do: Do, script: TaskScript, code: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, options=NONE_KEPT) as cluster:
            ids = [await cluster.client.submit_job(with_code(name), {SHA: code}) for name in "ab"]
            await script.until_running("lines", 2)
            await cluster.client.cancel_job(ids[0])
            await finish(cluster, ids[0])
            await asyncio.sleep(1)
            assert is_there(cluster)
            script.release("lines")
            await finish(cluster, ids[1])
            await asyncio.sleep(1)
            assert not is_there(cluster)

    do(story())


def test_one_after_the_other_with_the_same_code(do: Do, script: TaskScript, code: Path) -> None:
    """The clean-up of a job comes after its result: it must not take the code of the next one."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, options=NONE_KEPT) as cluster:
            client = cluster.client
            last = await client.submit_job(with_code("first"), {SHA: code})
            for number in range(30):
                await script.until_running("lines")
                script.release("lines")
                script.hold("lines")
                await client.request_job_result(last)
                for _ in range(number):
                    await asyncio.sleep(0)
                last = await client.submit_job(with_code(f"job{number}"), {SHA: code})
                await script.until_running("lines")
                await asyncio.sleep(1)
                assert is_there(cluster), number
            script.release("lines")
            await finish(cluster, last)

    do(story())


def test_code_of_what_was_cancelled_stays(do: Do, script: TaskScript, code: Path) -> None:
    """So that it can be tried again, as long as it is one of the last; and who has deleted it is told."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, options={"jobstore.retryable.max-capacity": "1"}) as cluster:
            client = cluster.client
            first = await client.submit_job(with_code("first"), {SHA: code})
            await client.cancel_job(first)
            await finish(cluster, first)
            assert is_there(cluster)
            again = await client.copy_job(first, JobCopy(job_id="a" * 32), "")
            await client.cancel_job(again)
            await finish(cluster, again)
            assert is_there(cluster), "it is the code of both, and one of them is kept"
            with pytest.raises(InvalidJobGraph, match="is CANCELED, and its code is not kept any more"):
                await client.copy_job(first, JobCopy(job_id="b" * 32), "")
            without = await client.submit_job(graph("lines", "without"), {})
            await client.cancel_job(without)
            await finish(cluster, without)
            while is_there(cluster):
                await asyncio.sleep(0.01)
            last = await client.submit_job(with_code("last"), {SHA: code})
            await client.cancel_job(last)
            await finish(cluster, last)
            cluster.blobs.path(SHA).unlink()
            with pytest.raises(InvalidJobGraph, match="is gone from the storage"):
                await client.copy_job(last, JobCopy(job_id="c" * 32), "")

    do(story())


def test_uploads_that_are_refused(do: Do, script: TaskScript, code: Path) -> None:
    """Missing, damaged, or of a job that is known: what others use stays."""

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, options=NONE_KEPT) as cluster:
            job_id = await cluster.client.submit_job(with_code("a"), {SHA: code})
            with pytest.raises(InvalidJobGraph, match=r"artifacts are missing: code\.zip"):
                await cluster.client.submit_job(with_code("b"), {})
            with pytest.raises(BlobCorrupt):
                await cluster.client.submit_job(with_code("b", "0" * 64), {"0" * 64: code})
            with pytest.raises(DuplicateJob):
                await cluster.client.submit_job(msgspec.structs.replace(with_code("a"), name="other"), {SHA: code})
            assert is_there(cluster)
            await script.until_running("lines")
            script.release("lines")
            await finish(cluster, job_id)
            await asyncio.sleep(1)
            assert not is_there(cluster)
            with pytest.raises(DuplicateJob):
                await cluster.client.submit_job(with_code("a"), {SHA: code})
            assert not is_there(cluster)

    do(story())


def test_a_job_is_clean_when_its_blobs_are_gone(do: Do, script: TaskScript, code: Path) -> None:
    """A Dispatcher that ends between the two leaves the clean-up to the next one."""

    async def story() -> None:
        store = FailingStore("clean_up", 1_000)
        async with mini_cluster(script, store=store, options=NONE_KEPT) as cluster:
            job_id = await cluster.client.submit_job(with_code("job"), {SHA: code})
            await cluster.client.request_job_result(job_id)
            await asyncio.sleep(1)
            assert not is_there(cluster)
            assert [dirty for _, dirty in store._results.values()] == [True]
            cluster.revoke_leadership(DISPATCHER)
            store.left = 0
            cluster.grant_leadership(DISPATCHER)
            await finish(cluster, job_id)
            await asyncio.sleep(1)
            assert [dirty for _, dirty in store._results.values()] == [False]
            assert store._graphs == {}

    do(story())


def aged(path: Path, content: bytes = b"") -> Path:
    """A file of long ago; as it is when it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(content)
    for each in (path, path.parent):
        os.utime(each, (0, 0))
    return path


def test_what_a_killed_master_has_left_goes_after_a_grace(
    do: Do, script: TaskScript, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what a job names: its code, and rows that it has staged and will return."""
    rows = hashlib.sha256(b"rows").hexdigest()

    def staged_rows(*of: Any) -> SinkCommit:
        return msgspec.structs.replace(staged(*of), format=RESULT_FORMAT, mode="return", target=rows)

    staged = outcomes._commit
    monkeypatch.setattr(outcomes, "_commit", staged_rows)

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script, options={"blob.orphans.grace": "10 s"}) as cluster:
            submitted = msgspec.structs.replace(graph("result; lines"), artifacts=with_code("job").artifacts)
            job_id = await cluster.client.submit_job(submitted, {SHA: code})
            await script.until_running("lines")
            await asyncio.sleep(1)
            assert script.ends("result") == ["FINISHED"]
            blobs = cluster.work_dir / "blobs"
            stay = [aged(blobs / SHA), aged(blobs / rows), aged(blobs / "outputs" / job_id / "0.stdout")]
            go = [aged(blobs / name) for name in ("f" * 64, ".put-half", f"outputs/{'ab' * 16}/0.stdout")]
            go.append(go[-1].parent)
            young = blobs / ("e" * 64)
            young.touch()
            await asyncio.sleep(1)
            cluster.revoke_leadership(DISPATCHER)
            cluster.grant_leadership(DISPATCHER)
            await asyncio.sleep(5)
            assert all(path.exists() for path in (*stay, *go, young)), "the grace is not over"
            await asyncio.sleep(6)
            assert [path for path in (*stay, young) if not path.exists()] == []
            assert [path for path in go if path.exists()] == []
            script.release("lines")
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())
