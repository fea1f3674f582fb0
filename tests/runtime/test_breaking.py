"""What breaks ends the smallest owner: bugs in cores, stores that fail, workers and backends that can't."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER, Event, Received
from firesteel.core.jobmaster import JobMasterCore
from firesteel.core.journal import JobState, JournalRecord
from firesteel.core.resourcemanager import ResourceManagerCore
from firesteel.core.taskexecutor import TaskExecutorCore
from firesteel.core.workeffects import TasksChanged
from firesteel.minicluster import ClusterLost, MiniCluster
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import UpdateTaskExecutionStates
from firesteel.model.options import Configuration
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.views import JobResult
from firesteel.runtime.client import StorageUnavailable, UnknownJob
from firesteel.runtime.jobmaster import replay
from firesteel.runtime.ports import TaskFailedError
from firesteel.testing.backend import TaskScript
from tests.runtime.cluster import FIXED_DELAY, finish, graph, mini_cluster, virtual_loop
from tests.runtime.conftest import Do

Breaks = Callable[[JobMasterCore, Event], bool]


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
            if bugs == 1:
                assert overview.slots_free == 2
            assert cluster.rpc._mailboxes.keys() & {f"jobmaster/{bad}"} == set()

    plant(monkeypatch, JobMasterCore, breaks)
    do(story())
    assert script.ends("good") == ["FINISHED"]
    assert script.ends("next") == []


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


class FailingStore(InMemoryJobStore):
    """Some operations raise OSError, after `appends` of a journal or always, `times` times."""

    def __init__(self, operation: str, times: int, *, durable: bool = False, after: int = 0) -> None:
        super().__init__()
        self.operation, self.left, self.durable, self.after = operation, times, durable, after
        self.written: list[JournalRecord] = []

    def fails(self, operation: str) -> bool:
        if operation != self.operation or self.left <= 0:
            return False
        self.after -= 1
        if self.after >= 0:
            return False
        self.left -= 1
        return True

    def check(self, operation: str) -> None:
        if self.fails(operation):
            raise OSError("no space left on device")

    async def load(self, token: FencingToken) -> tuple[tuple[JobGraph, ...], tuple[tuple[JobResult, bool], ...]]:
        self.check("load")
        return await super().load(token)

    async def put_graph(self, graph: JobGraph, token: FencingToken) -> None:
        self.check("put_graph")
        await super().put_graph(graph, token)

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> Sequence[JournalRecord]:
        self.check("claim_journal")
        return await super().claim_journal(job_id, token)

    async def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord]) -> None:
        fails = self.fails("append")
        if not fails or self.durable:
            await super().append(job_id, token, records)
            self.written += records
        if fails:
            raise OSError("no space left on device")

    async def put_result(self, result: JobResult, token: FencingToken) -> None:
        self.check("put_result")
        await super().put_result(result, token)

    async def clean_up(self, job_id: JobID, token: FencingToken) -> tuple[str, ...]:
        self.check("clean_up")
        return await super().clean_up(job_id, token)


@pytest.mark.parametrize("durable", [False, True], ids=["lost", "durable"])
@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("times", [1, 4])
def test_a_journal_that_fails_for_a_while(do: Do, script: TaskScript, durable: bool, after: int, times: int) -> None:
    """Whether or not the write that failed was durable, at every write of a job: no attempt runs twice."""

    async def story() -> None:
        store = FailingStore("append", times, durable=durable, after=after)
        async with mini_cluster(script, store=store) as cluster:
            job_id = await cluster.client.submit_job(graph("lines*2 => result"), {})
            result = await finish(cluster, job_id)
            assert (result.status, result.restarts, result.failure) == (JobStatus.FINISHED, 0, None)
            assert store.left < times

    do(story())
    assert script.ends("lines") == ["FINISHED"] * 2
    assert [len(commits) for commits in script.visible.values()] == [1]


@pytest.mark.parametrize("operation", ["append", "claim_journal"])
def test_a_journal_that_fails_for_ever_fails_its_job(do: Do, script: TaskScript, operation: str) -> None:
    async def story() -> None:
        async with mini_cluster(script, store=FailingStore(operation, 1_000)) as cluster:
            job_id = await cluster.client.submit_job(graph("lines"), {})
            result = await finish(cluster, job_id)
            assert result.status is JobStatus.FAILED
            assert result.failure is not None
            assert "journal could not be read or written (OSError: no space left on device)" in result.failure.message

    do(story())
    assert script.attempts == []


@pytest.mark.parametrize("operation", ["load", "put_result", "clean_up"])
def test_the_dispatcher_tries_its_store_again(do: Do, script: TaskScript, operation: str) -> None:
    async def story() -> None:
        store = FailingStore(operation, 7)
        async with mini_cluster(script, store=store) as cluster:
            job_id = await cluster.client.submit_job(graph("lines"), {})
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED
            assert store.left == 0
            assert (await cluster.client.request_job(job_id)).status is JobStatus.FINISHED

    do(story())


def test_a_submission_that_can_not_be_stored_is_refused(do: Do, script: TaskScript) -> None:
    """Nothing of it is kept; it may be submitted again."""

    async def story() -> None:
        async with mini_cluster(script, store=FailingStore("put_graph", 1)) as cluster:
            submitted = graph("lines")
            with pytest.raises(StorageUnavailable, match="no space left on device"):
                await cluster.client.submit_job(submitted, {})
            with pytest.raises(UnknownJob):
                await cluster.client.request_job(submitted.job_id)
            job_id = await cluster.client.submit_job(submitted, {})
            assert (await finish(cluster, job_id)).status is JobStatus.FINISHED

    do(story())


def replay_but(bad: JobID, job_id: JobID, records: Sequence[JournalRecord], config: Configuration) -> JobState:
    if job_id == bad:
        raise TypeError("a record of an unknown kind")
    return replay(job_id, records, config)


@pytest.mark.expects_errors
def test_a_journal_nobody_can_read_fails_its_job(do: Do, script: TaskScript, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that can't be recovered fails alone, at once."""

    async def story() -> None:
        script.hold("lines", "other")
        async with mini_cluster(script) as cluster:
            bad = await cluster.client.submit_job(graph("lines", "bad"), {})
            good = await cluster.client.submit_job(graph("other", "good"), {})
            await script.until_running("lines")
            await script.until_running("other")
            monkeypatch.setattr("firesteel.runtime.dispatcher.replay", lambda *parts: replay_but(bad, *parts))
            cluster.revoke_leadership(DISPATCHER)
            cluster.grant_leadership(DISPATCHER)
            begin = virtual_loop().time()
            result = await cluster.client.request_job_result(bad)
            assert virtual_loop().time() - begin < 1
            assert result.status is JobStatus.FAILED
            assert result.failure is not None
            assert "a record of an unknown kind" in result.failure.message
            script.release("other", "lines")
            assert (await finish(cluster, good)).status is JobStatus.FINISHED

    do(story())


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
