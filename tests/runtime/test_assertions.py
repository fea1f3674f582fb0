"""Without assertions nothing guards the invariants: no cluster runs then."""

import subprocess
import sys

import pytest

CLUSTER = "from firesteel.minicluster import MiniCluster; MiniCluster()"
COMMAND = "from firesteel.cli.main import main; main(['--version'])"


@pytest.mark.parametrize(("code", "status"), [(CLUSTER, 1), (COMMAND, 2)])
def test_optimized_python_is_refused(code: str, status: int) -> None:
    ended = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == status
    assert "checks itself with assertions: run Python without -O and PYTHONOPTIMIZE" in ended.stderr
