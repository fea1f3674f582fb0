"""The index of archives: what is listed, what is left out, and what is forgotten."""

import asyncio
import logging
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.history import index as module
from firesteel.adapters.history.gateway import HistoryGateway
from firesteel.adapters.history.index import HistoryIndex
from firesteel.adapters.history.record import encode_job
from firesteel.model.refusals import UnknownJob
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


def test_memory_holds_a_few_whole_jobs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODIES_CACHED", 3)
    for number in range(10):
        put(tmp_path, archived(number))

    async def story() -> None:
        it = index(tmp_path)
        await it.refresh()
        for number in (*range(10), 9, 0):
            found = await it.job(job_id(number))
            assert found is not None
            assert found.view.name == str(number)
        assert list(it._bodies) == [job_id(8), job_id(9), job_id(0)]
        it.close()

    asyncio.run(story())
