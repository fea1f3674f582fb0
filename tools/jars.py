"""Compile what of ours runs in Spark's JVM into the jars that lie beside the sources. Needs a JDK (javac) of 17 or later.

Each jar says of what source it is: a tidy test fails when that is another one.
"""

import hashlib
import importlib.util
import subprocess
import tempfile
import zipfile
from pathlib import Path

_JVM = Path(__file__).parents[1] / "src/firesteel/adapters/spark/jvm"
JARS = {
    _JVM / "hadoop/local-files.jar": _JVM / "hadoop/LocalFiles.java",
    _JVM / "scheduling/server.jar": _JVM / "scheduling/Server.java",
    _JVM / "results/stored-rows.jar": _JVM / "results/StoredRows.java",
    _JVM / "tasks/task-classes.jar": _JVM / "tasks/TaskClasses.java",
}
"""Sources by jar."""
MANIFEST = "META-INF/MANIFEST.MF"
RELEASE = "17"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of all entries: the same source makes the same jar."""


def main() -> None:
    """Raises CalledProcessError for a source that does not compile."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "installed with the project"
    assert spec.submodule_search_locations, "a package"
    class_path = str(Path(spec.submodule_search_locations[0], "jars", "*"))
    for jar, source in JARS.items():
        make(jar, source, class_path)


def make(jar: Path, source: Path, class_path: str) -> None:
    with tempfile.TemporaryDirectory() as classes:
        command = ["javac", "--release", RELEASE, "-g:none", "-cp", class_path, "-d", classes, str(source)]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(jar, "w") as packed:
            packed.writestr(zipfile.ZipInfo(MANIFEST, EPOCH), manifest(source))
            for file in sorted(Path(classes).rglob("*.class")):
                packed.writestr(zipfile.ZipInfo(file.relative_to(classes).as_posix(), EPOCH), file.read_bytes())


def manifest(source: Path) -> str:
    """What the jar of the present source says of itself."""
    return f"Manifest-Version: 1.0\nSource-SHA-256: {hashlib.sha256(source.read_bytes()).hexdigest()}\n"


if __name__ == "__main__":
    main()
