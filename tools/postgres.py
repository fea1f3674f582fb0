"""See that tests find a PostgreSQL server and its JDBC driver: `make postgres`.

Standard library only. On Debian and Ubuntu, as root, what is missing is installed; elsewhere one sentence says that the
tests which need it are skipped, and how to get it.
"""

import sys
from pathlib import Path

from tools import debian

BINARIES = Path("/usr/lib/postgresql")
DRIVER = Path("/usr/share/java/postgresql.jar")
PACKAGES = ("postgresql", "libpostgresql-jdbc-java")


def main() -> int:
    """Exit code 1 only when an installation was tried and failed."""
    if binaries() is not None and DRIVER.exists():
        return 0
    if not debian.can_install():
        print(f"No PostgreSQL was found; its tests are skipped. To run them: apt-get install {' '.join(PACKAGES)}")
        return 0
    print(f"Installing {' and '.join(PACKAGES)} for tests ...", flush=True)
    if not debian.install(*PACKAGES) or binaries() is None or not DRIVER.exists():
        print(f"Installing {' and '.join(PACKAGES)} failed (apt's own words are above).", file=sys.stderr)
        return 1
    return 0


def binaries() -> Path | None:
    """The directory of the newest server's programs, or None."""
    found = [path.parent for path in BINARIES.glob("*/bin/initdb")]
    return max(found, key=lambda path: [int(part) for part in path.parent.name.split(".")], default=None)


if __name__ == "__main__":
    raise SystemExit(main())
