"""The archive of ended jobs: files, a bounded memory of the last ones, and what is damaged."""

import asyncio
from pathlib import Path

import pytest

from firesteel.adapters.ha.jobarchive import FileJobArchive, MemoryJobArchive
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobView


def view(index: int, **fields: object) -> JobView:
    return JobView(job_id=JobID(f"{index:032x}"), name="it", status=JobStatus.FINISHED, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["File", "Memory"])
def test_views_are_kept_until_they_are_deleted(tmp_path: Path, kind: str) -> None:
    archive = FileJobArchive(tmp_path / "archive", 0) if kind == "File" else MemoryJobArchive()
    first, second, third = (view(index, parameters={"x": float("inf"), "ä": "é"}) for index in range(3))

    async def story() -> None:
        assert await archive.get(first.job_id) is None
        await archive.keep(())
        await archive.delete(first.job_id)
        for each in (first, second, third, third):
            await archive.put(each)
        assert [await archive.get(each.job_id) for each in (first, second, third)] == [first, second, third]
        await archive.delete(first.job_id)
        await archive.keep([second.job_id])
        assert [await archive.get(each.job_id) for each in (first, second, third)] == [None, second, None]

    asyncio.run(story())


def files_in(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jobs"))


def test_files_outlive_their_writer_and_memory_is_bounded(tmp_path: Path) -> None:
    directory = tmp_path / "archive"

    async def story() -> None:
        archive = FileJobArchive(directory, 1_000)
        for index in range(100):
            await archive.put(view(index))
        assert archive._cached_bytes <= 1_000
        assert archive._cached_bytes == sum(map(len, archive._cache.values()))
        (directory / "notes.txt").touch()
        later = FileJobArchive(directory, 1_000)
        assert await later.get(JobID(f"{0:032x}")) == view(0)
        await later.put(view(100))
        assert [file.name[:10] for file in files_in(directory)] == [f"{number:010d}" for number in range(101)]
        assert {file.stat().st_mode & 0o777 for file in files_in(directory)} == {0o600}, "jobs' parameters are in it"
        await later.keep([JobID(f"{0:032x}")])
        assert sorted(path.name[:10] for path in directory.iterdir()) == ["0000000000", "notes.txt"]
        await archive.put(view(101))
        await later.keep([JobID(f"{101:032x}")])
        assert await later.get(JobID(f"{101:032x}")) == view(101), "what another leader has written since"

    asyncio.run(story())


def test_jobs_that_end_together_share_a_file_which_goes_with_the_last(tmp_path: Path) -> None:
    async def story() -> None:
        archive = FileJobArchive(tmp_path, 0)
        async with asyncio.TaskGroup() as group:
            for index in range(50):
                group.create_task(archive.put(view(index)))
        assert len(files_in(tmp_path)) <= 2, "the first, and those that came while it was written"
        ids = [JobID(f"{index:032x}") for index in range(50)]
        for each in (archive, FileJobArchive(tmp_path, 0)):
            assert [await each.get(job_id) for job_id in ids] == [view(index) for index in range(50)]
        await archive.put(view(7))
        for job_id in ids[:-1]:
            await archive.delete(job_id)
        assert len(files_in(tmp_path)) == 1
        assert await archive.get(ids[-1]) == view(49)
        await archive.delete(ids[-1])
        assert files_in(tmp_path) == []

    asyncio.run(story())


def test_what_is_damaged_is_as_good_as_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        archive = FileJobArchive(tmp_path, 0)
        for index in range(6):
            await archive.put(view(index, owner="ada"))
        short, headless, newer, no_text, nameless, directory = files_in(tmp_path)
        short.write_bytes(short.read_bytes()[:-3])
        headless.write_bytes(b"\x00" * 100)
        newer.write_bytes(newer.read_bytes().replace(b"archive 1 ", b"archive 9 ", 1))
        no_text.write_bytes(no_text.read_bytes().replace(b"ada", b"\xffda"))
        nameless.write_bytes(nameless.read_bytes().replace(b"00000", b"\xff0000", 1))
        directory.unlink()
        directory.mkdir()
        await archive.put(view(6))
        later = FileJobArchive(tmp_path, 0)
        await later.keep([JobID(f"{index:032x}") for index in range(7)])
        found = [await later.get(JobID(f"{index:032x}")) for index in range(7)]
        assert found == [*[None] * 6, view(6)]
        assert "begins with b'firesteel-archive 9" in caplog.text

    asyncio.run(story())


def test_a_disk_that_fails_is_said_to_each(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "file").touch()
        full = FileJobArchive(tmp_path / "file" / "archive", 0)
        found = await asyncio.gather(*(full.put(view(index)) for index in range(3)), return_exceptions=True)
        assert all(isinstance(each, OSError) for each in found)
        (tmp_path / "file").unlink()
        await full.put(view(4))
        assert [await full.get(JobID(f"{index:032x}")) for index in (1, 4)] == [None, view(4)]

    asyncio.run(story())
