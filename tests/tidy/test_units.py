"""The units for systemd: systemd takes them, and what they start is there."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
INSTALLED = "/opt/firesteel/.venv/bin/firesteel"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace(INSTALLED, sys.executable))
    made = [str(tmp_path / unit.name) for unit in UNITS]
    # Its own units of this machine are not looked at: man pages and generators may be missing there.
    command = ["systemd-analyze", "verify", "--man=no", "--generators=no", "--recursive-errors=no", *made]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_a_unit_starts_is_a_command(unit: Path) -> None:
    (line,) = [each for each in unit.read_text().splitlines() if each.startswith("ExecStart=")]
    program, command = line.removeprefix("ExecStart=").split(" ")
    assert program == INSTALLED
    told = subprocess.run(
        [sys.executable, "-m", "firesteel", command, "--help"], check=True, capture_output=True, text=True
    )
    assert "2 bad configuration" in " ".join(told.stdout.split()), "RestartPreventExitStatus counts on it"
