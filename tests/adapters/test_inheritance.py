"""What workers that were killed leave, and who clears it. A worker here is a process that holds a lock."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from firesteel.adapters.spark.jvm.launch import SECRETS_NAME
from firesteel.adapters.spark.staged.notes import SINKS, STAGED, note_staged
from firesteel.adapters.spark.staged.references import TWO_PHASE_SCHEME
from firesteel.adapters.spark.streams.usednotes import note_used
from firesteel.adapters.spark.worker.inheritance import DeadWorkers
from firesteel.adapters.spark.worker.workdirs import (
    FORMER,
    FORMER_MAX,
    LOCK,
    WorkDirectory,
    of_other_hosts,
    open_own,
)
from firesteel.adapters.storage.sinks import remove_location
from firesteel.model.ids import JobID

JOB, OTHER = JobID("a" * 32), JobID("b" * 32)
CLUSTER = "here:6123"

Kill = Callable[[], None]
Begin = Callable[..., Kill]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Begin]:
    """Begins a worker with a directory of its own; gives what kills it, with SIGKILL."""
    begun: list[subprocess.Popen[str]] = []

    def begin(name: str, cluster: str = CLUSTER) -> Kill:
        program = (
            "import pathlib, sys\n"
            "from firesteel.adapters.spark.worker.workdirs import open_own\n"
            f"own = open_own(pathlib.Path({str(tmp_path / name)!r}), {name!r}, {cluster!r})\n"
            "print('lives', flush=True)\n"
            "sys.stdin.read()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "lives\n"

        def kill() -> None:
            process.kill()
            process.wait()

        return kill

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def fill(directory: Path, job_id: JobID = JOB) -> Path:
    """As a worker's directory is in the middle of a job; gives what it has staged."""
    for name in ("attempts", "partitions"):
        (directory / name / job_id / "0-0").mkdir(parents=True)
    (directory / "local").mkdir(exist_ok=True)
    (directory / "logs").mkdir(exist_ok=True)
    (directory / "logs" / "taskmanager.log").write_text("its last words")
    staged = directory.parent / "target" / ".firesteel-staging" / job_id / "0-0"
    staged.mkdir(parents=True)
    note_staged(directory / SINKS / STAGED / f"{job_id}-0-0", str(staged))
    return staged


def heir_of(tmp_path: Path, name: str = "heir") -> DeadWorkers:
    own = open_own(tmp_path / name, name, CLUSTER)
    assert own is not None
    heir = DeadWorkers(own, "*")
    heir.discard = discard
    return heir


def test_checkpoints_of_a_dead_worker_stay_until_their_job_is_over(tmp_path: Path, worker: Begin) -> None:
    """Wherever they are."""
    kill = worker("dead")
    for directory, top in (
        (tmp_path / "dead", tmp_path / "shared"),
        (tmp_path / "heir", tmp_path / "heir/checkpoints"),
    ):
        (top / JOB / "result" / "0").mkdir(parents=True)
        note_used(directory, JOB, top, keeps=False)
    heir = heir_of(tmp_path)
    assert asyncio.run(heir.look()) == (JOB,), "its own, though no process of it runs the job"
    kill()
    assert asyncio.run(heir.look()) == (JOB,)
    assert (tmp_path / "shared" / JOB).exists()
    asyncio.run(heir.release(JOB))
    assert not (tmp_path / "shared" / JOB).exists()
    assert not (tmp_path / "dead").exists()
    heir.close()


async def discard(locations: Sequence[str]) -> None:
    for location in locations:
        remove_location(location)


def test_what_a_killed_worker_has_left_goes_when_its_job_is_over_and_not_before(tmp_path: Path, worker: Begin) -> None:
    kill = worker("killed")
    staged = fill(tmp_path / "killed")

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert await heir.look() == (), "it lives"
        kill()
        assert await heir.look() == (JOB,)
        assert not (tmp_path / "killed" / "attempts").exists(), "nobody needs that any more"
        assert (tmp_path / "killed" / "partitions" / JOB).exists(), "its job may still read that"
        assert staged.exists(), "and commit that"
        await heir.release(OTHER)
        assert await heir.look() == (JOB,)
        await heir.release(JOB)
        assert await heir.look() == ()
        heir.close()

    asyncio.run(story())
    assert not (tmp_path / "killed").exists()
    assert not staged.exists()
    assert (tmp_path / "heir" / FORMER / "killed" / "taskmanager.log").read_text() == "its last words"


def test_jobs_that_are_over_at_once_have_a_directory_cleared_once(
    tmp_path: Path, worker: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker("killed")()
    for job_id in (JOB, OTHER):
        (tmp_path / "killed" / "partitions" / job_id).mkdir(parents=True)
    bury, both, calls = WorkDirectory.bury, threading.Barrier(2), []

    def slowly(dead: WorkDirectory, heir: Path) -> bool:
        calls.append(dead.path)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.5)
        return bury(dead, heir)

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert set(await heir.look()) == {JOB, OTHER}
        monkeypatch.setattr(WorkDirectory, "bury", slowly)
        await asyncio.gather(heir.release(JOB), heir.release(OTHER), heir.look())
        heir.close()

    asyncio.run(story())
    assert calls == [tmp_path / "killed"]
    assert not (tmp_path / "killed").exists()


def test_stored_results_elsewhere_go_with_the_directory_of_their_job(tmp_path: Path, worker: Begin) -> None:
    kill = worker("killed")
    shared, other = tmp_path / "results" / JOB, tmp_path / "results" / OTHER
    for top in (shared, other):
        (top / "0-0" / "d").mkdir(parents=True)
        note_staged(tmp_path / "killed" / SINKS / STAGED / f"{top.name}-0-0", str(top / "0-0"))
    kill()

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert set(await heir.look()) == {JOB, OTHER}
        await heir.release(JOB)
        heir.close()

    asyncio.run(story())
    assert not shared.exists()
    assert (other / "0-0" / "d").exists()


def test_one_worker_at_a_time_clears_up_and_another_goes_on_when_it_dies(tmp_path: Path, worker: Begin) -> None:
    worker("killed")()
    fill(tmp_path / "killed")

    async def story() -> None:
        first, second = heir_of(tmp_path, "first"), heir_of(tmp_path, "second")
        assert await first.look() == (JOB,)
        assert await second.look() == ()
        first.close()
        assert await second.look() == (JOB,)
        second.close()

    asyncio.run(story())


def test_a_worker_of_the_same_name_clears_what_its_former_process_has_left(tmp_path: Path, worker: Begin) -> None:
    worker("heir")()
    staged = fill(tmp_path / "heir")

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert await heir.look() == (JOB,)
        await heir.release(JOB)
        assert await heir.look() == ()

    asyncio.run(story())
    assert not staged.exists()


def test_directories_of_other_clusters_and_other_hosts_are_left_alone(tmp_path: Path, worker: Begin) -> None:
    worker("neighbour", "elsewhere:6123")()
    worker("distant")()
    lock = tmp_path / "distant" / LOCK
    lock.write_text(lock.read_text().replace('"host":"', '"host":"not-'))
    for name, job_id in (("neighbour", JOB), ("distant", OTHER)):
        fill(tmp_path / name, job_id)

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert await heir.look() == ()
        heir.close()

    asyncio.run(story())
    assert (tmp_path / "neighbour" / "attempts").exists()
    assert [path.name for path, _ in of_other_hosts(tmp_path, "*")] == ["distant"]


def test_what_takes_code_of_the_user_to_remove_is_told(
    tmp_path: Path, worker: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    worker("killed")()
    note_staged(tmp_path / "killed" / SINKS / STAGED / f"{JOB}-0-0", f"{TWO_PHASE_SCHEME}:something")

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert await heir.look() == (JOB,)
        await heir.release(JOB)
        heir.close()

    asyncio.run(story())
    assert f"{TWO_PHASE_SCHEME}:something" in caplog.text
    assert not (tmp_path / "killed").exists()


def test_a_worker_that_was_stopped_keeps_its_logs_where_they_are(tmp_path: Path) -> None:
    busy, idle = (open_own(tmp_path / name, name, CLUSTER) for name in ("busy", "idle"))
    assert busy is not None
    assert idle is not None
    fill(busy.path)
    (idle.path / "logs").mkdir()
    for each in (busy, idle):
        (each.path / SECRETS_NAME).touch()
        each.stop()
        assert not (each.path / SECRETS_NAME).exists()
    assert not (idle.path / LOCK).exists()

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert await heir.look() == (JOB,)
        await heir.release(JOB)
        heir.close()

    asyncio.run(story())
    assert [path.name for path in busy.path.iterdir()] == ["logs"]
    assert (idle.path / "logs").exists()


def test_logs_of_few_dead_workers_are_kept(tmp_path: Path, worker: Begin) -> None:
    for number in range(FORMER_MAX + 2):
        worker(f"killed-{number}")()
        (tmp_path / f"killed-{number}" / "logs").mkdir()
        (tmp_path / f"killed-{number}" / "logs" / "taskmanager.log").touch()

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert await heir.look() == ()
        heir.close()

    asyncio.run(story())
    assert len(list((tmp_path / "heir" / FORMER).iterdir())) == FORMER_MAX


def test_a_name_that_another_living_process_has_is_not_taken(tmp_path: Path, worker: Begin) -> None:
    kill = worker("twin")
    beside = open_own(tmp_path / "twin", "twin", CLUSTER)
    assert beside.path == tmp_path / "twin.1"
    third = open_own(tmp_path / "twin", "twin", CLUSTER)
    assert third.path == tmp_path / "twin.2"
    kill()
    own = open_own(tmp_path / "twin", "twin", CLUSTER)
    assert own.path == tmp_path / "twin"
    for each in (own, own, beside, third):
        each.close()


def test_a_worker_that_is_back_while_another_clears_up_after_it_is_left_alone(tmp_path: Path, worker: Begin) -> None:
    """Also by those that come after who clears up: a lock that it could not have would leave it without one."""
    kill = worker("busy")
    (tmp_path / "busy" / "partitions" / JOB).mkdir(parents=True)
    kill()

    async def story() -> None:
        heir = heir_of(tmp_path)
        assert await heir.look() == (JOB,)
        back = open_own(tmp_path / "busy", "busy", CLUSTER)
        (back.path / "attempts").mkdir()
        heir.close()
        later = heir_of(tmp_path)
        assert await later.look() == (JOB,)
        await later.release(JOB)
        assert (back.path / "attempts").is_dir()
        assert not (tmp_path / "busy").exists()
        later.close()
        back.close()

    asyncio.run(story())
