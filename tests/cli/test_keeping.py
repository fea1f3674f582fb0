"""Kept clusters without Spark: which one fits, who may use it, and what becomes of what is out of date."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from firesteel.cli.background import ClusterDirectory, Recorded
from firesteel.cli.exits import CommandError
from firesteel.cli.jobs.scriptarguments import with_times
from firesteel.cli.keeping import places, words
from firesteel.cli.keeping import visit as visit_of_kept
from firesteel.cli.keeping.identity import difference, identity, of_cluster
from firesteel.cli.keeping.machine import machine_facts
from firesteel.cli.keeping.tenancy import Step, Tenancy, next_step
from firesteel.cli.keeping.visit import Visit, find_or_begin
from firesteel.cli.processes import keptcluster
from firesteel.cli.processes.keptcluster import KeptCluster
from firesteel.client.transport import ClusterUnreachable
from firesteel.model.ids import JobID
from firesteel.model.options import Configuration
from firesteel.model.states import JobStatus
from firesteel.testing.backend import FakeTaskBackend, TaskScript
from tests.rest.cluster import graph

SLOTS = {"taskmanager.numberOfTaskSlots": "3"}
HOUR_S = 3_600.0


def identity_of(options: Mapping[str, str] = {}, environment: Mapping[str, str] = {}, **machine: str) -> dict[str, str]:
    return identity(Configuration(options), environment, machine)


# ── which cluster fits ─────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (identity_of(SLOTS, {"DAY": "1"}, Python="3.11"), []),
        (identity_of({}, {"DAY": "1"}, Python="3.11"), ["option taskmanager.numberOfTaskSlots"]),
        (identity_of(SLOTS, {"DAY": "2"}, Python="3.12"), ["Python", "environment variable DAY"]),
        (identity_of(SLOTS, {"DAY": "1", "NEW": ""}, Python="3.11"), ["environment variable NEW"]),
        (identity_of(SLOTS, {"DAY": "1", "TERM": "x", "SSH_TTY": "y", "OLDPWD": "z"}, Python="3.11"), []),
        (identity_of({**SLOTS, "job.priority": "4", "execution.attached": "true"}, {"DAY": "1"}, Python="3.11"), []),
        (identity_of({**SLOTS, "spark.x": "1"}, {"DAY": "1"}, Python="3.11"), ["option spark.x"]),
    ],
)
def test_what_processes_keep_from_their_start_must_be_the_same(wanted: dict[str, str], names: list[str]) -> None:
    assert difference(identity_of(SLOTS, {"DAY": "1"}, Python="3.11"), wanted) == names


def test_options_of_a_job_are_not_those_of_the_next() -> None:
    given = Configuration({**SLOTS, "restart-strategy.type": "none", "job.timeout": "3 s", "spark.a": "b"})
    assert of_cluster(given) == {**SLOTS, "spark.a": "b"}


def test_values_can_not_be_read_from_an_identity() -> None:
    assert "hunter2" not in str(identity_of({"s3.secret-key": "hunter2"}, {"PASSWORD": "hunter2"}))


def test_a_directory_of_the_same_name_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for _ in range(2):
        (tmp_path / "work").mkdir()
        monkeypatch.chdir(tmp_path / "work")
        found.append(machine_facts())
        monkeypatch.chdir(tmp_path)
        (tmp_path / "work").rename(tmp_path / f"former-{len(found)}")
    assert difference(*found) == ["directory"]


def test_another_umask_is_seen_and_left_as_it_is() -> None:
    before, former = machine_facts(), os.umask(0o027)
    try:
        assert difference(before, machine_facts()) == ["umask"]
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(former)


@pytest.mark.parametrize(
    ("answer", "keeps", "step"),
    [
        (words.Welcome("u", "t", "w", 1.0), False, Step.USE),
        (words.Welcome("u", "t", "w", 1.0), True, Step.USE),
        (words.Busy(), True, Step.OWN),
        (words.Busy(), False, Step.OWN),
        (words.Differs(["umask"]), True, Step.BEGIN),
        (words.Differs(["umask"]), False, Step.OWN),
        (None, True, Step.BEGIN),
        (None, False, Step.OWN),
    ],
)
def test_who_keeps_begins_and_nobody_ends_what_is_used(answer: words.Answer | None, keeps: bool, step: Step) -> None:
    assert next_step(answer, keeps=keeps) is step


def test_one_at_a_time_and_the_time_counts_from_the_last() -> None:
    tenancy, hello = Tenancy({"a": "1"}, 60.0, now_s=0.0), words.Hello({"a": "1"})
    assert tenancy.left_s(20.0) == 40.0
    assert tenancy.enter(hello) is None
    assert tenancy.enter(words.Hello({"a": "2"}, 5.0)) == words.Busy()
    assert tenancy.left_s(1_000.0) == 60.0
    tenancy.leave(1_000.0)
    assert (tenancy.left_s(1_050.0), tenancy.left_s(1_070.0)) == (10.0, 0.0)
    assert tenancy.enter(words.Hello({"a": "2"}, 5.0)) == words.Differs(["a"])
    assert tenancy.keep_s == 60.0
    assert tenancy.enter(words.Hello({"a": "1"}, 5.0)) is None
    assert tenancy.keep_s == 5.0


# ── the command line ───────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--keep-warm", "etl.py"], ["--keep-warm=10 min", "etl.py"]),
        (["etl.py", "--keep-warm"], ["etl.py", "--keep-warm=10 min"]),
        (["--keep-warm", "30s", "etl.py"], ["--keep-warm=30s", "etl.py"]),
        (["--keep-warm", "1 h", "--json"], ["--keep-warm=1 h", "--json"]),
        (["--keep-warm=5", "etl.py"], ["--keep-warm=5", "etl.py"]),
        (["--keep-warm", "2 parsecs"], ["--keep-warm=2 parsecs"]),
        (["etl.py", "--", "--keep-warm"], ["etl.py", "--", "--keep-warm"]),
    ],
)
def test_the_time_may_be_left_out(given: list[str], meant: list[str]) -> None:
    assert with_times(given) == meant


def test_a_file_that_begins_like_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2daily.py").touch()
    assert with_times(["--keep-warm", "2daily.py"]) == ["--keep-warm=10 min", "2daily.py"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--keep-warm", "2 parsecs"), 'write seconds, or a time like "90 s"'),
        (("--keep-warm", "0"), "write a time above 0"),
        (("--keep-warm", "--master", "there:1"), "another one is named"),
    ],
)
def test_bad_usage(
    command: Callable[..., tuple[int, str, str]], etl: str, arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = command("run", etl, *arguments)
    assert (code, message in err) == (2, True), err


# ── what is out of date, or somebody else's ────────────────────────────────────────────────────
def kept_place(directory: str = ".") -> ClusterDirectory:
    place = places.place_of(Configuration(), directory)
    places.make_own(place)
    return place


def test_nobody_listens_at_a_socket_that_was_left(capsys: pytest.CaptureFixture[str]) -> None:
    places.listening(kept_place().path).close()
    assert asyncio.run(find_or_begin(Configuration(), None)) is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("keep_s", [None, 60.0])
def test_one_that_is_frozen_is_not_waited_for(
    keep_s: float | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(visit_of_kept, "ANSWER_LIMIT_S", 0.1, raising=False)

    async def visit() -> Visit | None:
        async with asyncio.timeout(20):
            return await find_or_begin(Configuration(), keep_s)

    with places.listening(kept_place().path):
        assert asyncio.run(visit()) is None
    said = "firesteel: warning: no kept cluster (it has not answered within 0.1 s): using a cluster of its own\n"
    assert capsys.readouterr().err == said


def test_a_place_that_others_could_have_filled_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    place = kept_place()
    with places.listening(place.path):
        place.path.chmod(0o755)
        for keep_s in (None, 60.0):
            assert asyncio.run(find_or_begin(Configuration(), keep_s)) is None
            assert "is not a directory of yours alone): using a cluster of its own" in capsys.readouterr().err


def test_without_room_a_cluster_of_its_own_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ClusterDirectory, "new_log", full)
    assert asyncio.run(find_or_begin(Configuration(), 60.0)) is None
    assert "No space left on device): using a cluster of its own" in capsys.readouterr().err


def test_deep_directories(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 50] * 4)
    place = ClusterDirectory(Configuration({"cluster.dir": str(deep)}), "kept/x")
    places.make_own(place)

    async def reach() -> None:
        with places.listening(place.path):
            _, writer = await places.connect(place.path)
            writer.close()

    asyncio.run(reach())


def test_status_and_stop_of_one_that_was_killed(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    place = kept_place()
    place.write([Recorded(role="kept cluster", pid=1, started=1.5, log="x.log", where="/work")])
    code, out, _ = command("cluster", "status")
    assert (code, out) == (0, "kept cluster for /work (process 1) is gone, log: x.log\n")
    assert command("cluster", "stop")[:2] == (0, "stopped\n")
    assert not place.path.exists()
    assert command("cluster", "status")[0] == 3


# ── the cluster itself ─────────────────────────────────────────────────────────────────────────
class Kept:
    """A kept cluster in this process, with a worker without Spark."""

    def __init__(self) -> None:
        self.place, self.script, self.ended = kept_place(), TaskScript(), asyncio.Event()
        start = words.Start(configuration={}, identity={"a": "1"}, keep_s=HOUR_S, place=str(self.place.path))
        self.cluster = KeptCluster(start, self.ended.set, backend=self._backend)

    def _backend(self, config: Configuration, work_dir: Path, blobs: object) -> FakeTaskBackend:
        return FakeTaskBackend(self.script, work_dir)

    async def hello(self, keep_s: float | None = None, value: str = "1") -> Visit | words.Answer:
        connection = await places.connect(self.place.path)
        await words.say(connection[1], words.Hello({"a": value}, keep_s))
        answer: words.Answer = await words.hear(connection[0], words.Answer)
        if isinstance(answer, words.Welcome):
            return Visit(answer, connection, "log")
        connection[1].close()
        return answer

    async def visit(self, keep_s: float | None = None) -> Visit:
        """A welcome, as soon as the one before has been cleared up after."""
        while not isinstance(found := await self.hello(keep_s), Visit):
            await asyncio.sleep(0.01)
        return found


@asynccontextmanager
async def kept_cluster() -> AsyncIterator[Kept]:
    kept = Kept()
    async with asyncio.timeout(300):
        await kept.cluster.start()
        try:
            yield kept
        finally:
            await kept.cluster.stop()
    assert not kept.place.path.exists()


def test_commands_use_it_one_after_another() -> None:
    async def use() -> None:
        async with kept_cluster() as kept:
            for number in (1, 2):
                async with await kept.visit() as visit:
                    assert await kept.hello() == words.Busy()
                    job_id = await visit.client.submit_job(graph("count", f"job {number}"), {})
                    result = await visit.client.request_job_result(job_id)
                    assert result.status is JobStatus.FINISHED
            while isinstance(answer := await kept.hello(value="2"), words.Busy):
                await asyncio.sleep(0.01)
            assert answer == words.Differs(["a"])

    asyncio.run(use())


def test_a_job_ends_with_its_command_and_before_the_next_one_comes() -> None:
    async def use() -> None:
        async with kept_cluster() as kept:
            kept.script.hold("count")
            first = await kept.visit()
            job_id = await first.client.submit_job(graph("count", "held"), {})
            async with asyncio.timeout(300):
                while not kept.script.attempts:
                    await asyncio.sleep(0.01)
            first._writer.close()  # as the kernel does when the command is killed
            async with await kept.visit() as second:
                view = await second.client.request_job(job_id)
                assert view.status is JobStatus.CANCELED
            await first.client.close()

    asyncio.run(use())


def test_nobody_is_let_in_without_the_token() -> None:
    async def use() -> None:
        async with kept_cluster() as kept, await kept.visit() as visit:
            (address,) = visit.client._transport._addresses
            reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
            writer.write(b"GET /v1/overview HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"401" in await reader.readline()
            writer.close()

    asyncio.run(use())


def test_words_of_another_version_are_no_words() -> None:
    async def use() -> None:
        async with kept_cluster() as kept:
            for text in (b"\0\0\0\1\xc0", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b""):
                reader, writer = await places.connect(kept.place.path)
                writer.write(text)
                writer.write_eof()
                assert await reader.read() == b""
                writer.close()
            async with await kept.visit() as visit:
                assert await visit.client.list_job_summaries() == []

    asyncio.run(use())


def test_it_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keptcluster, "LOOK_S", 0.01)

    async def use() -> None:
        async with kept_cluster() as kept:
            async with await kept.visit(keep_s=0.05):
                await asyncio.sleep(0.1)
                assert not kept.ended.is_set()
            await kept.ended.wait()

    asyncio.run(use())


def test_it_ends_when_its_directory_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(keptcluster, "LOOK_S", 0.01)

    async def use() -> None:
        async with kept_cluster() as kept:
            (tmp_path / "here").rename(tmp_path / "elsewhere")
            await kept.ended.wait()

    asyncio.run(use())


def test_who_is_at_the_other_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert places.is_own_peer(ours)


def test_a_cluster_that_ends_in_the_middle_is_told_as_such() -> None:
    job_id = JobID("a" * 32)

    async def use() -> None:
        async with kept_cluster() as kept:
            visit = await kept.visit()
            with pytest.raises(Exception, match=r"has ended in the middle of this .*; run it again. Its log: log"):
                async with visit:
                    raise ClusterUnreachable("nobody answers")
        async with kept_cluster() as kept:
            visit = await kept.visit()
            await visit.client.announce(job_id)
            with pytest.raises(CommandError, match=rf"job {job_id} may have written outputs: look at them") as ended:
                async with visit:
                    raise ClusterUnreachable("nobody answers")
            assert ended.value.job_id == job_id

    asyncio.run(use())
