"""Commits in a bucket of a real server: SIGKILL at every request, and a network that fails. No Spark."""

import os
import signal
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from firesteel.adapters.storage.objectsinks import ObjectSinks
from firesteel.adapters.storage.s3keys import S3Keys, _client
from firesteel.adapters.storage.s3settings import S3Access, hadoop_settings
from firesteel.model.ids import JobVertexID
from firesteel.model.options import Configuration
from firesteel.model.tasks import SinkCommit, StagedPart
from tests.stack.conftest import s3_settings
from tests.stack.faultyproxy import FAULTS, faulty_proxy

MODES = ("overwrite", "append", "error", "ignore", "overwrite-partitions")
REQUESTS = ("get", "put", "write", "found", "steps", "copy", "delete", "abort_uploads")


@pytest.fixture
def place(s3: str) -> Iterator[str]:
    """A prefix of the test's own; nothing of what was staged is left there."""
    prefix = uuid.uuid4().hex
    yield prefix
    assert [each.key for each in keys_at(s3).found(f"{prefix}/.firesteel")] == []


def keys_at(url: str) -> S3Keys:
    return S3Keys("firesteel", S3Access.of(hadoop_settings(Configuration(s3_settings(url)), {})))


def staged(keys: S3Keys, place: str, mode: str, number: int, names: tuple[str, ...]) -> SinkCommit:
    store, target = ObjectSinks(keys), f"s3://firesteel/{place}/out"
    staging = store.staging(target, f"{number:032x}", "0-0", "0")
    store.prepare(target, staging)
    for name in names:
        keys.write(f"{staging.removeprefix('s3://firesteel/')}/{name}", f"new {number}".encode())
    return SinkCommit(
        commit_id=uuid.UUID(int=number << 64 | number).hex,
        vertex_id=JobVertexID("v"),
        function="result",
        format="parquet",
        mode=mode,
        target=target,
        staging=staging,
        files=names,
    )


def texts(keys: S3Keys, place: str) -> list[str]:
    return sorted(
        keys.get(each.key).data.decode() for each in keys.found(f"{place}/out/") if each.key.endswith(".parquet")
    )


def prepared(keys: S3Keys, place: str, mode: str, number: int) -> tuple[SinkCommit, list[str]]:
    """A commit of two subtasks, and what is to be there in the end."""
    expected = [f"new {number}"] * 2 + [f"new {number + 1}"]
    if mode not in ("error", "ignore"):
        old = staged(keys, place, "overwrite", number + 2, ("p=0/part-0.parquet", "p=2/part-2.parquet"))
        ObjectSinks(keys).commit(old)
        left = f"new {number + 2}"
        expected += {"append": [left, left], "overwrite-partitions": [left]}.get(mode, [])
    first = staged(keys, place, mode, number, ("p=0/part-0.parquet", "p=1/part-1.parquet"))
    second = staged(keys, place, mode, number + 1, ("p=1/part-1.parquet",))
    part = StagedPart(staging=second.staging, files=second.files)
    return msgspec.structs.replace(first, parts=(part,)), sorted(expected)


class Deadly(S3Keys):
    """Kills its process at the request of that number: before it is sent, or after it was answered."""

    def __init__(self, url: str, number: int, after: bool) -> None:
        super().__init__("firesteel", keys_at(url)._access)
        left = iter(range(number, -1, -1))

        def deadly(real: Any) -> Any:
            def request(name: Any, *arguments: Any, **more: Any) -> Any:
                is_last = not str(name).endswith(".lock") and next(left, 0) == 0
                if is_last and not after:
                    os.kill(os.getpid(), signal.SIGKILL)
                answer = real(name, *arguments, **more)
                if is_last:
                    list(answer) if hasattr(answer, "__next__") else None
                    os.kill(os.getpid(), signal.SIGKILL)
                return answer

            return request

        for method in REQUESTS:
            setattr(self, method, deadly(getattr(self, method)))


def killed_at(url: str, commit: SinkCommit, number: int, after: bool) -> bool:
    """Whether the process that committed was killed there; else it has come to the end."""
    child = os.fork()
    if child == 0:
        try:
            _client.cache_clear()
            ObjectSinks(Deadly(url, number, after)).commit(commit)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_killed_commit_is_carried_on(s3: str, place: str, mode: str) -> None:
    keys, number, was_killed = keys_at(s3), 0, True
    while was_killed:
        where = f"{place}/{number}"
        commit, expected = prepared(keys, where, mode, 10)
        was_killed = killed_at(s3, commit, number, after=number % 2 == 1)
        if number != 8:  # for once, the lock of the dead has to run out
            keys.delete([each.key for each in keys.found(f"{where}/.firesteel") if each.key.endswith(".lock")])
        ObjectSinks(keys).commit(commit)
        assert texts(keys, where) == expected
        assert [each.key for each in keys.found(f"{where}/.firesteel")] == []
        number += 1
    assert number > 10


def test_a_network_that_fails_costs_no_rows(s3: str, place: str) -> None:
    """503, 500, torn uploads and lost answers, one in five: as often as needed, as a master asks, and no more rows."""
    keys = keys_at(s3)
    with faulty_proxy(s3, 7, 0.2) as proxy:
        far = keys_at(proxy.url)
        for number, mode in enumerate(MODES * 4):
            where = f"{place}/{number}"
            commit, expected = prepared(keys, where, mode, 10)
            for _ in range(3):  # core/scheduler/commit.py: COMMIT_ATTEMPTS_MAX
                try:
                    ObjectSinks(far).commit(commit)
                    break
                except OSError:
                    continue
            else:
                pytest.fail(f"{mode}: given up")
            assert texts(keys, where) == expected
            for each in list(keys.found(f"{where}/.firesteel")):
                assert each.key.endswith(".lock"), "whose release was lost"
                keys.delete([each.key])
        assert all(proxy.done[fault] for fault in FAULTS), proxy.done
