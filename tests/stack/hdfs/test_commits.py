"""Commits in a real HDFS: SIGKILL at every tenth request, lost answers, late requests. No Spark.

`tests/integration/storage/test_hdfscommit.py` has every one, with an HDFS in memory.
"""

import getpass
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from firesteel.adapters.storage.hdfssinks import HdfsSinks
from firesteel.adapters.storage.hdfstree import BY_ID
from firesteel.adapters.storage.webhdfs import WebHdfs
from firesteel.model.tasks import SinkCommit, StagedPart
from tests.integration.storage.stagedoutput import staged
from tests.stack.hadoop import Hdfs

MODES = ("overwrite", "append", "error", "ignore", "overwrite-partitions")
REQUESTS = ("status", "listed", "make_directory", "rename", "delete", "write", "read")


@pytest.fixture
def place(storage: Hdfs) -> Iterator[str]:
    """A directory of the test's own."""
    path = f"/{uuid.uuid4().hex}"
    yield path
    storage.client().delete(path, recursive=True)


def texts(storage: Hdfs, place: str) -> list[str]:
    """What readers see."""
    store, target = HdfsSinks(storage.client()), storage.uri(f"{place}/out")
    names = store.files(target) if storage.client().status(f"{place}/out") is not None else ()
    return sorted(store.read(target, name).decode() for name in names)


def left(storage: Hdfs, place: str) -> list[str]:
    """What lies beside the target."""
    return [each.name for each in storage.client().listed(place) if each.name != "out"]


def prepared(storage: Hdfs, place: str, mode: str, number: int) -> tuple[SinkCommit, list[str]]:
    """A commit of two subtasks, and what is to be there in the end."""
    expected = [f"new {number}"] * 2 + [f"new {number + 1}"]
    if mode not in ("error", "ignore"):
        old = staged(
            HdfsSinks(storage.client()),
            storage.uri(f"{place}/out"),
            "overwrite",
            number + 2,
            ("p=0/part-0.parquet", "p=2/part-2.parquet"),
        )
        HdfsSinks(storage.client()).commit(old)
        was = f"new {number + 2}"
        expected += {"append": [was, was], "overwrite-partitions": [was]}.get(mode, [])
    first = staged(
        HdfsSinks(storage.client()),
        storage.uri(f"{place}/out"),
        mode,
        number,
        ("p=0/part-0.parquet", "p=1/part-1.parquet"),
    )
    second = staged(HdfsSinks(storage.client()), storage.uri(f"{place}/out"), mode, number + 1, ("p=1/part-1.parquet",))
    part = StagedPart(staging=second.staging, files=second.files)
    return msgspec.structs.replace(first, parts=(part,)), sorted(expected)


def wrapped(storage: Hdfs, around: Callable[[Callable[[], Any]], Any]) -> WebHdfs:
    """A client of its own, each of whose requests is made by `around`, but for those of locks."""
    client = WebHdfs(storage.authority, (f"http://{storage.address}",), getpass.getuser())

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def request(path: str, *arguments: Any, **more: Any) -> Any:
            made = lambda: real(path, *arguments, **more)  # noqa: E731
            return made() if ".lock" in path else around(made)

        return request

    for method in REQUESTS:
        setattr(client, method, wrap(getattr(client, method)))
    return client


def killed_at(storage: Hdfs, commit: SinkCommit, number: int, after: bool) -> bool:
    """Whether the process that committed was killed there; else it has come to the end."""
    child = os.fork()
    if child == 0:
        requests = iter(range(number, -1, -1))

        def deadly(request: Callable[[], Any]) -> Any:
            is_last = next(requests, 0) == 0
            if is_last and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = request()
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        try:
            HdfsSinks(wrapped(storage, deadly)).commit(commit)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_killed_commit_is_carried_on(storage: Hdfs, place: str, mode: str) -> None:
    number, was_killed = 0, True
    while was_killed:
        where = f"{place}/{number}"
        commit, expected = prepared(storage, where, mode, 10)
        was_killed = killed_at(storage, commit, number, after=number % 2 == 1)
        if number != 30:  # for once, the lock of the dead has to run out
            locks = f"{where}/.firesteel-staging"
            is_left = storage.client().status(locks) is not None
            for each in storage.client().listed(locks) if is_left else ():
                if each.name.endswith(".lock"):
                    storage.client().delete(f"{locks}/{each.name}", recursive=True)
        HdfsSinks(storage.client()).commit(commit)
        assert texts(storage, where) == expected
        assert left(storage, where) == []
        number += 1 if was_killed and number % 10 == 0 else 9
    assert number > 30


@pytest.mark.parametrize("mode", MODES)
def test_answers_that_are_lost_cost_no_rows(storage: Hdfs, place: str, mode: str) -> None:
    """Each request is done, and its answer lost; the next one is answered."""
    commit, expected = prepared(storage, place, mode, 10)
    is_lost = [False]

    def losing(request: Callable[[], Any]) -> Any:
        answer = request()
        is_lost[0] = not is_lost[0]
        if is_lost[0]:
            raise OSError("the answer was lost")
        return answer

    client = wrapped(storage, losing)
    HdfsSinks(client, wait=lambda _: None).commit(commit)
    client._pool.close()
    assert texts(storage, place) == expected
    assert left(storage, place) == []


def test_what_a_late_worker_moves_is_what_it_has_looked_at(storage: Hdfs, place: str) -> None:
    """By its id: a directory that has taken the place of that one stays."""
    client = storage.client()
    client.make_directory(f"{place}/out")
    old = client.status(f"{place}/out")
    assert old is not None
    client.rename(f"{place}/out", f"{place}/aside", replaces=False)
    client.make_directory(f"{place}/out")
    client.delete(f"{place}/aside", recursive=True)
    with pytest.raises(FileNotFoundError):
        client.rename(f"{BY_ID}/{old.file_id}", f"{place}/aside", replaces=False)
    assert client.status(f"{place}/out") is not None


def test_others_than_the_superuser_may_do_all_that_a_commit_takes(storage: Hdfs, place: str) -> None:
    client = storage.client()
    client.make_directory(place)
    client._asked("PUT", place, "SETPERMISSION", permission="777")
    store, target = HdfsSinks(storage.client("somebody")), storage.uri(f"{place}/out")
    for number in (1, 2):
        staging = store.staging(target, f"{number:032x}", "0-0", "0")
        store.prepare(target, staging)
        store.write(staging, "k=a%2Fb ü/part-0", f"{number}".encode())
        commit = msgspec.structs.replace(
            staged(HdfsSinks(storage.client()), storage.uri(f"{place}/other/out"), "append", 1, ()),
            target=target,
            staging=staging,
            mode="overwrite",
        )
        names = ("k=a%2Fb ü/part-0",)
        store.commit(msgspec.structs.replace(commit, commit_id=f"{number:032x}", files=names))
        assert texts(storage, place) == [f"{number}"]
    assert [each.name for each in client.listed(f"{place}/out")] == ["_SUCCESS", "_firesteel", "k=a%2Fb ü"]
