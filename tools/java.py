"""See that Spark finds a Java it runs on: `make java`.

Standard library only. On Debian and Ubuntu, as root, a missing Java is installed; elsewhere
one sentence says what is missing and how to get it.
"""

import os
import re
import shutil
import subprocess
import sys

from tools import debian

JAVA_MIN = 17
PACKAGE = "openjdk-17-jre-headless"


def main() -> int:
    """Exit code 0 when a fitting Java is there (perhaps only now), 1 otherwise."""
    version = java_version()
    if version >= JAVA_MIN:
        return 0
    found = f"the one found is Java {version}" if version else "none was found on PATH or in JAVA_HOME"
    # A JAVA_HOME that was set on purpose is not worked around.
    if os.environ.get("JAVA_HOME") or not debian.can_install():
        print(f"Spark needs Java {JAVA_MIN} or newer and {found}: {advice()}", file=sys.stderr)
        return 1
    print(f"Spark needs Java {JAVA_MIN} or newer and {found}: installing {PACKAGE} ...", flush=True)
    if not debian.install(PACKAGE) or java_version() < JAVA_MIN:
        print(f"Installing {PACKAGE} did not give a Java {JAVA_MIN} (apt's own words are above).", file=sys.stderr)
        return 1
    return 0


def java_version() -> int:
    """Major version of the Java that Spark would start, or 0."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        return 0
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else 0


def advice() -> str:
    """How to get one here."""
    if os.environ.get("JAVA_HOME"):
        return f"point JAVA_HOME at a Java {JAVA_MIN} or 21, or unset it."
    if shutil.which("apt-get"):
        return f"`sudo apt-get install {PACKAGE}`."
    if sys.platform == "darwin":
        return "`brew install openjdk@17`, then set JAVA_HOME."
    return f"install a Java {JAVA_MIN} or 21 (OpenJDK or Temurin) and put it on PATH."


if __name__ == "__main__":
    raise SystemExit(main())
