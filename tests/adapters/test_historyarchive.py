"""What is archived of a job, once, and as much as there may be of what it has printed."""

import asyncio
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.adapters.blob.outputs import OutputStore
from firesteel.adapters.history.archive import READING_THREADS, HistoryArchive
from firesteel.adapters.history.collecting import WORKERS_AT_ONCE, collected, fair_shares
from firesteel.adapters.history.keptlogs import KeptText, decode_logs, encode_logs, job_of_log, shown_text
from firesteel.adapters.history.record import decode_job
from firesteel.adapters.inspection.desk import read_when_grown
from firesteel.adapters.inspection.logfiles import LogFiles, NoSuchFile
from firesteel.adapters.storage.files import DirectoryFiles
from firesteel.model.ids import ResourceID
from firesteel.model.inquiries import (
    AnyAnswer,
    AnyInquiry,
    DumpThreads,
    FileList,
    FilePart,
    InquiryRefused,
    ListFiles,
    ReadFile,
)
from firesteel.model.refusals import NoAnswer, UnknownTaskManager
from firesteel.model.views import JobView
from firesteel.runtime.clock import SystemClock
from tests.adapters.archives import job_id, result, vertex, view

ONE, TWO, GONE = ResourceID("worker-1"), ResourceID("worker-2"), ResourceID("gone")


class FakeWorkers:
    """Workers whose log files lie in `root/WORKER`; of those that are `silent` no answer comes."""

    def __init__(
        self, root: Path, *here: ResourceID, silent: Sequence[ResourceID] = (), forgetful: Sequence[ResourceID] = ()
    ) -> None:
        """Those that are `forgetful` say which files there are, and then no more; each that is asked waits for `turn`."""
        self._root, self._here, self._silent, self._forgetful = root, here, silent, forgetful
        self.asked: list[ResourceID] = []
        self.turn: Callable[[], Awaitable[None]] | None = None

    def ids(self) -> Sequence[ResourceID]:
        return self._here

    def printed(self, worker: ResourceID, name: str, text: str) -> None:
        directory = self._root / worker / name[:32]
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name[33:]).write_text(text)

    async def ask(self, resource_id: ResourceID, inquiry: AnyInquiry, limit_s: float) -> AnyAnswer:
        self.asked.append(resource_id)
        if self.turn is not None:
            await self.turn()
        if resource_id in self._silent or (resource_id in self._forgetful and isinstance(inquiry, ReadFile)):
            raise NoAnswer("silent")
        if resource_id not in self._here:
            raise UnknownTaskManager("gone")
        files = LogFiles(self._root / resource_id)
        if isinstance(inquiry, ListFiles):
            return FileList(files=files.list(inquiry.prefix))
        assert isinstance(inquiry, ReadFile)
        try:
            return await read_when_grown(files, inquiry)
        except NoSuchFile:
            return InquiryRefused(reason="File not found.", is_missing=True)


def gathered(of: JobView, workers: FakeWorkers, tmp_path: Path, limit: int = 1 << 20) -> list[KeptText]:
    found = asyncio.run(collected(of, workers, OutputStore(tmp_path / "outputs"), limit))
    return [shown_text(each) for each in found]


@given(st.lists(st.integers(0, 1_000), max_size=20), st.integers(0, 5_000))
def test_shares_are_fair(sizes: list[int], limit: int) -> None:
    shares = fair_shares(sizes, limit)
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) == min(limit, sum(sizes))
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert not cut or max(shares) <= min(cut) + 1, "nobody has more than one whose end was cut off"


def test_logs_are_collected_from_the_workers_that_ran_the_job(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE, GONE),))
    workers = FakeWorkers(tmp_path, ONE, TWO)
    workers.printed(ONE, f"{it.job_id}_0-0.log", "hello\npassword=hunter2\n")
    workers.printed(ONE, f"{job_id('other')}_0-0.log", "of another job")
    workers.printed(TWO, f"{it.job_id}_1-0.log", "it was not here")
    (kept,) = gathered(it, workers, tmp_path)
    assert (kept.log.task_manager, kept.log.name) == (ONE, f"{it.job_id}_0-0.log")
    assert kept.data == b"hello\npassword=******\n"
    assert set(workers.asked) == {ONE}
    large = view("it", vertices=(vertex(ONE, parallelism=2_000),))
    assert [each.log.task_manager for each in gathered(large, workers, tmp_path)] == [ONE, TWO]


def test_a_worker_that_is_silent_costs_its_logs_only(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE, TWO),))
    workers = FakeWorkers(tmp_path, ONE, TWO, silent=[ONE])
    workers.printed(TWO, f"{it.job_id}_1-0.log", "here")
    assert [each.data for each in gathered(it, workers, tmp_path)] == [b"here"]


def test_a_worker_that_did_not_answer_is_not_asked_again(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE, TWO),))
    workers = FakeWorkers(tmp_path, ONE, TWO, forgetful=[ONE])
    for number in range(20):
        workers.printed(ONE, f"{it.job_id}_{number}-0.log", "lost")
    workers.printed(TWO, f"{it.job_id}_99-0.log", "here")
    kept = gathered(it, workers, tmp_path)
    assert sorted(each.data for each in kept if each.log.task_manager == TWO) == [b"here"]
    assert workers.asked.count(ONE) == 2, "for the list, and for the first file"


def test_workers_are_asked_at_the_same_time(tmp_path: Path) -> None:
    names = [ResourceID(f"worker-{number}") for number in range(WORKERS_AT_ONCE)]
    it = view("it", vertices=(vertex(*names),))
    workers = FakeWorkers(tmp_path, *names, silent=names)
    together = asyncio.Barrier(len(names))

    async def all_here() -> None:
        await together.wait()

    workers.turn = all_here
    assert gathered(it, workers, tmp_path) == []
    assert workers.asked == names


def test_of_long_logs_the_ends_are_kept_in_whole_lines(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE, ONE),))
    workers = FakeWorkers(tmp_path, ONE)
    lines = [f"line {number:06d}\n" for number in range(100_000)]
    workers.printed(ONE, f"{it.job_id}_0-0.log", "".join(lines))
    workers.printed(ONE, f"{it.job_id}_1-0.log", "short\n")
    limit = 600_000  # of which one answer brings less than a half
    kept = {each.log.name[33:]: each.data.decode() for each in gathered(it, workers, tmp_path, limit)}
    assert kept["1-0.log"] == "short\n"
    first, *others = kept["0-0.log"].splitlines(keepends=True)
    missing = sum(map(len, lines)) - sum(map(len, others))
    assert first == f"... ({missing} bytes before this were not archived)\n"
    assert others == lines[-len(others) :]
    assert limit - 20 <= sum(map(len, others)) + len("short\n") <= limit
    assert gathered(it, workers, tmp_path, 0)[0].data.startswith(b"... (")


def test_what_a_script_printed_is_kept_too(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE, is_script=True),))
    outputs = OutputStore(tmp_path / "outputs")
    asyncio.run(outputs.append(it.job_id, "0.stdout", 0, b"x" * 600_000 + b"\nthe end\n"))
    workers = FakeWorkers(tmp_path, ONE)
    (kept,) = gathered(it, workers, tmp_path, 500_000)
    logs = decode_logs(encode_logs([kept]))
    assert logs.holders() == []
    text = b"".join(logs.output("0.stdout", offset) for offset in range(0, 600_000, 1 << 18))
    assert text.startswith(b"... (100009 bytes before this were not archived)\n")
    assert text.endswith(b"x\nthe end\n")
    assert logs.output("0.stderr", 0) == b""


@pytest.mark.parametrize("limit", range(len("password=hunter2\nthe end\n")))
def test_of_a_long_output_of_a_script_the_end_begins_where_a_line_does(tmp_path: Path, limit: int) -> None:
    it = view("it", vertices=(vertex(ONE, is_script=True),))
    outputs = OutputStore(tmp_path / "outputs")
    asyncio.run(outputs.append(it.job_id, "0.stdout", 0, b"one\npassword=hunter2\nthe end\n"))
    (kept,) = gathered(it, FakeWorkers(tmp_path, ONE), tmp_path, limit)
    head, _, text = kept.data.partition(b"\n")
    assert head.startswith(b"... (")
    assert text == (b"the end\n" if limit >= len("the end\n") else b""), "no part of the secret is shown"


def test_no_more_of_what_a_script_printed_is_held_than_is_kept(tmp_path: Path) -> None:
    retried = msgspec.structs.replace(vertex(ONE, is_script=True), attempts=16)
    it, outputs, limit = view("it", vertices=(retried,)), OutputStore(tmp_path / "outputs"), 1 << 20

    async def story() -> tuple[list[KeptText], int]:
        for attempt in range(16):
            await outputs.append(it.job_id, f"{attempt}.stdout", 0, b"x" * limit)
        tracemalloc.start()
        kept = await collected(it, FakeWorkers(tmp_path, ONE), outputs, limit)
        return kept, tracemalloc.get_traced_memory()[1]

    try:
        kept, most = asyncio.run(story())
    finally:
        tracemalloc.stop()
    assert [len(text.data) for text in kept] == [limit // 16] * 16
    assert most < 4 * limit


def test_of_many_attempts_of_a_script_the_last_are_kept(tmp_path: Path) -> None:
    retried = msgspec.structs.replace(vertex(ONE, is_script=True), attempts=20)
    it, outputs = view("it", vertices=(retried,)), OutputStore(tmp_path / "outputs")
    for attempt in range(20):
        asyncio.run(outputs.append(it.job_id, f"{attempt}.stdout", 0, b"hello\n"))
    kept = gathered(it, FakeWorkers(tmp_path, ONE), tmp_path)
    assert [each.log.name for each in kept] == [f"{attempt}.stdout" for attempt in range(4, 20)]


def test_of_a_job_without_vertices_is_kept_whatever_is_found(tmp_path: Path) -> None:
    """Its JobMaster broke, and nobody knows what it was."""
    it = view("it")
    outputs = OutputStore(tmp_path / "outputs")
    asyncio.run(outputs.append(it.job_id, "1.stderr", 0, b"broken\n"))
    workers = FakeWorkers(tmp_path, ONE, TWO)
    workers.printed(TWO, f"{it.job_id}_1-0.log", "it was here")
    kept = {(each.log.task_manager, each.log.name[-8:]): each.data for each in gathered(it, workers, tmp_path)}
    assert kept == {(TWO, "_1-0.log"): b"it was here", ("", "1.stderr"): b"broken\n"}


def test_secrets_are_hidden_wherever_a_piece_ends(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE),))
    workers, name = FakeWorkers(tmp_path, ONE), f"{it.job_id}_0-0.log"
    workers.printed(ONE, name, "password=hunter2 é\n" * 30_000 + "x" * 200_000 + " token=hunter2 the end")
    (kept,) = gathered(it, workers, tmp_path)
    assert b"hunter2" not in kept.data
    assert kept.data.count("password=****** é\n".encode()) == 30_000
    assert kept.data.endswith(b"x token=****** the end")


def test_kept_logs_answer_as_their_worker_did(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE),))
    workers, name = FakeWorkers(tmp_path, ONE), f"{it.job_id}_0-0.log"
    workers.printed(ONE, name, "".join(f"line {number}\n" for number in range(50_000)))
    logs = decode_logs(encode_logs(gathered(it, workers, tmp_path)))
    assert logs.holders() == [ONE]
    for inquiry in (ListFiles(prefix=f"{it.job_id}_"), ReadFile(name=name), ReadFile(name=name, offset=-100)):
        assert logs.answer(ONE, inquiry) == asyncio.run(workers.ask(ONE, inquiry, 1.0))
        assert job_of_log(inquiry) == it.job_id
    assert logs.answer(TWO, ListFiles(prefix=f"{it.job_id}_")) == FileList(files=())
    assert logs.answer(ONE, ReadFile(name="other.log")) is None
    assert logs.answer(ONE, DumpThreads()) is None
    last = logs.answer(ONE, ReadFile(name=name, offset=10**9))
    assert isinstance(last, FilePart)
    for name in ("taskmanager.log", f"{'../' * 10}xx_0-0.log", "", "a" * 32):
        assert job_of_log(ReadFile(name=name)) is None


def test_a_job_is_archived_once_whatever_comes_later(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE),))
    workers, outputs = FakeWorkers(tmp_path / "logs", ONE), OutputStore(tmp_path / "outputs")
    workers.printed(ONE, f"{it.job_id}_0-0.log", "first\n")
    files = DirectoryFiles(tmp_path / "archive")

    async def story() -> None:
        archive = HistoryArchive(files, "mine", SystemClock(), 1 << 20)
        await archive.put(it, result(it), workers, outputs)
        assert files.names() == [f"{it.job_id}.job", f"{it.job_id}.logs"]
        written = files.read(f"{it.job_id}.job")
        found = decode_job(written)
        assert (found.view, found.result, found.origin.cluster) == (it, result(it), "mine")
        workers.printed(ONE, f"{it.job_id}_0-0.log", "second\n")
        await archive.put(it, result(it, restarts=3), workers, outputs)
        assert files.read(f"{it.job_id}.job") == written
        files.delete(f"{it.job_id}.job")
        await archive.put(it, result(it), workers, outputs)
        kept = (await archive.logs(it.job_id)).answer(ONE, ReadFile(name=f"{it.job_id}_0-0.log"))
        assert isinstance(kept, FilePart)
        assert kept.data == b"first\n", "what a master has kept that died in between"
        archive.close()

    asyncio.run(story())


def test_without_room_for_logs_nobody_is_asked_for_them(tmp_path: Path) -> None:
    it = view("it", vertices=(vertex(ONE),))
    workers, files = FakeWorkers(tmp_path, ONE), DirectoryFiles(tmp_path / "archive")

    async def story() -> None:
        archive = HistoryArchive(files, "mine", SystemClock(), 0)
        await archive.put(it, result(it), workers, OutputStore(tmp_path / "outputs"))
        archive.close()

    asyncio.run(story())
    assert (files.names(), workers.asked) == ([f"{it.job_id}.job"], [])


class HangingLogs(DirectoryFiles):
    """No file of logs is read before its `release`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.release = threading.Event()

    def read(self, name: str) -> bytes:
        if name.endswith(".logs"):
            self.release.wait()
        return super().read(name)


def test_who_reads_logs_of_a_storage_that_hangs_is_answered_and_holds_up_no_archiving(tmp_path: Path) -> None:
    it, files = view("it"), HangingLogs(tmp_path / "archive")

    async def story() -> None:
        archive = HistoryArchive(files, "mine", SystemClock(), 0, read_limit_s=0.05)
        try:
            async with asyncio.timeout(300.0):
                found = await asyncio.gather(*(archive.logs(job_id(number)) for number in range(2 * READING_THREADS)))
                assert [logs.holders() for logs in found] == [[]] * len(found)
                await archive.put(it, result(it), FakeWorkers(tmp_path), OutputStore(tmp_path / "outputs"))
        finally:
            files.release.set()
            archive.close()

    asyncio.run(story())
    assert files.names() == [f"{it.job_id}.job"]


def test_a_storage_that_fails_says_so_and_is_tried_again(tmp_path: Path) -> None:
    it, broken = view("it"), tmp_path / "archive"
    broken.touch()

    async def story() -> None:
        archive = HistoryArchive(DirectoryFiles(broken), "mine", SystemClock(), 0)
        with pytest.raises(OSError, match="archive"):
            await archive.put(it, result(it), FakeWorkers(tmp_path), OutputStore(tmp_path / "outputs"))
        broken.unlink()
        await archive.put(it, result(it), FakeWorkers(tmp_path), OutputStore(tmp_path / "outputs"))
        archive.close()

    asyncio.run(story())
    assert [file.name for file in broken.iterdir()] == [f"{it.job_id}.job"]
