"""What else a machine has to do while something is measured on it."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LOADS = (
    "while True: sum(range(100_000))",
    "import os, sys\nwhile True:\n with open(sys.argv[1], 'wb') as f:\n  f.write(bytes(32 << 20)); os.fsync(f.fileno())",
)
"""A program that computes, and one that writes."""


@contextlib.contextmanager
def loads(folder: Path) -> Iterator[None]:
    """They run meanwhile, and write below `folder`."""
    programs = [(sys.executable, "-c", program, str(folder / "load")) for program in LOADS]
    begun = [subprocess.Popen(program) for program in programs]
    try:
        yield
    finally:
        for each in begun:
            each.kill()
            each.wait()
