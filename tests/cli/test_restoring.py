"""Options of commands whose job may start from a savepoint, as the configuration of the job."""

from pathlib import Path

import pytest

from firesteel.cli.exits import CommandError
from firesteel.cli.jobs.restoring import taken_restoring


def test_what_is_said_is_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"from_savepoint": "saved", "claim_mode": "claim", "ignores_unclaimed": True, "name": "x"}
    assert taken_restoring(given) == {
        "execution.state-recovery.path": str(tmp_path / "saved"),
        "execution.state-recovery.claim-mode": "claim",
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    assert given == {"name": "x"}
    unsaid = {"from_savepoint": None, "claim_mode": None, "ignores_unclaimed": False}
    assert set(taken_restoring(unsaid).values()) == {None}


def test_an_empty_path_is_no_savepoint() -> None:
    with pytest.raises(CommandError, match="is a variable empty"):
        taken_restoring({"from_savepoint": "", "claim_mode": None, "ignores_unclaimed": False})
