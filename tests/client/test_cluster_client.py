"""The clients for programs: pipelines and files handed in, jobs followed, waited for and cancelled."""

import asyncio
import threading
from pathlib import Path

import pytest

import firesteel as fs
from firesteel.client import AsyncClusterClient, ClusterClient, ClusterUnreachable, DuplicateJob, UnknownJob
from firesteel.client.transport import Refused
from firesteel.model.ids import derived_id
from firesteel.model.states import JobStatus
from firesteel.testing.backend import TaskScript
from tests.client.conftest import Served
from tests.rest.test_jars import PIPELINE

NOBODY = "127.0.0.1:9"


def own_pipeline(name: str = "own") -> fs.Pipeline:
    pipeline = fs.Pipeline(name)

    @pipeline.source
    def lines(spark, limit: int = 1):
        return spark.range(limit)

    @pipeline.sink
    def out(lines):
        fs.write_parquet(lines, "/nowhere")

    return pipeline


def test_a_program_and_its_jobs(served: Served, script: TaskScript, tmp_path: Path) -> None:
    """From a pipeline of the program, and from a file; the second address is the one that answers."""
    served.call(script.hold, "lines")
    file = tmp_path / "job.py"
    file.write_text(PIPELINE)
    with ClusterClient(f"{NOBODY},{served.address}") as cluster:
        own = cluster.submit(own_pipeline(), {"limit": 3}, name="renamed", job_id=derived_id("mine"))
        served.do(script.until_running("lines"))
        assert own == derived_id("mine")
        view = cluster.job(own)
        assert (view.name, view.status, view.parameters) == ("renamed", JobStatus.RUNNING, {"limit": "3"})
        assert cluster.submit(own_pipeline(), {"limit": 3}, name="renamed", job_id=own) == own
        with pytest.raises(DuplicateJob):
            cluster.submit(own_pipeline(), {"limit": 4}, job_id=own)
        with pytest.raises(TimeoutError):
            cluster.wait(own, timeout_s=0.05)
        views = cluster.follow(own)
        assert next(views).status is JobStatus.RUNNING
        served.call(script.release, "lines")
        assert [view.status for view in views][-1] is JobStatus.FINISHED
        assert cluster.wait(own).status is JobStatus.FINISHED
        assert cluster.show(own).status is JobStatus.FINISHED
        served.call(script.hold, "lines")
        other = cluster.submit(file, {"input": "/data"}, configuration={"job.priority": 5})
        served.do(script.until_running("lines"))
        assert cluster.overview().jobs == {"RUNNING": 1, "FINISHED": 1}
        cluster.cancel(other)
        assert cluster.wait(other).status is JobStatus.CANCELED
        assert [(job.job_id, job.name) for job in cluster.jobs()] == [(other, "from a file"), (own, "renamed")]
        assert cluster.logs(other) == []
    with pytest.raises(RuntimeError, match="is closed"):
        cluster.jobs()
    cluster.close()
    assert all(thread.name != "firesteel-client" for thread in threading.enumerate())


def test_what_is_wrong_is_said(served: Served, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import firesteel; raise ValueError('oops')\n")
    with ClusterClient(served.address) as cluster:
        with pytest.raises(fs.InvalidPipeline, match=r"broken.py:1.*oops"):
            cluster.submit(broken)
        with pytest.raises(fs.InvalidPipeline, match="no such file"):
            cluster.submit(tmp_path / "nowhere.py")
        with pytest.raises(fs.InvalidPipeline, match="not a int"):
            cluster.submit(own_pipeline(), {"limit": "many"})
        with pytest.raises(UnknownJob):
            cluster.job("0" * 32)
        with pytest.raises(UnknownJob):
            list(cluster.follow("0" * 32))
    with ClusterClient(NOBODY, timeout_s=0.1) as cluster, pytest.raises(ClusterUnreachable, match="nobody answers"):
        cluster.jobs()
    with pytest.raises(ValueError, match="no address"):
        ClusterClient("http://:")
    assert all(thread.name != "firesteel-client" for thread in threading.enumerate())


def test_the_same_as_coroutines_also_in_a_running_loop(served: Served, script: TaskScript) -> None:
    """A notebook has a loop of its own; the client that waits must work in it too."""

    async def story() -> None:
        async with AsyncClusterClient(served.address) as cluster:
            job_id = await cluster.submit(own_pipeline())
            assert [view.status async for view in cluster.follow(job_id)][-1] is JobStatus.FINISHED
            assert (await cluster.wait(job_id, timeout_s=300)).name == "own"
        with ClusterClient(served.address) as waiting:
            assert waiting.job(job_id).status is JobStatus.FINISHED

    asyncio.run(story())


def test_a_token_says_who_asks(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def identify(users: object, authorization: str | None) -> None:
        seen.append(authorization)
        raise RestError(401, "who are you?")

    from firesteel.rest.errors import RestError
    from firesteel.rest.security import Users

    monkeypatch.setattr(Users, "identify", identify)
    monkeypatch.setenv("FIRESTEEL_TOKEN", "of-the-environment")
    for token in ("mine", None):
        with (
            ClusterClient(served.address, token=token) as cluster,
            pytest.raises(Refused, match="does not know the token"),
        ):
            cluster.jobs()
    assert seen == ["Bearer mine", "Bearer of-the-environment"]
