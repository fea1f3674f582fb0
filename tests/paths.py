"""Paths in directories in which others make and delete files meanwhile."""

import glob
from pathlib import Path


def paths_now(directory: Path, pattern: str) -> list[Path]:
    """Those that match, hidden ones too. `Path.glob` raises where a directory goes while it is read."""
    return [directory / name for name in glob.glob(pattern, root_dir=directory, recursive=True, include_hidden=True)]
