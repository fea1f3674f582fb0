"""The log file of a master or worker process, beside what it writes to standard error: what REST shows."""

import contextlib
import itertools
import logging
import logging.handlers
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from firesteel.adapters.inspection.rotation import former_name, log_limits
from firesteel.adapters.storage.flocks import take_lock
from firesteel.model import options
from firesteel.model.options import Configuration

LINES_A_LOOK = 64
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
SUBJECTS = ("job", "vertex", "attempt")
"""What `runtime.about` says of a line."""


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


class JsonLogFormatter(logging.Formatter):
    """A line as a JSON object: `time` (UTC), `level`, `logger`, `message`; `job`, `vertex`, `attempt` of what it is about;
    `trace` of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= {name: value for name in SUBJECTS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(said).decode()


def log_formatter(config: Configuration) -> logging.Formatter:
    return JsonLogFormatter() if config.get_option(options.LOG_FORMAT) == "json" else ProcessLogFormatter()


class ProcessLogHandler(logging.handlers.RotatingFileHandler):
    """Looks at its file's size at every so many lines: asking the system for it costs more than the line."""

    _lines = 0

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        self._lines += 1
        return self._lines % LINES_A_LOOK == 0 and bool(super().shouldRollover(record))

    def doRollover(self) -> None:
        super().doRollover()
        if not self.backupCount:  # the library opens the file anew then, and goes on with it
            os.truncate(self.baseFilename, 0)


@contextlib.contextmanager
def process_log(wanted: Path, config: Configuration) -> Iterator[Path]:
    """Within the block the process logs to `wanted`, or to `NAME-2.log` and so on while other processes log to those
    before it; which one it is, is told. When it is full it becomes `NAME.1.log`, and so on."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with _claimed(wanted) as file, _logged_to(file, config):
        yield file


@contextlib.contextmanager
def _claimed(wanted: Path) -> Iterator[Path]:
    """The first of these files that no living process has claimed. The system forgets claims with their processes."""
    names = itertools.chain([wanted.name], (f"{wanted.stem}-{number}{wanted.suffix}" for number in itertools.count(2)))
    for file in map(wanted.with_name, names):
        lock = os.open(file.with_name(f".{file.stem}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if take_lock(lock):
                yield file
                return
        finally:
            os.close(lock)


@contextlib.contextmanager
def _logged_to(file: Path, config: Configuration) -> Iterator[None]:
    limits = log_limits(config)
    handler = ProcessLogHandler(
        file, maxBytes=limits.file_bytes_max, backupCount=limits.former_files_max, encoding="utf-8"
    )
    handler.namer = _numbered
    handler.setFormatter(log_formatter(config))
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
    """What the handler calls `a.log.1`."""
    file, _, number = name.rpartition(".")
    return str(former_name(Path(file), int(number)))
