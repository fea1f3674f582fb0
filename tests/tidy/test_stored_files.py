"""The files that a cluster keeps have the form of their version, and what an earlier firesteel wrote is read."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.adapters.ha import jobarchive
from firesteel.adapters.history.archivefile import ARCHIVE_VERSION
from firesteel.core.journal.journal import JOURNAL_VERSION
from firesteel.core.journal.storedjobs import StoredJobs
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobView
from tests.durable.stories import JOURNAL, NEW, SNAPSHOT, STORY, log_in, write_story

GOLDEN = Path(__file__).parent / "golden"
FILES = {"journal": JOURNAL, "snapshot": SNAPSHOT}


def content(jobs: StoredJobs) -> object:
    return jobs.graphs(), jobs.results(), [jobs.state(graph.job_id) for graph in jobs.graphs()]


def test_the_form_of_the_files(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    write_story(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [JOURNAL, SNAPSHOT]
    for kind, name in FILES.items():
        golden(f"store_{kind}_v{JOURNAL_VERSION}.txt", (tmp_path / name).read_text())


def test_files_of_the_first_version_are_read(tmp_path: Path) -> None:
    for kind, name in FILES.items():
        (tmp_path / name).write_bytes((GOLDEN / f"store_{kind}_v1.txt").read_bytes())
    log, whole = log_in(tmp_path), StoredJobs(4)
    log.claim(NEW)
    for entry in STORY:
        whole.apply(entry)
    assert content(log.jobs) == content(whole)


def test_the_form_of_archived_jobs(
    tmp_path: Path, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [JobView(job_id=JobID(f"{n:032x}"), name=f"job {n}", status=JobStatus.FINISHED) for n in (1, 2)]
    monkeypatch.setattr("secrets.token_hex", "0a".__mul__)
    archive, name = jobarchive.FileJobArchive(tmp_path, 0), f"archive_v{ARCHIVE_VERSION}.txt"

    async def write() -> None:
        await asyncio.gather(*map(archive.put, views))

    async def read() -> None:
        later = jobarchive.FileJobArchive(tmp_path, 0)
        assert [await later.get(view.job_id) for view in views] == views

    asyncio.run(write())
    (file,) = tmp_path.iterdir()
    golden(name, f"{file.name}\n{file.read_bytes().hex(' ', -32)}\n".replace(" ", "\n"))
    file.write_bytes(bytes.fromhex((GOLDEN / name).read_text().partition("\n")[2]))
    asyncio.run(read())
