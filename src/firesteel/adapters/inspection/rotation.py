"""Log files that other programs write: what is full becomes `NAME.1.log`, and so on, up to a number of them.

Whoever writes such a file holds it open and can't be told of another one. So its content is copied and the file is cut:
its writer must append. What is written in between, some milliseconds, is lost.
"""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

LOOK_S = 5.0
"""Time between two looks at the sizes of files."""


_OF_PROCESSES = re.compile(r"(forkserver|sessionguard|spark-\d+)\.log")


class LogLimits(NamedTuple):
    """How large a log file becomes, and how many former ones are kept."""

    file_bytes_max: int
    former_files_max: int


def log_limits(config: Configuration) -> LogLimits:
    """As configured. Raises ConfigurationError."""
    size_mib, count = config.get_option(options.LOG_FILE_MAX_SIZE), config.get_option(options.LOG_FILE_MAX_COUNT)
    if size_mib < 1:
        raise ConfigurationError(f"{options.LOG_FILE_MAX_SIZE.key}: it has to be at least 1m, not {size_mib}m")
    return LogLimits(size_mib << 20, count)


def former_name(file: Path, number: int) -> Path:
    """`a.log` as `a.1.log`: still a log file by its ending."""
    return file.with_name(f"{file.stem}.{number}{file.suffix}")


def open_for_appending(file: Path) -> BinaryIO:
    """A log file for a process that is to write it, empty."""
    return open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644), "wb")


def rotate(file: Path, limits: LogLimits) -> bool:
    """Whether the file was full, and is empty now. Nothing happens to a file that is not there. Where there is no room for
    a copy, what is in it is lost, and the former files stay."""
    try:
        if file.stat().st_size <= limits.file_bytes_max:
            return False
        if limits.former_files_max:
            _keep(file, limits.former_files_max)
        os.truncate(file, 0)
    except OSError:  # it has gone, or may not be cut
        return False
    return True


def _keep(file: Path, count: int) -> None:
    """Make a copy of it the newest of so many former files, if there is room for one."""
    copy = file.with_name(f".{file.name}.copy")
    try:
        shutil.copyfile(file, copy)
        for number in range(count, 1, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(former_name(file, number - 1), former_name(file, number))
        os.replace(copy, former_name(file, 1))
    except OSError:
        copy.unlink(missing_ok=True)


async def keep_rotating(files: Callable[[], Iterable[Path]], limits: LogLimits) -> None:
    """Look at these files until cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        await asyncio.to_thread(lambda: [rotate(file, limits) for file in files()])


async def keep_process_logs_short(logs: Path, config: Configuration) -> None:
    """Look at what the processes of a worker write, but for those of attempts, until cancelled."""
    await keep_rotating(
        lambda: [file for file in logs.glob("*.log") if _OF_PROCESSES.fullmatch(file.name)], log_limits(config)
    )
