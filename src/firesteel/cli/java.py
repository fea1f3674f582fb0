"""The Java that Spark would use, looked at without starting it."""

import os
import re
import shutil
from pathlib import Path

import msgspec

OLDEST = 17
MODULE = "jdk.incubator.vector"
"""Spark's JVM is started with `--add-modules` of this one, and does not start where it is missing."""
HOW_TO_GET = (
    "install Java 17 or 21 (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
)


class Java(msgspec.Struct, frozen=True):
    """A Java installation."""

    executable: str
    version: str = ""
    """Version as its `release` file says; empty when there is no such file."""
    modules: tuple[str, ...] = ()

    @property
    def major(self) -> int:
        """17 of `17.0.15` and 8 of `1.8.0`; 0 when unknown."""
        return major_version(self.version)


def find_java() -> Java | None:
    """JAVA_HOME's, else the first on PATH: the order that Spark has."""
    home = os.environ.get("JAVA_HOME")
    executable = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if executable is None or not os.access(executable, os.X_OK):
        return None
    return Java(executable, *_release(Path(os.path.realpath(executable)).parent.parent / "release"))


def java_problem() -> str:
    """A sentence on what keeps Spark from starting, and what to do about it; or empty."""
    java = find_java()
    home = os.environ.get("JAVA_HOME")
    if java is None and home:
        return f"JAVA_HOME is {home}, but there is no Java in it: correct or unset it, or {HOW_TO_GET}"
    if java is None:
        return f"Java is missing, and Spark needs it: {HOW_TO_GET}, or set JAVA_HOME"
    if 0 < java.major < OLDEST:
        return f"{java.executable} is Java {java.version}, and Spark needs {OLDEST} or newer: {HOW_TO_GET}, or set JAVA_HOME"
    if java.modules and MODULE not in java.modules:
        return f"{java.executable} lacks the module {MODULE}, which Spark needs: {HOW_TO_GET}, or set JAVA_HOME"
    return ""


def major_version(version: str) -> int:
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0


def _release(file: Path) -> tuple[str, tuple[str, ...]]:
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return "", ()
    values = dict(re.findall(r'^(\w+)="(.*)"$', text, flags=re.MULTILINE))
    return values.get("JAVA_VERSION", ""), tuple(values.get("MODULES", "").split())
