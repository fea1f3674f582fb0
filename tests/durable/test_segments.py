"""The files of the store: their form, and what is wrong with them is named."""

import errno
import os
from pathlib import Path

import pytest

from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.joblog import JobLog
from firesteel.adapters.ha.segments import JournalCorrupt, JournalHeader, line, read_journal
from firesteel.runtime.services import StaleLeader
from tests.durable.stories import JOURNAL, NEW, OLD, SNAPSHOT, STORY, log_in, write_story


def test_files_of_another_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(line(JournalHeader(version=99, number=2, token=OLD)))
    with pytest.raises(JournalCorrupt, match="version 99"):
        log_in(tmp_path).claim(NEW)


def test_a_torn_last_line_is_dropped_wherever_it_is_torn(tmp_path: Path) -> None:
    write_story(tmp_path)
    data = (tmp_path / JOURNAL).read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    entries, length = read_journal(JOURNAL, data)
    assert length == len(data)
    for end in range(last, len(data)):
        lost = len(data) - end
        for tail in (b"", bytes(lost), bytes(lost - 1) + b"\n" if lost > 1 else b""):
            assert read_journal(JOURNAL, data[:end] + tail) == (entries[:-1], last), (end, tail)


@pytest.mark.parametrize("name", [JOURNAL, SNAPSHOT])
def test_damage_is_named_with_file_and_offset(tmp_path: Path, name: str) -> None:
    """In any line but a journal's last, of which nobody knows whether it was acknowledged."""
    write_story(tmp_path)
    data = (tmp_path / name).read_bytes()
    begins = [0, *(place + 1 for place in range(len(data) - 1) if data[place : place + 1] == b"\n")]
    for begin in begins[:-1] if name == JOURNAL else begins:
        for place in (begin, begin + 3, begin + 20):
            (tmp_path / name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            with pytest.raises(JournalCorrupt, match=f"{name} is damaged at offset {begin}"):
                log_in(tmp_path).claim(NEW)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    write_story(tmp_path)
    data = (tmp_path / SNAPSHOT).read_bytes()
    (tmp_path / SNAPSHOT).write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    with pytest.raises(JournalCorrupt, match="lines follow"):
        log_in(tmp_path).claim(NEW)
    (tmp_path / SNAPSHOT).unlink()
    with pytest.raises(JournalCorrupt, match=f"{SNAPSHOT} is missing"):
        log_in(tmp_path).claim(NEW)


def test_old_leaders_are_refused(tmp_path: Path) -> None:
    old, new = log_in(tmp_path), log_in(tmp_path)
    old.claim(OLD)
    new.claim(NEW)
    with pytest.raises(StaleLeader):
        old.append([STORY[0]])
    with pytest.raises(StaleLeader):
        old.claim(OLD)
    new.append([STORY[0]])
    with pytest.raises(StaleLeader):
        new.claim(OLD)


def test_snapshots_bound_what_is_read(tmp_path: Path) -> None:
    log = JobLog(Disk(tmp_path), history_size=4, snapshot_records=10)
    log.claim(OLD)
    log.append(list(STORY))
    sizes = []
    for _ in range(2_000):
        log.append([STORY[1]])
        sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
    assert max(sizes[1_000:]) <= 1.1 * max(sizes[:1_000])
    assert len(list(tmp_path.iterdir())) == 2


def test_errors_name_the_file(tmp_path: Path) -> None:
    class Full:
        """The real system, on a full disk."""

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def write(self, descriptor: int, data: memoryview) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = JobLog(Disk(tmp_path, Full()), history_size=4, snapshot_records=10)  # type: ignore[arg-type]
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}"):
        log.claim(OLD)
    assert list(tmp_path.iterdir()) == []
