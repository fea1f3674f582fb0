"""Log files that other programs write are cut when they are full."""

import asyncio
import errno
import os
import shutil
from pathlib import Path

import pytest

from firesteel.adapters.inspection import rotation
from firesteel.adapters.inspection.rotation import (
    LogLimits,
    keep_process_logs_short,
    log_limits,
    open_for_appending,
    rotate,
)
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

LIMITS = LogLimits(file_bytes_max=10, former_files_max=2)


def test_what_is_full_becomes_a_former_file_and_its_writer_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "spark-1.log"
    with open_for_appending(file) as writer:
        for number in range(4):
            writer.write(b"number %d of it\n" % number)
            writer.flush()
            assert rotate(file, LIMITS)
            assert not rotate(file, LIMITS)
        writer.write(b"last\n")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "spark-1.log": "last\n",
        "spark-1.1.log": "number 3 of it\n",
        "spark-1.2.log": "number 2 of it\n",
    }


def test_none_are_kept_where_none_are_wanted(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text("x" * 11)
    assert rotate(file, LogLimits(10, 0))
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("a.log", 0)]


def test_a_file_that_can_not_be_copied_is_cut_and_the_former_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not rotate(tmp_path / "none.log", LIMITS)
    file, former = tmp_path / "a.log", tmp_path / "a.1.log"
    former.write_text("former")

    def no_room(_: Path, copy: Path) -> None:
        copy.write_text("a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", no_room)
    for _ in range(3):
        file.write_text("x" * 11)
        assert rotate(file, LIMITS)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.log": "", "a.1.log": "former"}


def test_limits_that_can_not_be(tmp_path: Path) -> None:
    for key, value, least in ((options.LOG_FILE_MAX_SIZE.key, "0", "1m"), (options.LOG_FILE_MAX_COUNT.key, "-1", "0")):
        with pytest.raises(ConfigurationError, match=f"^{key}: it has to be at least {least}, not {value}"):
            log_limits(Configuration({key: value}))


def test_only_logs_of_a_workers_processes_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "LOOK_S", 0.01)
    config = Configuration({options.LOG_FILE_MAX_SIZE.key: "1m", options.LOG_FILE_MAX_COUNT.key: "1"})
    assert log_limits(config) == LogLimits(1 << 20, 1)
    full = ("forkserver.log", "sessionguard.log", "spark-12.log")
    for name in (*full, "taskmanager.log", "spark-12.3.log"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, (1 << 20) + 1)

    async def story() -> None:
        watching = asyncio.ensure_future(keep_process_logs_short(tmp_path, config))
        async with asyncio.timeout(300):
            while any((tmp_path / name).stat().st_size for name in full):
                await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(story())
    assert {path.name for path in tmp_path.iterdir() if path.stat().st_size} == {
        "taskmanager.log",
        "spark-12.3.log",
        *(name.replace(".log", ".1.log") for name in full),
    }
