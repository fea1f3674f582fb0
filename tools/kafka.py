"""Download the jars of a Kafka broker for `make test-stack`: 43 MB from Maven, by the Ivy among Spark's own jars.

`python -m tools.kafka` prints the directory, in the user's cache.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from firesteel.adapters.spark.jvm.launch import find_installation

VERSION = "4.4.0"
COORDINATES = ("org.apache.kafka", "kafka_2.13", VERSION)


def main() -> int:
    print(home())
    return 0


def home() -> Path:
    """The directory with the broker's jars."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firesteel" / f"kafka-{VERSION}"
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as directory:
            (Path(directory) / "jars").mkdir()
            for jar in resolved(Path(directory)):
                shutil.copy(jar, Path(directory) / "jars")
            os.replace(Path(directory) / "jars", cache)
    return cache


def resolved(directory: Path) -> list[str]:
    """The broker's jar and those it needs."""
    installation = find_installation()
    (ivy,) = (installation.home / "jars").glob("ivy-*.jar")
    found = directory / "classpath"
    options = ("-dependency", *COORDINATES, "-confs", "default", "-m2compatible")
    command = (
        installation.java,
        "-jar",
        str(ivy),
        *options,
        "-cache",
        str(directory / "ivy"),
        "-cachepath",
        str(found),
    )
    subprocess.run(command, check=True, stdout=sys.stderr)
    return found.read_text().strip().split(os.pathsep)


if __name__ == "__main__":
    sys.exit(main())
