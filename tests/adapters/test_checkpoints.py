"""Directories of checkpoints: each attempt has its own, and goes on from the one before."""

import asyncio
import errno
import itertools
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from firesteel.adapters.spark.streams import checkpoints, making, rivals
from firesteel.adapters.spark.streams.checkpoints import CheckpointDirectories, prepared
from firesteel.adapters.spark.streams.snapshots.listing import is_fence
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader, SinkLog
from firesteel.adapters.spark.streams.snapshots.points import last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import dispose, read_manifest, verify, write_savepoint
from firesteel.model.branches import Branch, branch_text
from firesteel.model.checkpoints import CheckpointOrder
from firesteel.model.failures import FailureKind
from firesteel.model.ids import AllocationID, JobID, RegionAttemptID, RegionIndex
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.options import Configuration
from firesteel.model.options.streams import BRANCH
from firesteel.model.streams import SavepointOrder, SavepointQueries, StateOrder, StateQuestion
from firesteel.model.tasks import TaskDeployment
from firesteel.runtime.ports import TaskFailedError
from tests.adapters.snapshots.checkpoints import FakeCheckpoint
from tests.core.graphs import job

STREAM = msgspec.structs.replace(job("lines -> result; lines -> other; elsewhere"), job_type=JobType.STREAMING)
CHECKPOINTS = "execution.checkpointing.dir"


def deployed(attempt: int, former: int = -1) -> TaskDeployment:
    return TaskDeployment(
        attempt=RegionAttemptID(STREAM.job_id, RegionIndex(0), attempt),
        allocation_id=AllocationID("a"),
        vertices=tuple(vertex.id for vertex in STREAM.vertices if vertex.name != "elsewhere"),
        subtask=0,
        former=former,
    )


def query_of(directory: str) -> FakeCheckpoint:
    return FakeCheckpoint(Path(directory))


def files_of(directory: str) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in Path(directory).rglob("*") if path.is_file())


def directories(tmp_path: Path, results: str = "", **options: str) -> CheckpointDirectories:
    return CheckpointDirectories(Configuration({CHECKPOINTS: str(tmp_path / "shared")} | options), results, tmp_path)


def test_each_sink_of_the_region_has_one(tmp_path: Path) -> None:
    found = directories(tmp_path).prepare(STREAM, deployed(0))
    top = tmp_path / "shared" / STREAM.job_id
    assert found == {"result": str(top / "result/0"), "other": str(top / "other/0")}
    assert [os.listdir(path) for path in found.values()] == [[], []]
    assert last_committed(found["result"]) is None


def test_a_batch_pipeline_has_none(tmp_path: Path) -> None:
    assert directories(tmp_path).prepare(job("lines -> result"), deployed(0)) == {}
    assert os.listdir(tmp_path) == []


def test_the_next_attempt_goes_on_from_the_one_before_and_leaves_it_alone(tmp_path: Path) -> None:
    made = directories(tmp_path)
    first = query_of(made.prepare(STREAM, deployed(0))["result"]).commit(2)
    first.plan(2)
    second = made.prepare(STREAM, deployed(1))["result"]
    assert last_committed(second) == 1
    assert (Path(second) / "offsets/2").read_text() == (first.root / "offsets/2").read_text(), (
        "planned, so run as it was"
    )
    assert (Path(second) / "sources/0/2.compact").exists()
    assert is_fence(first.root / "offsets/3"), "a zombie plans nothing that its successor does not have"
    first.commit()
    assert last_committed(second) == 1, "what a zombie commits counts for nobody"
    third = made.prepare(STREAM, deployed(4))["result"]
    assert last_committed(third) == 1
    assert sorted(os.listdir(Path(third).parent)) == ["1", "4"], "older ones are gone"


def test_a_first_batch_that_was_planned_is_taken_along(tmp_path: Path) -> None:
    made = directories(tmp_path)
    first = Path(made.prepare(STREAM, deployed(0))["result"])
    for name in ("offsets/0", "metadata", "sources/0/0", "offsets/.1.abc.tmp", "state/0/0/1.delta"):
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        (first / name).write_text(name)
    second = made.prepare(STREAM, deployed(1))["result"]
    assert files_of(second) == ["metadata", "offsets/0", "sources/0/0"]


def test_an_attempt_that_has_planned_nothing_begins_nothing_any_more(tmp_path: Path) -> None:
    made = directories(tmp_path)
    first = Path(made.prepare(STREAM, deployed(0))["result"])
    second = made.prepare(STREAM, deployed(1))["result"]
    assert is_fence(first / "offsets/0")
    assert files_of(second) == []


def test_a_checkpoint_that_is_damaged_is_not_gone_on_from(tmp_path: Path) -> None:
    made = directories(tmp_path)
    first = query_of(made.prepare(STREAM, deployed(0))["result"]).commit(4)
    (first.root / "offsets/3").unlink()
    with pytest.raises(TaskFailedError, match="offsets/3 is not there"):
        made.prepare(STREAM, deployed(1))


def test_where_they_are(tmp_path: Path) -> None:
    def place(results: str, given: str, graph: JobGraph = STREAM) -> str:
        made = CheckpointDirectories(Configuration({CHECKPOINTS: given}), results, tmp_path / "work")
        return made.prepare(graph, deployed(0))["other"].removesuffix(f"/{STREAM.job_id}/other/0")

    own = msgspec.structs.replace(STREAM, configuration={CHECKPOINTS: f"file://{tmp_path}/own"})
    own_place = str(tmp_path / "work" / "checkpoints")
    assert place("", "") == own_place
    assert place("s3a://bucket/results", "") == own_place, "files only, as yet"
    assert place(f"{tmp_path}/results", "") == f"{tmp_path}/results/checkpoints"
    assert place(f"{tmp_path}/results", f"{tmp_path}/given") == f"{tmp_path}/given"
    assert place("", f"{tmp_path}/given", own) == f"{tmp_path}/own", "the job's own comes first"
    for given in ("s3a://bucket/x", "relative/x"):
        with pytest.raises(TaskFailedError, match="no absolute path and no file: URI"):
            place("", given)


def test_a_worker_that_has_not_what_was_committed_says_so(tmp_path: Path) -> None:
    alone = CheckpointDirectories(Configuration(), "", tmp_path)
    home = tmp_path / "checkpoints" / STREAM.job_id / "result"
    with pytest.raises(TaskFailedError, match=f"the checkpoints of result are not here: .* none of them in {home}"):
        alone.prepare(STREAM, deployed(1, former=0))
    begun = alone.prepare(STREAM, deployed(2))
    assert os.listdir(begun["result"]) == [], "no attempt before has run"
    shared = directories(tmp_path).prepare(STREAM, deployed(1, former=0))
    assert list(shared) == ["result", "other"], "nobody knows that one has run, and all look here"


def test_an_attempt_that_can_not_be_made_leaves_nothing_and_the_next_one_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = directories(tmp_path)
    query_of(made.prepare(STREAM, deployed(0))["other"]).commit(2)
    homes = {uid: tmp_path / "shared" / STREAM.job_id / uid for uid in ("result", "other")}
    with monkeypatch.context() as patch:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patch.setattr(making, "copy_into", FailsWith(full))
        for attempt in (1, 2):
            with pytest.raises(TaskFailedError, match="No space left on device") as raised:
                made.prepare(STREAM, deployed(attempt))
            failure = raised.value.failure
            assert (failure.kind, failure.unbegun) == (FailureKind.ENVIRONMENT, True)
            assert [os.listdir(home) for home in homes.values()] == [["0"], ["0"]], "of the other query as well"
    assert last_committed(made.prepare(STREAM, deployed(3))["other"]) == 1


@dataclass(frozen=True)
class FailsWith:
    error: Exception

    def __call__(self, *arguments: object) -> NoReturn:
        raise self.error


def test_a_savepoint_may_be_disposed_of_when_the_first_attempt_has_begun(tmp_path: Path) -> None:
    running = query_of(directories(tmp_path).prepare(STREAM, deployed(0))["result"]).commit(2)
    header = SavepointHeader(job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0)
    savepoint = tmp_path / "savepoint"
    write_savepoint(str(savepoint), {"result": str(running.root)}, header)
    configuration = {"execution.state-recovery.path": str(savepoint)}
    restored = msgspec.structs.replace(STREAM, job_id=JobID("1" * 32), configuration=configuration)
    made = directories(tmp_path)
    assert last_committed(made.prepare(restored, deployed(0))["result"]) == 1
    dispose(str(savepoint))
    assert last_committed(made.prepare(restored, deployed(1))["result"]) == 1
    with pytest.raises(TaskFailedError, match="is no savepoint"):
        made.prepare(msgspec.structs.replace(restored, job_id=JobID("2" * 32)), deployed(0))


def test_a_savepoint_of_a_later_spark_is_refused(tmp_path: Path) -> None:
    running = query_of(directories(tmp_path).prepare(STREAM, deployed(0))["result"]).commit(2)
    configuration = {"execution.state-recovery.path": str(tmp_path / "savepoint")}
    for version, refused in (("99.0.0", True), ("4.0.1-amzn", False), ("", False)):
        header = SavepointHeader(job_id="0" * 32, job_name="old", spark_version=version, created_ms=0)
        write_savepoint(str(tmp_path / "savepoint"), {"result": str(running.root)}, header)
        job_id = JobID(str(len(version)) * 32)
        restored = msgspec.structs.replace(STREAM, job_id=job_id, configuration=configuration)
        with pytest.raises(TaskFailedError, match="was taken with Spark 99") if refused else nullcontext():
            directories(tmp_path).prepare(restored, deployed(0))
        dispose(str(tmp_path / "savepoint"))


def test_a_job_does_not_begin_from_the_savepoint_of_one_that_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would stop the query that runs, for the new one has its id."""
    made = directories(tmp_path)
    running = query_of(made.prepare(STREAM, deployed(0))["result"]).commit(2)
    header = SavepointHeader(job_id=STREAM.job_id, job_name="old", spark_version="4.3.0", created_ms=0)
    savepoint = str(tmp_path / "savepoint")
    write_savepoint(savepoint, {"result": str(running.root)}, header)
    restored = msgspec.structs.replace(
        STREAM, job_id=JobID("1" * 32), configuration={"execution.state-recovery.path": savepoint}
    )
    monkeypatch.setattr(rivals, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(rivals, "WAIT_SECONDS", 0.0)
    with pytest.raises(TaskFailedError, match=f"job {STREAM.job_id} has not ended, and its query result") as raised:
        asyncio.run(prepared(made, restored, deployed(0), None))
    assert raised.value.failure.kind is FailureKind.NON_RECOVERABLE
    assert os.listdir(tmp_path / "shared") == [STREAM.job_id], "nothing of it was begun"
    note = branch_text(Branch(of=STREAM.job_id))
    branch = msgspec.structs.replace(restored, configuration=restored.configuration | {BRANCH.key: note})
    assert made.rival(branch, deployed(0)) == "", "it has an id of its own"
    made.release(STREAM.job_id, True)
    begun = asyncio.run(prepared(made, restored, deployed(0), None))
    assert last_committed(begun["result"]) == 1
    third = msgspec.structs.replace(restored, job_id=JobID("3" * 32))
    assert f"job {restored.job_id} has not ended" in made.rival(third, deployed(0)), "both are of one savepoint"


def test_a_query_at_its_beginning_has_no_state_to_read(tmp_path: Path) -> None:
    header = SavepointHeader(job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0)
    savepoint = str(tmp_path / "savepoint")
    write_savepoint(savepoint, {"result": str(FakeCheckpoint(tmp_path / "begun").root)}, header)
    order = StateOrder(uid="", savepoint=savepoint, question=StateQuestion())
    with pytest.raises(TaskFailedError, match=f"result had committed no batch when savepoint {savepoint} was taken"):
        reading(directories(tmp_path), order)
    assert os.listdir(tmp_path / "shared") == []


def test_of_a_savepoint_of_several_queries_those_are_named_to_read_from(tmp_path: Path) -> None:
    header = SavepointHeader(job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0)
    savepoint = str(tmp_path / "savepoint")
    taken = {uid: str(FakeCheckpoint(tmp_path / uid).commit(0).root) for uid in ("result", "other")}
    write_savepoint(savepoint, taken, header)
    for uid, has in (("", "holds 2 queries"), ("nobody", "has no query 'nobody'")):
        order = StateOrder(uid=uid, savepoint=savepoint, question=StateQuestion())
        with pytest.raises(TaskFailedError, match=f"savepoint {savepoint} {has}: name one of result, other$"):
            reading(directories(tmp_path), order)


def reading(made: CheckpointDirectories, order: StateOrder) -> list[str]:
    with made.copy_for_reading(order) as (copy, uid):
        assert uid == "result"
        return files_of(str(copy))


def test_a_copy_for_reading_is_gone_when_it_was_read(tmp_path: Path) -> None:
    made = directories(tmp_path)
    query_of(made.prepare(STREAM, deployed(0))["result"]).commit(2)
    order = StateOrder(uid="result", job_id=STREAM.job_id, question=StateQuestion())
    assert "commits/1" in reading(made, order)
    assert os.listdir(tmp_path / "shared") == [STREAM.job_id]


READ = """
import pathlib, sys
from firesteel.adapters.spark.streams import checkpoints
from firesteel.adapters.spark.streams.checkpoints import CheckpointDirectories
from firesteel.model.options import Configuration
from firesteel.model.streams import StateOrder, StateQuestion
made = CheckpointDirectories(Configuration({"execution.checkpointing.dir": sys.argv[1]}), "", pathlib.Path("unused"))
with made.copy_for_reading(StateOrder(uid="result", job_id=sys.argv[2], question=StateQuestion())):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_the_next_reader_removes_what_one_that_died_has_left(tmp_path: Path) -> None:
    made = directories(tmp_path)
    query_of(made.prepare(STREAM, deployed(0))["result"]).commit(2)
    top = tmp_path / "shared"
    command = [sys.executable, "-c", READ, str(top), STREAM.job_id]
    order = StateOrder(uid="result", job_id=STREAM.job_id, question=StateQuestion())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (left,) = set(os.listdir(top)) - {STREAM.job_id}
        os.utime(top / left, (1, 1))
        reading(made, order)
        assert (top / left).exists(), "it is at work"
        process.kill()
    os.utime(top / left, (1, 1))
    reading(made, order)
    assert os.listdir(top) == [STREAM.job_id]


def test_they_go_with_the_job(tmp_path: Path) -> None:
    made = directories(tmp_path)
    made.prepare(STREAM, deployed(0))
    made.release(STREAM.job_id, False)
    assert os.listdir(tmp_path / "shared") == [STREAM.job_id], "who has given it up leaves it to others"
    made.release(STREAM.job_id, True)
    made.release(STREAM.job_id, True)
    assert os.listdir(tmp_path / "shared") == []


def test_where_the_queries_are_is_looked_up(tmp_path: Path) -> None:
    made = directories(tmp_path)
    found = made.prepare(STREAM, deployed(0))
    running = query_of(found["result"]).commit(3)
    queries = (SavepointQueries(region=RegionIndex(0), attempt=0, uids=("result", "other")),)
    result, other = made.look(STREAM.job_id, CheckpointOrder(checkpoint_id=1, queries=queries))
    assert (result.uid, result.batch, result.oldest_batch, result.query_id) == ("result", 2, 0, running.query_id)
    assert result.size_bytes > running.data_bytes
    assert (other.uid, other.batch, other.size_bytes) == ("other", -1, 0), "it is at its beginning"
    elsewhere = CheckpointDirectories(Configuration(), "", tmp_path / "elsewhere")
    order = CheckpointOrder(checkpoint_id=1, queries=queries, checkpoints_dir=str(tmp_path / "shared"))
    assert elsewhere.look(STREAM.job_id, order) == (result, other), "another worker finds them where all share them"
    (running.root / "state/0/1/3.zip").unlink()
    with pytest.raises(TaskFailedError, match=r"state/0/1/3\.\* is not there"):
        made.look(STREAM.job_id, order)


# ── savepoints ───────────────────────────────────────────────────────────────────────────────
def order(tmp_path: Path, attempt: int, timeout_ms: int = 0) -> SavepointOrder:
    return SavepointOrder(
        savepoint_id="a" * 32,
        location=str(tmp_path / "savepoint"),
        queries=(SavepointQueries(region=RegionIndex(0), attempt=attempt, uids=("result",)),),
        job_name="the job",
        vertices=(),
        timeout_ms=timeout_ms,
    )


def saved_batch(tmp_path: Path) -> int:
    (query,) = read_manifest(str(tmp_path / "savepoint")).queries
    return query.point.batch


def test_one_that_was_written_before_is_not_written_again(tmp_path: Path) -> None:
    made = directories(tmp_path)
    running = query_of(made.prepare(STREAM, deployed(0))["result"]).commit(2)
    made.save(STREAM.job_id, order(tmp_path, 0))
    running.commit()
    made.save(STREAM.job_id, order(tmp_path, 0))
    assert saved_batch(tmp_path) == 1, "the answer was lost"


def test_one_that_was_given_up_is_not_taken_for_another(tmp_path: Path) -> None:
    """The queries have gone on since: a job that ended with it would write its last batches once more."""
    made = directories(tmp_path)
    query_of(made.prepare(STREAM, deployed(0))["result"]).commit(2)
    made.save(STREAM.job_id, order(tmp_path, 0))
    query_of(made.prepare(STREAM, deployed(1))["result"]).commit(3)
    with pytest.raises(TaskFailedError, match="taken before and given up, and the queries have gone on"):
        made.save(STREAM.job_id, order(tmp_path, 1))
    assert saved_batch(tmp_path) == 1, "and whoever was told of it finds it"


def test_one_of_a_query_that_nobody_has_looked_at_yet_has_what_it_began_with(tmp_path: Path) -> None:
    """Else it would be gone on from with any plan, and with an output that has later batches."""
    out, made = tmp_path / "out", directories(tmp_path)
    running = query_of(made.prepare(STREAM, deployed(0))["result"]).commit(3)
    (out / "_spark_metadata").mkdir(parents=True)
    for batch in range(4):
        (out / f"_spark_metadata/{batch}").write_text("v1")
    header = SavepointHeader(
        job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0, fingerprints={"result": "{}"}
    )
    before = str(tmp_path / "before")
    write_savepoint(before, {"result": str(running.root)}, header, outputs={"result": str(out)})
    configuration = {"execution.state-recovery.path": before}
    restored = msgspec.structs.replace(STREAM, job_id=JobID("1" * 32), configuration=configuration)
    found = made.prepare(restored, deployed(0))
    dispose(before)
    made.save(restored.job_id, order(tmp_path, 0))
    (query,) = read_manifest(str(tmp_path / "savepoint")).queries
    assert query.fingerprint == "{}"
    assert query.sink_log == SinkLog(output=str(out), directory="sink-log")
    verify(str(tmp_path / "savepoint"))
    assert files_of(str(tmp_path / "savepoint" / query.directory / "sink-log")) == ["0", "1", "2"]
    running.root = Path(found["result"])
    running.commit()
    shutil.rmtree(tmp_path / "savepoint")
    made.save(restored.job_id, order(tmp_path, 0))
    (query,) = read_manifest(str(tmp_path / "savepoint")).queries
    assert query.sink_log is None, "it has gone on, and writes elsewhere than into files"


def test_one_that_takes_longer_than_anybody_waits_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = directories(tmp_path)
    query_of(made.prepare(STREAM, deployed(0))["result"]).commit(2)
    now = itertools.count(0.0, 5.0)
    monkeypatch.setattr(checkpoints, "monotonic", lambda: next(now))
    with pytest.raises(TaskFailedError, match="it took too long, and was given up"):
        made.save(STREAM.job_id, order(tmp_path, 0, timeout_ms=5_000))
    assert sorted(os.listdir(tmp_path)) == ["shared", "streams"]
    made.save(STREAM.job_id, order(tmp_path, 0, timeout_ms=5_001))
    assert saved_batch(tmp_path) == 1
