"""See that tests find OpenSSH's server and client: `make openssh`.

Standard library only. On Debian and Ubuntu, as root, what is missing is installed; elsewhere one sentence says that the
tests which need it are skipped, and how to get it.
"""

import shutil
import sys
from pathlib import Path

from tools import debian

SBIN = Path("/usr/sbin")
PACKAGES = ("openssh-server", "openssh-client")


def main() -> int:
    """Exit code 1 only when an installation was tried and failed."""
    if server() is not None:
        return 0
    if not debian.can_install():
        print(f"No OpenSSH server was found; its tests are skipped. To run them: apt-get install {' '.join(PACKAGES)}")
        return 0
    print(f"Installing {' and '.join(PACKAGES)} for tests ...", flush=True)
    if not debian.install(*PACKAGES) or server() is None:
        print(f"Installing {' and '.join(PACKAGES)} failed (apt's own words are above).", file=sys.stderr)
        return 1
    return 0


def server() -> Path | None:
    """The server's program, or None when it or the client's is missing."""
    found = shutil.which("sshd", path=f"{SBIN}:/usr/bin:/bin:/usr/local/sbin")
    return Path(found) if found and shutil.which("ssh") and shutil.which("ssh-keygen") else None


if __name__ == "__main__":
    raise SystemExit(main())
