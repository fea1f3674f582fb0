"""The log file of a master or worker process, beside what it writes to standard error: what REST shows."""

import contextlib
import logging
import logging.handlers
from collections.abc import Iterator
from pathlib import Path

FILE_BYTES_MAX, OLD_FILES_KEPT = 16 << 20, 4
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@contextlib.contextmanager
def process_log(file: Path) -> Iterator[None]:
    """Within the block the process logs to `file`; when it is full it becomes `NAME.1.log`, and so on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(
        file, maxBytes=FILE_BYTES_MAX, backupCount=OLD_FILES_KEPT, encoding="utf-8"
    )
    handler.namer = _numbered
    handler.setFormatter(logging.Formatter(FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


def _numbered(name: str) -> str:
    """`a.log.1` as `a.1.log`: still a log file by its ending."""
    stem, _, number = name.rpartition(".")
    return f"{stem.removesuffix('.log')}.{number}.log"
