"""Sink commits in a bucket: all modes, cut at every request, carried on by another, with others coming in between."""

import contextlib
import json
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.storage.errors import CommitRefused, TargetRefused, Unusable
from firesteel.adapters.storage.lease import LEASE_S, LeaseLost
from firesteel.adapters.storage.objects import Conflict
from firesteel.adapters.storage.objectsinks import ObjectSinks
from firesteel.adapters.storage.unremoved import note_unremoved
from firesteel.model.ids import JobVertexID
from firesteel.model.tasks import Committed, SinkCommit, StagedPart
from firesteel.testing.power import PowerCut
from tests.integration.storage.fakekeys import FakeKeys, Time

OUT, STAGING = "a/out/", "a/.firesteel-staging/"
MODES = ("overwrite", "append", "error", "ignore", "overwrite-partitions")
JOB, OTHER = "1" * 32, "2" * 32
NAMES = ("p=0/part-0-x.parquet", "p=1/part-1-x.parquet")


def sinks(keys: FakeKeys, time: Time | None = None) -> ObjectSinks:
    time = time or Time()
    return ObjectSinks(keys, clock=time.clock, wait=time.wait)


def staged(
    keys: FakeKeys, mode: str, number: int = 1, names: tuple[str, ...] = NAMES, *, job: str = JOB, place: int = 0
) -> SinkCommit:
    store, target = sinks(keys), "s3a://bucket/a/out"
    staging = store.staging(target, job, "0-0", str(place))
    store.prepare(target, staging)
    for name in (*names, "_SUCCESS", "_temporary/0/x", "p=0/"):
        keys.write(f"{STAGING}{job}/0-0/{place}/{name}", f"new {number}".encode())
    assert sorted(store.files(staging)) == sorted(names)
    return SinkCommit(
        commit_id=f"{number:016x}" * 2,
        vertex_id=JobVertexID("v"),
        function="result",
        format="parquet",
        mode=mode,
        target=target,
        staging=staging,
        files=tuple(sorted(names)),
    )


def old_output(keys: FakeKeys, names: tuple[str, ...] = ("p=0/part-0-old.parquet",)) -> None:
    """By an earlier job, beside what another program has put there."""
    commit = staged(keys, "append", 9, names, job="9" * 32)
    sinks(keys).commit(commit)
    for key in [key for key in keys.contents if key.endswith(".parquet")]:
        keys.write(key, b"old")


def counted(keys: FakeKeys) -> list[str]:
    """What those see who go by the manifests (docs/sinks.md)."""
    manifests = {
        key.rpartition("/")[2].removesuffix(".json"): json.loads(found.data)
        for key, found in keys.contents.items()
        if key.startswith(f"{OUT}_firesteel/commits/")
    }
    whole = {each for manifest in manifests.values() for each in manifest.get("replaced", ())}
    seen = []
    for commit_id, manifest in manifests.items():
        later = [each for each in manifests.values() if commit_id in each.get("replaced_within", ())]
        gone = {name.rpartition("/")[0] for each in later for name in each["files"]}
        if commit_id not in whole:
            seen += [name for name in manifest["files"] if name.rpartition("/")[0] not in gone]
    return sorted(keys.contents[OUT + name].data.decode() for name in seen)


def assert_clean(keys: FakeKeys) -> None:
    assert not [key for key in keys.contents if key.startswith(STAGING)], "nothing is left of it"
    assert keys.uploads == []


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_is_idempotent(mode: str) -> None:
    keys = FakeKeys()
    commit = staged(keys, mode)
    for _ in range(3):
        assert sinks(keys).commit(commit) == Committed()
        assert keys.texts(OUT) == counted(keys) == ["new 1", "new 1"]
        assert f"{OUT}_SUCCESS" in keys.contents
        assert_clean(keys)


def test_overwrite_replaces_and_append_adds() -> None:
    keys = FakeKeys()
    old_output(keys)
    keys.write(f"{OUT}by hand.parquet", b"foreign")
    sinks(keys).commit(staged(keys, "append", 1, NAMES[:1]))
    assert (keys.texts(OUT), counted(keys)) == (["foreign", "new 1", "old"], ["new 1", "old"])
    sinks(keys).commit(staged(keys, "overwrite", 2, NAMES[:1]))
    assert keys.texts(OUT) == counted(keys) == ["new 2"]
    sinks(keys).commit(staged(keys, "overwrite", 3, ()))
    assert keys.texts(OUT) == []
    assert sorted(keys.contents) == [f"{OUT}_SUCCESS", f"{OUT}_firesteel/commits/{'0' * 15}3{'0' * 15}3.json"]


def test_a_commit_that_was_done_deletes_nothing_that_came_after_it() -> None:
    keys = FakeKeys()
    old_output(keys)
    commit = staged(keys, "overwrite")
    sinks(keys).commit(commit)
    keys.write(f"{OUT}by hand.parquet", b"foreign")
    sinks(keys).commit(commit)
    assert keys.texts(OUT) == ["foreign", "new 1", "new 1"]


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_data_that_is_there_is_left_alone(mode: str) -> None:
    keys = FakeKeys()
    old_output(keys)
    commit = staged(keys, mode)
    keys.write(
        f"{OUT}p=0/part-{commit.commit_id[:16]}-0-x.parquet", b"new 1"
    )  # by a try that was cut, before the old came
    for _ in range(2):
        if mode == "error":
            with pytest.raises(CommitRefused, match="s3a://bucket/a/out exists and holds data; use mode"):
                sinks(keys).commit(commit)
        else:
            assert sinks(keys).commit(commit).ignored
            assert_clean(keys)
        assert keys.texts(OUT) == counted(keys) == ["old"]
    sinks(keys).remove(commit.staging)
    assert_clean(keys)


def test_only_the_partitions_that_were_written_are_replaced() -> None:
    keys, names = FakeKeys(), ("k=a%2Fb/l=1/part-0-x.parquet", "k=__HIVE_DEFAULT_PARTITION__/l=1/part-0-x.parquet")
    sinks(keys).commit(staged(keys, "overwrite", 1, (*names, "k=a%2Fb/l=2/part-0-x.parquet")))
    keys.write(f"{OUT}k=a%2Fb/l=1/by hand.parquet", b"foreign")
    second = staged(keys, "overwrite-partitions", 2, (*names, "k=c/l=1/part-0-x.parquet"))
    for _ in range(2):
        sinks(keys).commit(second)
        assert keys.texts(OUT) == counted(keys) == ["new 1", "new 2", "new 2", "new 2"]
    sinks(keys).commit(staged(keys, "append", 3, names))
    sinks(keys).commit(staged(keys, "overwrite-partitions", 4, names))
    assert keys.texts(OUT) == counted(keys) == ["new 1", "new 2", "new 4", "new 4"]
    sinks(keys).commit(staged(keys, "overwrite-partitions", 5, ()))
    assert keys.texts(OUT) == counted(keys) == ["new 1", "new 2", "new 4", "new 4"]


EXPECTED = {
    "overwrite": ["new 1", "new 1"],
    "append": ["new 1", "new 1", "old", "old"],
    "error": ["new 1", "new 1"],
    "ignore": ["new 1", "new 1"],
    "overwrite-partitions": ["new 1", "new 1", "old"],
}


def begun(mode: str) -> tuple[FakeKeys, SinkCommit]:
    """A commit that is about to be carried out; and uploads in parts that were begun for it."""
    keys = FakeKeys()
    if mode not in ("error", "ignore"):
        old_output(keys, ("p=0/part-0-old.parquet", "p=2/part-0-old.parquet"))
    commit = staged(keys, mode)
    keys.uploads = [f"{STAGING}{JOB}/0-0/0/p=0/part-9.parquet", f"{OUT}part-{commit.commit_id[:16]}-0.parquet"]
    keys.restart()
    return keys, commit


def requests_of(mode: str) -> range:
    keys, commit = begun(mode)
    sinks(keys).commit(commit)
    return range(keys.requests)


def cut(mode: str, number: int, done: bool) -> tuple[FakeKeys, SinkCommit]:
    """The worker has died at that request; its lock has run out."""
    keys, commit = begun(mode)
    keys.cut_at, keys.done = number, done
    with pytest.raises(PowerCut):
        sinks(keys).commit(commit)
    keys.restart()
    return keys, commit


@pytest.mark.parametrize("done", [True, False], ids=["done", "not-done"])
@pytest.mark.parametrize("mode", MODES)
def test_a_commit_cut_anywhere_is_finished_by_the_next(mode: str, done: bool) -> None:
    old = [] if mode in ("error", "ignore") else ["old", "old"]
    for number in requests_of(mode):
        keys, commit = cut(mode, number, done)
        seen = keys.texts(OUT)
        assert counted(keys) in (old, EXPECTED[mode]), "who goes by manifests sees all or nothing of it"
        kept = ["old"] if mode == "overwrite-partitions" else old if mode == "append" else []
        assert seen.count("old") == len(old) or seen.count("new 1") == 2, "the old files go when the new ones are there"
        assert seen.count("old") >= len(kept)
        sinks(keys).commit(commit)
        assert keys.texts(OUT) == counted(keys) == EXPECTED[mode]
        assert_clean(keys)


@pytest.mark.parametrize("done", [True, False], ids=["done", "not-done"])
@pytest.mark.parametrize("second", ["overwrite", "append", "overwrite-partitions"])
@pytest.mark.parametrize("mode", ["overwrite", "append", "overwrite-partitions"])
def test_another_job_comes_in_between(mode: str, second: str, done: bool) -> None:
    """What is there in the end is what the two leave that are carried out one after the other, in some order."""
    orders = []
    for turn in (1, -1):
        keys, commit = begun(mode)
        pair = [commit, staged(keys, second, 2, NAMES[:1], job=OTHER)]
        for each in pair[::turn]:
            sinks(keys).commit(each)
        orders.append(keys.texts(OUT))
    for number in requests_of(mode):
        keys, commit = cut(mode, number, done)
        sinks(keys).commit(staged(keys, second, 2, NAMES[:1], job=OTHER))
        for _ in range(2):
            sinks(keys).commit(commit)
            assert keys.texts(OUT) == counted(keys)
            assert keys.texts(OUT) in orders
        assert_clean(keys)


@pytest.mark.parametrize("done", [True, False], ids=["answer-lost", "not-done"])
@pytest.mark.parametrize("mode", MODES)
def test_a_busy_store_is_asked_again(mode: str, done: bool) -> None:
    """503 SlowDown, 500, a timeout: each request fails twice, done or not, and the commit does not notice."""
    for number in requests_of(mode):
        keys, commit = begun(mode)
        keys.fail_at, keys.done = frozenset((number, number + 1)), done
        sinks(keys).commit(commit)
        assert keys.texts(OUT) == counted(keys) == EXPECTED[mode]
        assert_clean(keys)


@pytest.mark.parametrize("mode", MODES)
def test_a_store_that_goes_away_costs_a_try_and_no_rows(mode: str) -> None:
    for number in requests_of(mode):
        keys, commit = begun(mode)
        keys.fail_at = frozenset(range(number, 10_000))
        with pytest.raises(OSError, match="503 SlowDown") as caught:
            sinks(keys).commit(commit)
        advice = sinks(keys).advice(caught.value, commit.target)
        assert (
            advice
            == "s3a://bucket/a/out: 503 SlowDown; retry the job. Who lists the target may find some of its rows, in copies that no record names"
        )
        keys.restart()
        sinks(keys).commit(commit)
        assert keys.texts(OUT) == counted(keys) == EXPECTED[mode]
        assert_clean(keys)


def test_wrong_credentials_are_not_asked_about_again() -> None:
    keys, commit = begun("append")
    keys.fail_at, keys.error = frozenset(range(10_000)), lambda: Unusable("s3://bucket/a: AccessDenied")
    with pytest.raises(Unusable):
        sinks(keys).commit(commit)
    assert keys.requests == 1


class Late:
    """A worker that stands still with its request of that number on the way: meanwhile its lock runs out, another worker
    does the commit, and another job replaces what that wrote."""

    def __init__(self, keys: FakeKeys, commit: SinkCommit, number: int) -> None:
        self._keys, self._commit, self._left = keys, commit, number
        self.time, self.others_came = Time(), False
        keys.before = self._stand_still

    def _stand_still(self, _: str) -> None:
        self._left -= 1
        if self._left < 0 and not self.others_came:
            self.time.now += 10 * LEASE_S
            self.others_came = True
            sinks(self._keys).commit(self._commit)
            sinks(self._keys).commit(staged(self._keys, "overwrite", 2, NAMES[:1], job=OTHER))


@pytest.mark.parametrize("mode", MODES)
def test_a_worker_that_was_taken_for_dead_spoils_nothing(mode: str) -> None:

    for number in requests_of(mode):
        keys, commit = begun(mode)
        late = Late(keys, commit, number)
        with contextlib.suppress(LeaseLost, FileNotFoundError, Conflict):
            sinks(keys, late.time).commit(commit)
        assert late.others_came
        assert keys.texts(OUT) == counted(keys) == ["new 2"]
        assert_clean(keys)


@pytest.mark.parametrize("mode", MODES)
def test_what_several_subtasks_staged_becomes_visible_in_one_commit(mode: str) -> None:
    keys = FakeKeys()
    parts = [
        staged(keys, mode, number, ("p=1/part-0-x.parquet", f"p=0/part-{number}.parquet"), place=number)
        for number in (1, 2, 3)
    ]
    others = tuple(StagedPart(staging=part.staging, files=part.files) for part in parts[1:])
    commit = msgspec.structs.replace(parts[0], parts=others)
    for _ in range(2):
        sinks(keys).commit(commit)
        assert keys.texts(OUT) == counted(keys) == ["new 1", "new 1", "new 2", "new 2", "new 3", "new 3"]
        assert_clean(keys)


def test_lost_staging_is_told_apart_from_a_done_commit() -> None:
    keys = FakeKeys()
    commit = staged(keys, "overwrite")
    sinks(keys).remove(commit.staging)
    with pytest.raises(CommitRefused, match=r"no longer complete .p=0/part-0-x.parquet is gone from s3://bucket/a/"):
        sinks(keys).commit(commit)


def test_a_job_that_is_over_and_whose_objects_could_not_be_removed_is_not_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    keys = FakeKeys()
    first, second = staged(keys, "append"), staged(keys, "overwrite", 2, job=OTHER)
    note_unremoved(second.staging, "it is away")
    assert sinks(keys).commit(first) == Committed()


def test_jobs_that_write_one_target_are_told_of_one_another() -> None:
    keys = FakeKeys()
    first, second = staged(keys, "append"), staged(keys, "overwrite", 2, job=OTHER)
    assert sinks(keys).commit(first).note == f"job {OTHER} is writing s3a://bucket/a/out too, and comes later"
    told = f"job {JOB} has committed to s3a://bucket/a/out while this job ran, and this replaces what it wrote of that"
    assert sinks(keys).commit(second).note == told
    third = staged(keys, "append", 3, place=1)
    elsewhere = sinks(keys).staging("s3://bucket/a/other", OTHER, "0-0", "0")
    sinks(keys).prepare("s3://bucket/a/other", elsewhere)
    assert sinks(keys).commit(third) == Committed()


@pytest.mark.parametrize("ignored", ["If-None-Match", "If-Match"])
def test_a_store_without_conditions_is_refused_before_anything_is_staged(ignored: str) -> None:
    class Careless(FakeKeys):
        def put(self, name: str, data: bytes, after: str | None) -> str:
            if (after is None) == (ignored == "If-None-Match"):
                after = self.contents[name].tag if name in self.contents else None
            return super().put(name, data, after)

    with pytest.raises(Unusable, match=f"s3a://bucket/a/out: the store writes an object whatever {ignored} says"):
        staged(Careless(), "append")


def test_an_object_is_no_place_for_rows() -> None:
    keys = FakeKeys()
    keys.write("a/out", b"")
    assert sinks(keys).holds_data("s3://bucket/a/out")
    with pytest.raises(TargetRefused, match="s3a://bucket/a/out is an object"):
        staged(keys, "append")


@pytest.mark.parametrize(("key", "holds"), [("a/out/", False), ("a/out/x", True), ("a/outer/x", False)])
def test_an_empty_directory_holds_no_data(key: str, holds: bool) -> None:
    keys = FakeKeys()
    keys.write(key, b"")
    assert sinks(keys).holds_data("s3://bucket/a/out") is holds
