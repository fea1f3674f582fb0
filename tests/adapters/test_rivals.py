"""Two jobs begin from one savepoint at the same instant: one runs, whatever each of them sees when."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark.streams import rivals
from firesteel.adapters.spark.streams.checkpoints import prepared
from firesteel.adapters.spark.streams.rivals import Rival
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.savepoints import write_savepoint
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.runtime.ports import TaskFailedError
from tests.adapters.snapshots.checkpoints import FakeCheckpoint
from tests.adapters.test_checkpoints import STREAM, deployed, directories

HEADER = SavepointHeader(job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0)
FIRST, SECOND = JobID("1" * 32), JobID("2" * 32)


def started(tmp_path: Path, job_id: JobID) -> JobGraph:
    """A job from the savepoint of one that has ended, of two queries."""
    savepoint = tmp_path / "savepoint"
    if not savepoint.exists():
        running = {uid: str(FakeCheckpoint(tmp_path / uid).commit(2).root) for uid in ("result", "other")}
        write_savepoint(str(savepoint), running, HEADER)
    configuration = {"execution.state-recovery.path": str(savepoint)}
    return msgspec.structs.replace(STREAM, job_id=job_id, configuration=configuration)


def begun(tmp_path: Path) -> list[str]:
    """Jobs that have checkpoints of `result`."""
    top = tmp_path / "shared"
    return [job for job in sorted(os.listdir(top)) if rivals.attempts_of(top / job / "result")]


def tries(tmp_path: Path, job_id: JobID, before_it_makes: Callable[[], None] = lambda: None) -> bool:
    """Whether the job begins, when it looks once."""
    made, graph = directories(tmp_path), started(tmp_path, job_id)
    if made.rival(graph, deployed(0)):
        return False
    before_it_makes()
    made.prepare(graph, deployed(0))
    return True


@pytest.mark.parametrize("places", [("said",), ("looked",), ("made",), ("said", "looked"), ("said", "made")])
@pytest.mark.parametrize(("one", "other"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_one_begins_whatever_is_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: JobID, other: JobID, places: tuple[str, ...]
) -> None:
    """While one job begins the other one tries to: after it has said so, after it has looked, before it has directories."""
    look, begins = rivals.rivals_of, {one: False, other: False}

    def other_tries(place: str) -> None:
        if place in places and not begins[other]:
            begins[other] = tries(tmp_path, other)

    def looks(top: Path, job_id: JobID, ids: Mapping[str, str]) -> list[Rival]:
        if job_id == other:
            return look(top, job_id, ids)
        other_tries("said")
        found = look(top, job_id, ids)
        other_tries("looked")
        return found

    monkeypatch.setattr(rivals, "rivals_of", looks)
    begins[one] = tries(tmp_path, one, lambda: other_tries("made"))
    monkeypatch.setattr(rivals, "rivals_of", look)
    for job_id in (one, other, one):  # whoever was refused looks again
        begins[job_id] = begins[job_id] or tries(tmp_path, job_id)
    assert [job_id for job_id, has_begun in begins.items() if has_begun] == begun(tmp_path)
    assert len(begun(tmp_path)) == 1
    assert not list((tmp_path / "shared").rglob(".begins*"))


def test_of_many_that_begin_at_once_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(rivals, "WAIT_SECONDS", 0.5)
    graphs = [started(tmp_path, JobID(f"{number:032x}")) for number in range(1, 5)]
    barrier, refused = threading.Barrier(len(graphs)), list[str]()

    def begin(graph: JobGraph) -> None:
        barrier.wait()
        try:
            asyncio.run(prepared(directories(tmp_path), graph, deployed(0), None))
        except TaskFailedError as error:
            refused.append(error.failure.message)

    threads = [threading.Thread(target=begin, args=(each,)) for each in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun(tmp_path)) == 1
    assert len(refused) == len(graphs) - 1
    assert all(f"job {begun(tmp_path)[0]} has not ended" in each for each in refused)


def test_jobs_that_take_different_queries_of_one_savepoint_are_none(tmp_path: Path) -> None:
    """A pipeline is cut in two."""
    ids = rivals.ids_of(dict.fromkeys(("result", "other"), str(tmp_path / "savepoint")))
    assert ids == {}
    started(tmp_path, FIRST)
    ids = rivals.ids_of(dict.fromkeys(("result", "other"), str(tmp_path / "savepoint")))
    top = tmp_path / "shared"
    assert rivals.rival_of(top, FIRST, ["result"], {"result": ids["result"]}) is None
    assert rivals.rival_of(top, SECOND, ["other"], {"other": ids["other"]}) is None
    third = rivals.rival_of(top, JobID("3" * 32), ["other"], ids)
    assert third is not None
    assert not third.has_begun


def test_a_job_is_one_whatever_region_is_first(tmp_path: Path) -> None:
    """Else each would have a query that the other lacks, and both would fail."""
    started(tmp_path, FIRST)
    ids = rivals.ids_of(dict.fromkeys(("result", "other"), str(tmp_path / "savepoint")))
    top = tmp_path / "shared"
    assert rivals.rival_of(top, SECOND, ["result"], ids) is None
    assert rivals.rival_of(top, FIRST, ["other"], ids) is not None, "it waits"
    assert rivals.rival_of(top, SECOND, ["result"], ids) is not None, "it takes that back"
    assert rivals.rival_of(top, FIRST, ["other"], ids) is None
