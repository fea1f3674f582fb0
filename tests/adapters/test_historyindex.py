"""The index of archives: what is listed, what is left out, and what is forgotten."""

import asyncio
import logging
import threading
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.history import index as module
from firesteel.adapters.history.cache import JobCache
from firesteel.adapters.history.gateway import HistoryGateway
from firesteel.adapters.history.index import HistoryIndex, Place
from firesteel.adapters.history.keptlogs import KeptLog, KeptText, encode_logs
from firesteel.adapters.history.record import encode_job
from firesteel.adapters.storage.files import DirectoryFiles
from firesteel.model.ids import ResourceID
from firesteel.model.refusals import StorageUnavailable, UnknownJob
from firesteel.model.views import summary_of
from firesteel.runtime.client import UnknownResult
from tests.adapters.archives import archived, index, job_id, put


def names(it: HistoryIndex) -> list[str]:
    return [job.name for job in it.summaries()]


def test_jobs_of_several_directories_newest_first(tmp_path: Path) -> None:
    for number, cluster in enumerate("abcab"):
        put(tmp_path / cluster, archived(number, start_time_ms=number))

    async def story() -> None:
        it = index(*(tmp_path / cluster for cluster in "abc"), tmp_path / "not there")
        assert it.summaries() == []
        await it.refresh()
        assert names(it) == ["4", "3", "2", "1", "0"]
        before = it.summaries()
        put(tmp_path / "c", archived(5, start_time_ms=5))
        await it.refresh()
        assert names(it) == ["5", "4", "3", "2", "1", "0"]
        assert all(one is other for one, other in zip(before, it.summaries()[1:], strict=True)), "lines are made once"
        assert await it.job(job_id(3)) == archived(3, start_time_ms=3)
        with pytest.raises(UnknownJob):
            await it.job(job_id("nobody"))
        it.close()

    asyncio.run(story())


def test_what_is_broken_is_named_once_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path, archived("good"))
    torn = put(tmp_path, archived("torn"))
    torn.write_bytes(torn.read_bytes()[:-9])
    newer = put(tmp_path, archived("newer"))
    newer.write_bytes(newer.read_bytes().replace(b"archive 1 ", b"archive 9 ", 1))
    text = put(tmp_path, archived("no-text"))
    text.write_bytes(text.read_bytes().replace(b"no-text", b"no-\xfft\xff\xff"))
    (tmp_path / f"{job_id('false')}.job").write_bytes(encode_job(archived("good")))
    (tmp_path / f"{job_id('directory')}.job").mkdir()
    (tmp_path / ("f" * 32)).write_text('{"archive": []}')
    (tmp_path / f"{job_id('lonely')}.logs").write_bytes(b"?")

    async def story() -> None:
        it = index(tmp_path)
        with caplog.at_level(logging.WARNING):
            await it.refresh()
            await it.refresh()
        assert names(it) == ["good"]
        for path in (torn, newer, text, tmp_path / f"{job_id('false')}.job"):
            assert sum(path.name in record.getMessage() for record in caplog.records) == 1
        assert "begins with b'firesteel-archive 9" in caplog.text
        torn.unlink()
        await it.refresh()
        put(tmp_path, archived("torn"))
        await it.refresh()
        assert sorted(names(it)) == ["good", "torn"], "a file that was replaced is looked at again"
        it.close()

    asyncio.run(story())


def test_a_directory_that_can_not_be_listed_keeps_its_jobs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path / "one", archived("one"))
    put(tmp_path / "two", archived("two"))

    async def story() -> None:
        it = index(tmp_path / "one", tmp_path / "two", forgets_deleted=True)
        await it.refresh()
        (tmp_path / "one").rename(tmp_path / "away")
        (tmp_path / "one").touch()
        put(tmp_path / "two", archived("three"))
        await it.refresh()
        assert sorted(names(it)) == ["one", "three", "two"]
        assert f"the archives in {tmp_path / 'one'} can't be listed now" in caplog.text
        it.close()

    asyncio.run(story())


@pytest.mark.parametrize("forgets", [False, True])
def test_a_job_whose_archive_was_deleted(tmp_path: Path, forgets: bool) -> None:
    put(tmp_path, archived("kept"))
    gone = put(tmp_path, archived("gone", owner="ada"))

    async def story() -> None:
        it = index(tmp_path, forgets_deleted=forgets)
        gateway = HistoryGateway(it)
        await it.refresh()
        gone.unlink()
        await it.refresh()
        assert sorted(names(it)) == (["kept"] if forgets else ["gone", "kept"])
        if not forgets:
            view = await gateway.request_job(job_id("gone"))
            shown = msgspec.structs.replace(it.summary(job_id("gone")), cluster="")
            assert summary_of(view) == shown
            assert (view.owner, view.vertices) == ("ada", ())
            with pytest.raises(UnknownResult):
                await gateway.request_job_result(job_id("gone"))
        it.close()

    asyncio.run(story())


def test_only_the_newest_archives_are_retained_in_each_directory(tmp_path: Path) -> None:
    for directory in ("one", "two"):
        for number in range(5):
            put(tmp_path / directory, archived(f"{directory} {number}", end_time_ms=number))
            (tmp_path / directory / f"{job_id(f'{directory} {number}')}.logs").touch()

    async def story() -> None:
        it = index(tmp_path / "one", tmp_path / "two", retained=2)
        await it.refresh()
        assert sorted(names(it)) == ["one 3", "one 4", "two 3", "two 4"]
        put(tmp_path / "one", archived("one 5", end_time_ms=5))
        await it.refresh()
        assert sorted(names(it)) == ["one 4", "one 5", "two 3", "two 4"]
        assert len(list((tmp_path / "one").iterdir())) == 3
        it.close()

    asyncio.run(story())


def test_memory_holds_what_was_looked_at_last_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [put(tmp_path, archived(number)).stat().st_size for number in range(10)]
    monkeypatch.setattr(module, "BODIES_CACHE_BYTES", 3 * max(sizes))

    async def story() -> None:
        it = index(tmp_path)
        await it.refresh()
        for number in (*range(10), 9, 0):
            found = await it.job(job_id(number))
            assert found is not None
            assert found.view.name == str(number)
        assert it._bodies.jobs() == [job_id(8), job_id(9), job_id(0)]
        it.close()

    asyncio.run(story())


def test_what_is_larger_than_the_memory_for_it_is_kept_alone() -> None:
    cache = JobCache[str](10)
    for name, size in (("a", 4), ("b", 6), ("a", 5), ("c", 99), ("d", 1)):
        cache.put(job_id(name), name, size)
        if name == "c":
            assert cache.jobs() == [job_id("c")]
    assert (cache.jobs(), cache.get(job_id("c"))) == ([job_id("d")], None)


class HangingFiles(DirectoryFiles):
    """Says nothing before its `release`; fails then while it `fails`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.release, self.fails = threading.Event(), False

    def names(self) -> list[str]:
        self.release.wait()
        return super().names()

    def read(self, name: str) -> bytes:
        self.release.wait()
        if self.fails:
            raise OSError("the bucket is away")
        return super().read(name)


def test_a_directory_that_hangs_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    put(tmp_path / "one", archived("one"))
    put(tmp_path / "two", archived("two"))
    hanging = HangingFiles(tmp_path / "one")
    places = [Place("one", hanging), Place("two", DirectoryFiles(tmp_path / "two"))]

    async def story() -> None:
        it = HistoryIndex(places, forgets_deleted=False, retained=-1, read_limit_s=0.05)
        async with asyncio.timeout(300.0), asyncio.TaskGroup() as group:
            hangs = group.create_task(it.refresh())
            while names(it) != ["two"]:
                await asyncio.sleep(0.001)
            assert not hangs.done()
            hanging.release.set()
            await hangs
            assert sorted(names(it)) == ["one", "two"]
            hanging.release.clear()
            for _ in range(module.READING_THREADS + 1):
                with pytest.raises(StorageUnavailable, match="one has not answered within"):
                    await it.job(job_id("one"))
            assert (await it.logs(job_id("one"))).holders() == []
            assert await it.job(job_id("two")) is not None
        hanging.release.set()
        it.close()

    asyncio.run(story())


def test_logs_that_could_not_be_read_are_read_again(tmp_path: Path) -> None:
    put(tmp_path, archived("it"))
    log = KeptLog(task_manager=ResourceID("worker"), name="x_0-0.log", modified_ms=1, size_bytes=5)
    (tmp_path / f"{job_id('it')}.logs").write_bytes(encode_logs([KeptText(log, b"hello")]))
    files = HangingFiles(tmp_path)
    files.release.set()

    async def story() -> None:
        it = HistoryIndex([Place("it", files)], forgets_deleted=False, retained=-1)
        await it.refresh()
        files.fails = True
        assert (await it.logs(job_id("it"))).holders() == []
        with pytest.raises(StorageUnavailable, match="the bucket is away"):
            await it.job(job_id("it"))
        files.fails = False
        assert (await it.logs(job_id("it"))).holders() == ["worker"]
        it.close()

    asyncio.run(story())
