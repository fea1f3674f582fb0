"""See that tests find an etcd, and the API server and the scheduler of Kubernetes: `make kubernetes`.

Standard library only. Both servers are one program, built once from its Go module, as pinned in `tools/kubernetesservers`, and
kept in the user's cache: ten minutes on two cores. etcd is Debian's. What can't be had is said in one sentence, and tests are
skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import debian

SOURCE = Path(__file__).resolve().parent / "kubernetesservers"
PACKAGE = "etcd-server"
GO_MIN = (1, 25)


def main() -> int:
    """Exit code 1 only when an installation or a build was tried and failed."""
    if shutil.which("etcd") is None:
        if not debian.can_install():
            print(f"No etcd was found; tests with Kubernetes are skipped. To run them: apt-get install {PACKAGE}")
            return 0
        print(f"Installing {PACKAGE} for tests ...", flush=True)
        if not debian.install(PACKAGE):
            return 1
    if not program().exists():
        if not has_go():
            print(
                f"No Go {'.'.join(map(str, GO_MIN))} was found to build Kubernetes' servers; their tests are skipped."
            )
            return 0
        print(f"Building {program().parent.name} for tests ...", flush=True)
        return build(program())
    return 0


def version() -> str:
    """Like 1.35.4, of what is pinned."""
    found = re.search(r"k8s\.io/kubernetes v([\d.]+)", (SOURCE / "go.mod").read_text())
    assert found is not None, "it is required there"
    return found[1]


def program() -> Path:
    """Where the servers are, once they were built; its first argument says which of them is to run."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "firesteel" / f"kubernetes-{version()}" / "servers"


def has_go() -> bool:
    if shutil.which("go") is None:
        return False
    said = subprocess.run(("go", "env", "GOVERSION"), capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= GO_MIN


def build(target: Path) -> int:
    """Go's exit code. A build that is broken off leaves nothing there."""
    major, minor, _ = version().split(".")
    names = {"gitVersion": f"v{version()}", "gitMajor": major, "gitMinor": minor}
    stamps = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in names.items())
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        made = Path(directory) / target.name
        command = ("go", "build", "-mod=readonly", "-trimpath", "-ldflags", f"-s -w {stamps}", "-o", str(made), ".")
        done = subprocess.run(command, cwd=SOURCE, env={**os.environ, "CGO_ENABLED": "0"}, check=False)
        if done.returncode == 0:
            os.replace(made, target)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
