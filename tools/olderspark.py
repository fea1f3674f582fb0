"""Download an older Spark for `make test-stack`, since Delta and Iceberg have no release for the pinned one: 450 MB.

`python -m tools.olderspark spark41` prints the directory that SPARK_HOME is to name: that of the pinned source package on
PyPI which has Spark's jars, kept in the user's cache.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JARS = "deps/jars/"


def main(name: str) -> int:
    print(home(name))
    return 0


def home(name: str) -> Path:
    """SPARK_HOME of what `requirements/NAME.txt` pins."""
    pins = ROOT / "requirements" / f"{name}.txt"
    version = pins.read_text().split("==")[1].split()[0]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firesteel" / f"spark-{version}"
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as directory:
            unpack(download(pins, Path(directory)), Path(directory) / "home")
            os.replace(Path(directory) / "home", cache)
    return cache


def download(pins: Path, directory: Path) -> Path:
    """The package, its hash compared with the pin."""
    command = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes")
    subprocess.run([*command, "-d", directory, "-r", pins], check=True, stdout=sys.stderr)
    (package,) = directory.glob("*.tar.gz")
    return package


def unpack(package: Path, directory: Path) -> None:
    (directory / "jars").mkdir(parents=True)
    with tarfile.open(package) as archive:
        for member in archive:
            name = member.name.rpartition(JARS)[2] if JARS in member.name else ""
            source = archive.extractfile(member) if name.endswith(".jar") and "/" not in name else None
            if source is not None:  # what is in directories below is for other programs
                with source, (directory / "jars" / name).open("wb") as target:
                    shutil.copyfileobj(source, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
