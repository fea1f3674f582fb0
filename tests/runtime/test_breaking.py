"""What breaks ends the smallest owner: bugs in cores, workers and backends that can't."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER, Event, Received
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.taskexecutor.workeffects import TasksChanged
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.messages import UpdateTaskExecutionStates
from firesteel.model.options import Configuration
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.runtime.client import ClusterLost
from firesteel.runtime.ports import TaskFailedError
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import FIXED_DELAY, finish, graph, mini_cluster, virtual_loop
from tests.runtime.conftest import Do


def plant(monkeypatch: pytest.MonkeyPatch, core: type, breaks: Callable[..., bool]) -> None:
    """A bug in a core: it raises at events for which `breaks` says so."""
    handle = core.handle  # type: ignore[attr-defined]

    def broken(self: object, event: Event, now_ms: int) -> object:
        if breaks(self, event):
            raise ZeroDivisionError("a planted bug")
        return handle(self, event, now_ms)

    monkeypatch.setattr(core, "handle", broken)


def is_finish(event: Event) -> bool:
    """A worker reports the end of an attempt."""
    return (
        isinstance(event, Received)
        and isinstance(event.envelope.body, UpdateTaskExecutionStates)
        and any(update.state is ExecutionState.FINISHED for update in event.envelope.body.updates)
    )


@pytest.mark.expects_errors
@pytest.mark.parametrize("bugs", [1, 2, 1_000])
def test_a_bug_in_a_job_master_ends_its_job_alone(
    do: Do, script: TaskScript, monkeypatch: pytest.MonkeyPatch, bugs: int
) -> None:
    """Once, twice, and at every event from the first on."""
    seen = [0]

    def breaks(core: JobMasterCore, event: Event) -> bool:
        if core.job.graph.vertices[0].name != "bad" or (bugs < 1_000 and not seen[0] and not is_finish(event)):
            return False
        seen[0] += 1
        return seen[0] <= bugs

    async def story() -> None:
        script.hold("good")
        async with mini_cluster(script) as cluster:
            good = await cluster.client.submit_job(graph("good", "good"), {})
            bad = await cluster.client.submit_job(graph("bad => next", "bad"), {})
            result = await finish(cluster, bad)
            assert result.status is JobStatus.FAILED
            assert result.failure is not None
            assert "firesteel's own JobMaster failed (ZeroDivisionError: a planted bug)" in result.failure.message
            script.release("good")
            assert (await finish(cluster, good)).status is JobStatus.FINISHED
            overview = await cluster.client.request_cluster_overview()
            assert overview.jobs == {"FINISHED": 1, "FAILED": 1}
            while overview.slots_free < 2:  # Who has workers let go waits for reports, like any new JobMaster.
                await asyncio.sleep(1)
                overview = await cluster.client.request_cluster_overview()
            assert asyncio.get_running_loop().time() < 30
            assert cluster.rpc._mailboxes.keys() & {f"jobmaster/{bad}"} == set()

    plant(monkeypatch, JobMasterCore, breaks)
    do(story())
    assert script.ends("good") == ["FINISHED"]
    assert script.ends("next") == []
    assert script.stored == {}


@pytest.mark.expects_errors
def test_what_a_job_has_left_goes_when_its_job_master_always_breaks(
    do: Do, script: TaskScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored results and staged outputs: those in its journal, and those of an attempt that ended meanwhile."""
    is_broken = [False]

    async def story() -> None:
        script.hold("slow", "slower")
        async with mini_cluster(script, workers=2) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => out; lines => slow => end; slower"), {})
            await script.until(lambda: script.ends("out") == ["FINISHED"])
            await script.until_running("slow")
            await asyncio.sleep(1)
            is_broken[0] = True
            script.release("slow")
            assert (await finish(cluster, job_id)).status is JobStatus.FAILED
            assert script.stored == {}
            assert (await cluster.client.request_cluster_overview()).slots_free == 4

    plant(monkeypatch, JobMasterCore, lambda core, event: is_broken[0])
    do(story())
    assert [script.ends(name) for name in ("lines", "slow", "end", "slower")] == [["FINISHED"]] * 2 + [[], ["CANCELED"]]


@pytest.mark.expects_errors
@pytest.mark.parametrize(("core", "component"), [(DispatcherCore, DISPATCHER), (ResourceManagerCore, RESOURCE_MANAGER)])
def test_a_bug_in_a_leader_is_survived(
    do: Do, script: TaskScript, monkeypatch: pytest.MonkeyPatch, core: type, component: str
) -> None:
    """Its next session starts from what is stored; attempts go on."""
    left = [0]

    def breaks(self: object, event: Event) -> bool:
        left[0] -= 1
        return left[0] == 0

    async def story() -> None:
        script.hold("lines")
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => result"), {})
            await script.until_running("lines", 2)
            before = cluster.election._leaders[component].token
            left[0] = 1
            client = asyncio.get_running_loop().create_task(cluster.client.request_job_result(job_id))
            await asyncio.sleep(11)
            assert cluster.election._leaders[component].token > before
            script.release("lines")
            assert (await client).status is JobStatus.FINISHED
            await finish(cluster, job_id)

    plant(monkeypatch, core, breaks)
    do(story())
    assert script.ends("lines") == ["FINISHED"] * 2


@pytest.mark.expects_errors
def test_a_dispatcher_that_always_breaks_is_given_up(
    do: Do, script: TaskScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with mini_cluster(script) as cluster:
            await asyncio.sleep(60)
            with pytest.raises(ClusterLost, match="dispatcher has failed for good: ZeroDivisionError: a planted bug"):
                await cluster.client.list_jobs()

    plant(monkeypatch, DispatcherCore, lambda core, event: True)
    do(story())


@pytest.mark.expects_errors
def test_a_worker_that_breaks_is_replaced(do: Do, script: TaskScript, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [0]

    def breaks(core: TaskExecutorCore, event: Event) -> bool:
        seen[0] += isinstance(event, TasksChanged)
        return isinstance(event, TasksChanged) and seen[0] == 2

    async def story() -> None:
        async with mini_cluster(script, options=FIXED_DELAY) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => result"), {})
            result = await finish(cluster, job_id)
            assert (result.status, result.restarts) == (JobStatus.FINISHED, 1)
            assert len(cluster.workers) == 1

    plant(monkeypatch, TaskExecutorCore, breaks)
    do(story())
    assert len(script.backends) == 2


# ── workers and their backends ───────────────────────────────────────────────────────────────
NO_JAVA = TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message="no Java was found: install Java 17"))


@pytest.mark.parametrize("error", [NO_JAVA, OSError("no space left on device")])
def test_a_backend_that_does_not_start(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The cluster says why, and leaves nothing behind."""

    async def story() -> None:
        before = asyncio.all_tasks()
        script.start_error = error
        cluster = MiniCluster(workers=2, backend=script.backend, clock=virtual_loop())
        with pytest.raises(type(error), match=str(error)):
            await cluster.start()
        assert asyncio.all_tasks() == before

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    do(story())
    assert list(tmp_path.iterdir()) == []
    assert [backend.closed for backend in script.backends] == [True]


def test_a_late_worker_that_does_not_start(do: Do, script: TaskScript) -> None:
    """Those that run go on."""

    async def story() -> None:
        async with mini_cluster(script) as cluster:
            script.start_error = NO_JAVA
            with pytest.raises(TaskFailedError, match="no Java"):
                await cluster.start_task_executor()
            assert len(cluster.workers) == 1
            job_id = await cluster.client.submit_job(graph("lines"), {})
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())


def test_a_cluster_that_was_never_started_leaves_nothing(
    do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    MiniCluster()
    assert list(tmp_path.iterdir()) == []
    do(MiniCluster().close())


def test_a_work_dir_of_the_user_stays(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with MiniCluster(Configuration({"cluster.work-dir": str(tmp_path / "work")}), backend=script.backend):
            pass

    do(story())
    assert (tmp_path / "work").is_dir()


@pytest.mark.parametrize("disk_errors", [1, 3])
def test_a_disk_that_does_not_delete(do: Do, script: TaskScript, disk_errors: int) -> None:
    """What an ended job has left is deleted later; the worker lives."""

    async def story() -> None:
        script.disk_errors = disk_errors
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => result"), {})
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())
    assert script.stored == {}
    assert len(script.backends) == 1


@pytest.mark.expects_errors
def test_a_disk_that_never_deletes_keeps_no_slot(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.disk_errors = 1_000
        async with mini_cluster(script) as cluster:
            job_id = await cluster.client.submit_job(graph("lines => result"), {})
            await finish(cluster, job_id)
            assert (await cluster.client.request_cluster_overview()).slots_free == 2

    do(story())


@pytest.mark.parametrize("how", ["close", "terminate"])
def test_attempts_that_do_not_end_hold_nothing_up(do: Do, script: TaskScript, how: str) -> None:
    """Past the limit for a clean end their backend goes, and they with it."""

    async def story() -> None:
        script.hold("lines")
        script.is_stubborn = True
        async with mini_cluster(script, options={"cluster.services.shutdown-timeout": "7 s"}) as cluster:
            await cluster.client.submit_job(graph("lines*2"), {})
            await script.until_running("lines", 2)
            begin = virtual_loop().time()
            if how == "terminate":
                await cluster.terminate_task_executor(next(iter(cluster.workers)))
                assert cluster.workers == {}
        assert 7 <= virtual_loop().time() - begin < 8

    do(story())
    assert script.ends("lines") == ["CANCELED"] * 2


def test_closing_does_every_step(do: Do, script: TaskScript) -> None:
    """A backend that raises as it closes is reported, once the others are closed and the files are gone."""

    async def story() -> None:
        script.close_error = OSError("the JVM does not answer")
        before = asyncio.all_tasks()
        cluster = MiniCluster(workers=2, backend=script.backend, clock=virtual_loop())
        await cluster.start()
        with pytest.raises(OSError, match="the JVM does not answer"):
            await cluster.close()
        assert [backend.closed for backend in script.backends] == [True, True]
        assert not cluster._work_dir.exists()
        assert asyncio.all_tasks() == before

    do(story())
