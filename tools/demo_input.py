"""`python -m tools.demo_input DIRECTORY`: lay the sources of Python's standard library out as the demo's input.

Copies, since what is installed beside the library (`site-packages`) is not part of it. Prints the size.
"""

import shutil
import sys
import sysconfig
from pathlib import Path

LEFT_OUT = {"site-packages", "dist-packages", "__pycache__"}


def main() -> None:
    """Copy all `.py` files below the library's directory; what is there already is replaced."""
    library, target = Path(sysconfig.get_path("stdlib")), Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    files = [path for path in library.rglob("*.py") if not LEFT_OUT & set(path.relative_to(library).parts)]
    for path in files:
        copy = target / path.relative_to(library)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    size_mb = sum(path.stat().st_size for path in files) / 1e6
    print(f"input: {len(files):,} files of Python's standard library, {size_mb:.1f} MB")


if __name__ == "__main__":
    main()
