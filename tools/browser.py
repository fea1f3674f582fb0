"""See that the dashboard can be tried in a real browser, and run what tries it: `make test-browser`.

Standard library only. On Debian, as root, Chromium is installed; elsewhere one sentence says how to get it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools import debian, flink

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements" / "browser.txt"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PACKAGE = "chromium"
BROWSER = "FIRESTEEL_BROWSER"
TESTS = ("-n", "2", "tests/browser")


def main() -> int:
    """Exit code 1 when there is no browser, or what drives it can't be installed."""
    if found() is None and debian.can_install():
        print(f"Installing {PACKAGE} ...", flush=True)
        debian.install(PACKAGE)
    program = found()
    if program is None:
        print(f"No browser was found: install {PACKAGE}", file=sys.stderr)
        return 1
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps")
    subprocess.run([*command, "--require-hashes", "-r", REQUIREMENTS], check=True)
    environment = {**os.environ, BROWSER: program}
    if flink.home().is_dir():
        environment.setdefault("FIRESTEEL_FLINK_JARS", str(flink.home()))
    return subprocess.run(
        [sys.executable, "-m", "pytest", *TESTS, *sys.argv[1:]], env=environment, check=False
    ).returncode


def found() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


if __name__ == "__main__":
    raise SystemExit(main())
