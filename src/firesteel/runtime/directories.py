"""Directories of the user who runs a process, where his platform has them (on Linux, the XDG Base Directory Specification)."""

import os
from pathlib import Path

from platformdirs import PlatformDirs

_OURS = PlatformDirs("firesteel", appauthor=False)


def state_directory() -> Path:
    """Directory of what may not be lost at the next cleaning: clusters that run, logs."""
    return _OURS.user_state_path


def cache_directory() -> Path:
    """Directory of what can be made again."""
    return _OURS.user_cache_path


def kubectl_configuration() -> Path:
    """File in which kubectl has the user's clusters of Kubernetes."""
    return Path.home() / ".kube" / "config"


def write_private(path: Path, text: str) -> None:
    """A file that only its owner may read, in place of the one that is there; none without a text."""
    path.unlink(missing_ok=True)
    if text:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
