"""See that tests find nginx: `make nginx`.

Standard library only. On Debian and Ubuntu, as root, what is missing is installed; elsewhere one sentence says that the
tests which need it are skipped, and how to get it. Tests run it with a configuration of their own.
"""

import shutil
import sys
from pathlib import Path

from tools import debian

PACKAGE = "nginx"


def main() -> int:
    """Exit code 1 only when an installation was tried and failed."""
    if server() is not None:
        return 0
    if not debian.can_install():
        print(f"No nginx was found; its tests are skipped. To run them: apt-get install {PACKAGE}")
        return 0
    print(f"Installing {PACKAGE} for tests ...", flush=True)
    if not debian.install(PACKAGE) or server() is None:
        print(f"Installing {PACKAGE} failed (apt's own words are above).", file=sys.stderr)
        return 1
    return 0


def server() -> Path | None:
    """The server's program."""
    found = shutil.which("nginx", path="/usr/sbin:/usr/bin:/bin:/usr/local/sbin")
    return Path(found) if found else None


if __name__ == "__main__":
    raise SystemExit(main())
