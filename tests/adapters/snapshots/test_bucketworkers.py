"""Savepoints in a bucket: whose they are, what workers do with them, and what they say when the storage does not."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark.streams.checkpoints import CheckpointDirectories
from firesteel.adapters.spark.streams.rivals import ids_of
from firesteel.adapters.spark.streams.snapshots.claims import settle, take
from firesteel.adapters.spark.streams.snapshots.errors import (
    NoSavepoint,
    SavepointClaimed,
    StorageFailed,
    StorageRefused,
    StorageUnsupported,
)
from firesteel.adapters.spark.streams.snapshots.places import place_at
from firesteel.adapters.spark.streams.snapshots.points import last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import (
    dispose,
    read_manifest,
    verify,
    write_savepoint,
)
from firesteel.adapters.storage import s3keys
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.adapters.storage.s3settings import S3Access
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID, RegionIndex
from firesteel.model.options import Configuration
from firesteel.model.streams import (
    ClaimedSavepoint,
    QueriesOrder,
    SavepointOrder,
    SavepointQueries,
    StateOrder,
    StateQuestion,
)
from firesteel.runtime.ports import TaskFailedError
from tests.adapters.snapshots.buckets import URI, names, settings
from tests.adapters.snapshots.checkpoints import FakeCheckpoint
from tests.adapters.snapshots.test_claims import MINE, OTHERS
from tests.adapters.snapshots.test_savepoints import HEADER
from tests.adapters.test_checkpoints import STREAM, deployed
from tests.adapters.test_checkpoints import query_of as query_of_attempt


def claimed(job_id: JobID = MINE, *, back: bool = False, newer: str = "") -> ClaimedSavepoint:
    return ClaimedSavepoint(job_id=job_id, location=URI, is_given_back=back, newer=newer)


def test_one_job_has_it_and_no_other_begins_from_it(s3: str, saved_queries: dict[str, str]) -> None:
    place = place_at(URI, settings(s3))
    write_savepoint(place, saved_queries, HEADER)
    take(place, OTHERS, owns=False)
    settle(claimed(), settings(s3))
    verify(place)
    for _ in range(2):
        take(place, MINE, owns=True)
    for owns in (True, False):
        with pytest.raises(SavepointClaimed, match=f"was claimed by job {MINE}.*delete {URI}/claim/job.json"):
            take(place, OTHERS, owns=owns)
    settle(claimed(OTHERS), settings(s3))
    settle(claimed(back=True), settings(s3))
    take(place, OTHERS, owns=True)
    settle(claimed(OTHERS, newer="/nowhere"), settings(s3))
    verify(place)
    take(place, MINE, owns=True)
    for _ in range(2):
        settle(claimed(), settings(s3))
    with pytest.raises(NoSavepoint):
        read_manifest(place)
    keys = S3Keys("firesteel", S3Access.of(settings(s3)))
    assert names(keys) == []


# ── by workers ───────────────────────────────────────────────────────────────────────────────
def worker(tmp_path: Path, s3: str, name: str) -> CheckpointDirectories:
    config = Configuration({"execution.checkpointing.dir": str(tmp_path / name / "shared")})
    return CheckpointDirectories(config, "", tmp_path / name, settings(s3))


def order_of(attempt: int) -> SavepointOrder:
    made = SavepointQueries(region=RegionIndex(0), attempt=attempt, uids=("result",))
    return SavepointOrder(savepoint_id="1", location=URI, queries=(made,), job_name="clicks", vertices=())


def test_a_job_goes_on_from_it_elsewhere_and_disposes_of_it(s3: str, tmp_path: Path) -> None:
    first = worker(tmp_path, s3, "first")
    query_of_attempt(first.prepare(STREAM, deployed(0))["result"]).commit(3)
    for _ in range(2):  # a new master may ask again
        first.save(STREAM.job_id, order_of(0))
    first.release(STREAM.job_id, True)
    second = worker(tmp_path, s3, "second")
    configuration = {"execution.state-recovery.path": URI, "execution.state-recovery.claim-mode": "CLAIM"}
    restored = msgspec.structs.replace(STREAM, job_id=MINE, configuration=configuration)
    assert second.rival(restored, deployed(0)) == ""
    directory = second.prepare(restored, deployed(0))["result"]
    assert last_committed(directory) == 2
    refused = msgspec.structs.replace(restored, job_id=OTHERS)
    with pytest.raises(TaskFailedError, match=f"was claimed by job {MINE}"):
        worker(tmp_path, s3, "third").prepare(refused, deployed(0))
    assert second.discard([claimed().reference()]) == []
    with pytest.raises(NoSavepoint):
        read_manifest(place_at(URI, settings(s3)))
    assert last_committed(second.prepare(restored, deployed(1))["result"]) == 2, "it needs nothing of it"


def test_its_state_is_read_and_its_queries_are_looked_at(s3: str, tmp_path: Path) -> None:
    first, second = worker(tmp_path, s3, "first"), worker(tmp_path, s3, "second")
    query_of_attempt(first.prepare(STREAM, deployed(0))["result"]).commit(3)
    first.save(STREAM.job_id, order_of(0))
    with second.copy_for_reading(StateOrder(uid="", savepoint=URI, question=StateQuestion())) as (copy, uid):
        assert (uid, last_committed(str(copy))) == ("result", 2)
    assert os.listdir(tmp_path / "second/shared") == []
    (sight,) = second.sights(QueriesOrder(job_id=STREAM.job_id, uids=("result",), savepoint=URI))
    assert sight.positions[0].batch == 2
    dispose(place_at(URI, settings(s3)))


def test_a_beginning_is_known_by_its_query_as_well(s3: str, tmp_path: Path) -> None:
    """Of two jobs with one query the later is refused, also before its first batch."""
    first = worker(tmp_path, s3, "first")
    running = FakeCheckpoint(Path(first.prepare(STREAM, deployed(0))["result"]))
    running.plan(0)
    place = place_at(f"{URI}-begun", settings(s3))
    write_savepoint(place, {"result": str(running.root)}, HEADER)
    assert ids_of({"result": place}) == {"result": running.query_id}
    dispose(place)


@contextlib.contextmanager
def silence() -> Iterator[str]:
    """URL of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_what_the_storage_says_is_one_sentence_with_a_way_out(
    s3: str, saved_queries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3keys, "SILENCE_LIMIT_S", 0.2)
    known = settings(s3)
    with silence() as nobody:
        for location, given, error, told in (
            ("s3://nowhere/a/b", known, StorageRefused, "says NoSuchBucket: there is no such bucket: make it"),
            (URI, known | {"fs.s3a.endpoint": nobody}, StorageFailed, "does not answer .*; is s3.endpoint right"),
        ):
            place = place_at(location, given)
            for work in (
                lambda place=place: write_savepoint(place, saved_queries, HEADER),
                lambda place=place: verify(place),
                lambda place=place: dispose(place),
            ):
                with pytest.raises(error, match=f"savepoint {location} can't be reached: .*{told}"):
                    work()
    with pytest.raises(StorageRefused, match=r"set both s3\.access-key and s3\.secret-key"):
        place_at(URI, {key: text for key, text in known.items() if "secret" not in key})
    with pytest.raises(StorageRefused, match=r"s3://a/\.\./b can't be reached: s3://a/\.\./b has a step"):
        place_at("s3://a/../b", known)
    with pytest.raises(StorageUnsupported, match=r"savepoints that, s3://BUCKET/PATH or hdfs://HOST:PORT/PATH"):
        place_at("gs://bucket/savepoints")


def test_a_job_whose_storage_is_silent_tries_again(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3keys, "SILENCE_LIMIT_S", 0.2)
    restored = msgspec.structs.replace(STREAM, job_id=MINE, configuration={"execution.state-recovery.path": URI})
    with silence() as nobody, pytest.raises(TaskFailedError, match="does not answer") as raised:
        worker(tmp_path, nobody, "first").prepare(restored, deployed(0))
    assert (raised.value.failure.kind, raised.value.failure.unbegun) == (FailureKind.ENVIRONMENT, True)
    with pytest.raises(TaskFailedError, match=r"is no savepoint of firesteel: it has no savepoint\.json") as raised:
        worker(tmp_path, s3, "first").prepare(restored, deployed(0))
    assert raised.value.failure.kind is FailureKind.NON_RECOVERABLE
