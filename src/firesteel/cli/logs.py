"""The log file of a command."""

import contextlib
import logging
import os
import tempfile
import time
from pathlib import Path

from firesteel.model.options import WORK_DIR, Configuration
from firesteel.runtime.directories import state_directory

FILES_KEPT = 20


def open_log_file(configuration: Configuration) -> Path:
    """Send the log of this process to a new file and return its path. It exists once a line is written.

    In `log` below the work directory when one is configured, else in the user's state
    directory, else, when that can't be written, below the temporary one.
    """
    directory = _log_directory(configuration)
    path = directory / f"firesteel-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    handler = logging.FileHandler(path, delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger("firesteel")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False
    _prune(directory)
    return path


def _log_directory(configuration: Configuration) -> Path:
    work_dir = configuration.get_option(WORK_DIR)
    temporary = Path(tempfile.gettempdir()) / f"firesteel-{os.getuid()}" / "log"
    for directory in (Path(work_dir) / "log" if work_dir else state_directory() / "log", temporary):
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            if os.access(directory, os.W_OK):
                return directory
    return Path(tempfile.mkdtemp(prefix="firesteel-log-"))


def _prune(directory: Path) -> None:
    files = sorted(directory.glob("firesteel-*.log"))
    for path in files[: max(0, len(files) - FILES_KEPT)]:
        with contextlib.suppress(OSError):
            path.unlink()
