"""The files that a cluster keeps have the form of their version, and what an earlier firesteel wrote is read."""

from collections.abc import Callable
from pathlib import Path

from firesteel.core.journal import JOURNAL_VERSION
from firesteel.core.storedjobs import StoredJobs
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
