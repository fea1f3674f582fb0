"""Log files by plain names: what is in their directory, and nothing else."""

import os
from pathlib import Path

import pytest

from firesteel.adapters.inspection.logfiles import LogFiles, NoSuchFile
from firesteel.model.inquiries import FILES_MAX, PART_BYTES_MAX

JOB = "ab" * 16


def test_files_of_the_directory_and_of_jobs_newest_first(tmp_path: Path) -> None:
    (tmp_path / JOB).mkdir()
    for seconds, path in enumerate(("taskmanager.log", f"{JOB}/0-0.log", f"{JOB}/0-0.txt", "other.pid")):
        (tmp_path / path).write_text("x" * seconds)
        os.utime(tmp_path / path, (seconds, seconds))
    files = LogFiles(tmp_path)
    assert [(file.name, file.size_bytes, file.modified_ms) for file in files.list()] == [
        (f"{JOB}_0-0.log", 1, 1_000),
        ("taskmanager.log", 0, 0),
    ]
    assert [file.name for file in files.list(f"{JOB}_")] == [f"{JOB}_0-0.log"]
    assert files.read(f"{JOB}_0-0.log", 0).data == b"x"
    assert LogFiles(tmp_path / "nowhere").list() == ()


@pytest.mark.parametrize(
    "name",
    ["../outside.log", "..%2foutside.log", "/etc/hostname.log", "link.log", f"{JOB}_link.log", f"{JOB}_../a.log",
     "pipe.log", "directory.log", "a\0.log", "", ".log", "secret.txt", "linked_0-0.log", f"{'cd' * 16}_a.log"],
)  # fmt: skip
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    """Code of users can put links and pipes there."""
    (tmp_path / "outside.log").write_text("secret")
    logs = tmp_path / "logs"
    (logs / JOB).mkdir(parents=True)
    (logs / "link.log").symlink_to(tmp_path / "outside.log")
    (logs / JOB / "link.log").symlink_to(tmp_path / "outside.log")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.log").write_text("secret")
    (logs / ("cd" * 16)).symlink_to(elsewhere)
    os.mkfifo(logs / "pipe.log")
    (logs / "directory.log").mkdir()
    (logs / "secret.txt").write_text("secret")
    with pytest.raises(NoSuchFile):
        LogFiles(logs).read(name, 0)
    assert [file.name for file in LogFiles(logs).list()] == []


def test_parts_end_where_lines_do_and_make_up_the_file(tmp_path: Path) -> None:
    lines = "".join(f"line {number} {'é' * (number % 50)}\n" for number in range(20_000))
    (tmp_path / "a.log").write_text(lines + "the last one has no end")
    files, found, offset = LogFiles(tmp_path), [], 0
    while (part := files.read("a.log", offset)).data:
        assert (part.offset, part.end - part.offset) == (offset, len(part.data))
        found.append(part.data.decode())
        offset = part.end
    assert "".join(found) == lines + "the last one has no end"
    assert len(found) > 3
    assert all(text.endswith("\n") for text in found[:-1])
    assert files.read("a.log", -200).data.decode().startswith("line 19999")


def test_a_line_without_an_end_a_file_begun_anew_and_a_name_too_many(tmp_path: Path) -> None:
    file, files = tmp_path / "a.log", LogFiles(tmp_path)
    file.write_bytes(b"x" * (2 * PART_BYTES_MAX))
    assert [files.read("a.log", offset).end for offset in (0, PART_BYTES_MAX)] == [PART_BYTES_MAX, 2 * PART_BYTES_MAX]
    file.write_text("anew\n")
    part = files.read("a.log", 2 * PART_BYTES_MAX)
    assert (part.offset, part.data) == (0, b"anew\n")
    assert files.read("a.log", -1_000).data == b"anew\n"
    for number in range(FILES_MAX + 1):
        (tmp_path / f"{number}.log").touch()
    assert len(files.list()) == FILES_MAX
