"""Texts to count words in: what every Python has at hand."""

import shutil
import sysconfig
from pathlib import Path


def copy_standard_library(folder: Path) -> Path:
    """The top modules of the standard library, some 150 files of 5 MB in all, as plain texts in one new folder.

    Names with an underscore in front are left out: Spark's reader does not see them, and the example
    goes a longer way for them than the bare script.
    """
    folder.mkdir(parents=True)
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("[!_]*.py")):
        shutil.copy(file, folder / file.name)
    return folder


def copy_a_few(folder: Path, *, files: int = 4) -> Path:
    """A small input: the first modules only."""
    everything = copy_standard_library(folder)
    for file in sorted(everything.iterdir())[files:]:
        file.unlink()
    return everything
