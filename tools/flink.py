"""Download Flink's own command line for `make compat`: jars from the pinned wheel on PyPI, kept in the user's cache.

Prints the directory. The wheel has 330 MB, so this is no part of every test run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements" / "compat.txt"
JARS = "pyflink/lib/"


def main() -> int:
    if not home().is_dir():
        download_to(home())
    print(home())
    return 0


def home() -> Path:
    """Where the jars are, once they were downloaded."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firesteel" / version()


def download_to(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as directory:
        unpack(download(Path(directory)), Path(directory) / "jars")
        os.replace(Path(directory) / "jars", place)


def version() -> str:
    """Like flink-2.3.0, of what is pinned."""
    pin = next(line for line in REQUIREMENTS.read_text().splitlines() if "==" in line)
    return f"flink-{pin.split('==')[1].split()[0]}"


def download(directory: Path) -> Path:
    """The wheel, its hash compared with the pin."""
    command = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--require-hashes")
    subprocess.run([*command, "-d", directory, "-r", REQUIREMENTS], check=True, stdout=sys.stderr)
    (wheel,) = directory.glob("*.whl")
    return wheel


def unpack(wheel: Path, directory: Path) -> None:
    directory.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(JARS) and name.endswith(".jar"):
                with archive.open(name) as source, (directory / Path(name).name).open("wb") as target:
                    shutil.copyfileobj(source, target)


if __name__ == "__main__":
    sys.exit(main())
