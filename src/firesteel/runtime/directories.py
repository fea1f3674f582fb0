"""Directories of the user who runs a process, where his platform has them (on Linux, the XDG Base Directory Specification)."""

from pathlib import Path

from platformdirs import PlatformDirs

_OURS = PlatformDirs("firesteel", appauthor=False)


def state_directory() -> Path:
    """Directory of what may not be lost at the next cleaning: clusters that run, logs."""
    return _OURS.user_state_path


def cache_directory() -> Path:
    """Directory of what can be made again."""
    return _OURS.user_cache_path
