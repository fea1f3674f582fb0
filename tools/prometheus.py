"""See that tests find Prometheus and promtool: `make prometheus`.

Standard library only. On Debian and Ubuntu, as root, what is missing is installed; elsewhere one sentence says that the
test which needs it is skipped, and how to get it.
"""

import shutil
import sys

from tools import debian

PACKAGE = "prometheus"
PROGRAMS = ("prometheus", "promtool")


def main() -> int:
    """Exit code 1 only when an installation was tried and failed."""
    if is_there():
        return 0
    if not debian.can_install():
        print(f"No Prometheus was found; its test is skipped. To run it: apt-get install {PACKAGE}")
        return 0
    print(f"Installing {PACKAGE} for a test ...", flush=True)
    if not debian.install(PACKAGE) or not is_there():
        print(f"Installing {PACKAGE} failed (apt's own words are above).", file=sys.stderr)
        return 1
    return 0


def is_there() -> bool:
    return all(shutil.which(program) for program in PROGRAMS)


if __name__ == "__main__":
    raise SystemExit(main())
