"""The log file of a master or worker process, beside what it writes to standard error: what REST shows."""

import contextlib
import fcntl
import itertools
import logging
import logging.handlers
import os
import time
from collections.abc import Iterator
from pathlib import Path

FILE_BYTES_MAX, OLD_FILES_KEPT = 16 << 20, 4
LINES_A_LOOK = 64
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class ProcessLogFormatter(logging.Formatter):
    """Writes a second's time out once: a busy master logs thousands of lines in it."""

    def __init__(self) -> None:
        super().__init__(FORMAT)
        self._second, self._text = -1, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        if int(record.created) != self._second:
            self._second = int(record.created)
            self._text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        return f"{self._text},{int(record.msecs):03d}"


class ProcessLogHandler(logging.handlers.RotatingFileHandler):
    """Looks at its file's size at every so many lines: asking the system for it costs more than the line."""

    _lines = 0

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        self._lines += 1
        return self._lines % LINES_A_LOOK == 0 and bool(super().shouldRollover(record))


@contextlib.contextmanager
def process_log(wanted: Path) -> Iterator[Path]:
    """Within the block the process logs to `wanted`, or to `NAME-2.log` and so on while other processes log to those
    before it; which one it is, is told. When it is full it becomes `NAME.1.log`, and so on."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with _claimed(wanted) as file, _logged_to(file):
        yield file


@contextlib.contextmanager
def _claimed(wanted: Path) -> Iterator[Path]:
    """The first of these files that no living process has claimed. The system forgets claims with their processes."""
    names = itertools.chain([wanted.name], (f"{wanted.stem}-{number}{wanted.suffix}" for number in itertools.count(2)))
    for file in map(wanted.with_name, names):
        lock = os.open(file.with_name(f".{file.stem}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        try:
            yield file
        finally:
            os.close(lock)
        return


@contextlib.contextmanager
def _logged_to(file: Path) -> Iterator[None]:
    handler = ProcessLogHandler(file, maxBytes=FILE_BYTES_MAX, backupCount=OLD_FILES_KEPT, encoding="utf-8")
    handler.namer = _numbered
    handler.setFormatter(ProcessLogFormatter())
    own, level = logging.getLogger("firesteel"), logging.getLogger("firesteel").level
    loggers = [
        logging.getLogger(),
        *([] if own.propagate else [own]),
    ]  # a command that is a master too keeps its own log
    own.setLevel(logging.INFO)
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        own.setLevel(level)
        for logger in loggers:
            logger.removeHandler(handler)
        handler.close()


def _numbered(name: str) -> str:
    """`a.log.1` as `a.1.log`: still a log file by its ending."""
    stem, _, number = name.rpartition(".")
    return f"{stem.removesuffix('.log')}.{number}.log"
