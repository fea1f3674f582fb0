"""Compile Hadoop's local file system of ours into the jar that lies beside its source. Needs a JDK (javac) of 17 or later.

The jar says of what source it is: a tidy test fails when that is another one.
"""

import hashlib
import importlib.util
import subprocess
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/firesteel/adapters/spark/jvm/hadoop/LocalFiles.java"
JAR = SOURCE.with_name("local-files.jar")
MANIFEST = "META-INF/MANIFEST.MF"
RELEASE = "17"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of all entries: the same source makes the same jar."""


def main() -> None:
    """Raises CalledProcessError for a source that does not compile."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "installed with the project"
    assert spec.submodule_search_locations, "a package"
    (hadoop,) = Path(spec.submodule_search_locations[0], "jars").glob("hadoop-client-api-*.jar")
    with tempfile.TemporaryDirectory() as classes:
        command = ["javac", "--release", RELEASE, "-g:none", "-cp", str(hadoop), "-d", classes, str(SOURCE)]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(JAR, "w") as jar:
            jar.writestr(zipfile.ZipInfo(MANIFEST, EPOCH), manifest())
            for file in sorted(Path(classes).rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(file.relative_to(classes).as_posix(), EPOCH), file.read_bytes())


def manifest() -> str:
    """What the jar of the present source says of itself."""
    return f"Manifest-Version: 1.0\nSource-SHA-256: {hashlib.sha256(SOURCE.read_bytes()).hexdigest()}\n"


if __name__ == "__main__":
    main()
