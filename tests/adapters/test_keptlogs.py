"""What ended jobs have printed: the newest stay, those of running jobs always."""

import os
from pathlib import Path

from firesteel.adapters.spark.worker.keptlogs import KeptLogs
from firesteel.model.ids import JobID


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def printed(directory: Path, *jobs: str) -> None:
    for job in jobs:
        (directory / job).mkdir()
        (directory / job / "0-1.log").write_text("x")


def test_the_oldest_go_and_running_jobs_stay(tmp_path: Path) -> None:
    logs = KeptLogs(tmp_path / "logs", 2)
    logs.open()
    printed(tmp_path / "logs", "running", "a", "b", "c")
    (tmp_path / "logs" / "forkserver.log").touch()
    for job in ("a", "b", "printed-nothing", "a", "c", "c"):
        logs.end(JobID(job))
    assert names(tmp_path / "logs") == ["a", "c", "forkserver.log", "running"], "a has ended after b, the second time"


def test_what_an_earlier_process_has_left_counts(tmp_path: Path) -> None:
    printed(tmp_path, "c", "b", "a")
    for age, job in enumerate(("c", "b", "a")):
        os.utime(tmp_path / job, (age, age))
    logs = KeptLogs(tmp_path, 2)
    logs.open()
    assert names(tmp_path) == ["a", "b"]
    printed(tmp_path, "d")
    logs.end(JobID("d"))
    assert names(tmp_path) == ["a", "d"]
