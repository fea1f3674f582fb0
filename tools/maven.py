"""Jars from Maven for `make test-stack`, by the Ivy among Spark's own jars, kept in the user's cache."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from firesteel.adapters.spark.jvm.launch import find_installation

Coordinates = tuple[str, str, str]
"""Group, name, version."""


def kept(name: str, coordinates: Coordinates, *options: str) -> Path:
    """The directory `name` with that jar and those it needs; `options` are Ivy's."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firesteel" / name
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as directory:
            (Path(directory) / "jars").mkdir()
            for jar in _resolved(coordinates, Path(directory), options):
                shutil.copy(jar, Path(directory) / "jars")
            os.replace(Path(directory) / "jars", cache)
    return cache


def _resolved(coordinates: Coordinates, directory: Path, options: tuple[str, ...]) -> list[str]:
    installation = find_installation()
    (ivy,) = (installation.home / "jars").glob("ivy-*.jar")
    found = directory / "classpath"
    where = ("-cache", str(directory / "ivy"), "-cachepath", str(found))
    wanted = ("-dependency", *coordinates, "-confs", "default", "-m2compatible", *options)
    subprocess.run((installation.java, "-jar", str(ivy), *wanted, *where), check=True, stdout=sys.stderr)
    return found.read_text().strip().split(os.pathsep)
