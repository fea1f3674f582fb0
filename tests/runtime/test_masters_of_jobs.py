"""Who asks a job's JobMaster for a savepoint waits while there is none for a moment."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.assembly import client
from firesteel.assembly.client import MasterClient
from firesteel.model.ids import JobID
from firesteel.runtime.client import NoLeader, SavepointFailed


class Master:
    """Leads after some looks, and knows the job's JobMaster after some more."""

    def __init__(self) -> None:
        self.looks = 0

    def dispatcher(self) -> Any:
        self.looks += 1
        if self.looks < 3:
            raise NoLeader("nobody leads")
        return SimpleNamespace(master_of=lambda job_id, refused: "it" if self.looks >= 6 else None)


def found() -> Any:
    return asyncio.run(MasterClient(Master(), leader_wait_s=0.0)._master_of(JobID("a"), SavepointFailed))  # type: ignore[arg-type]


def test_a_fault_of_the_journal_is_waited_for() -> None:
    """REST waits for nobody; but a stop that goes on behind a fault must not be told as one that has failed."""
    assert found() == "it"


def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MASTER_WAIT_S", 0.0)
    with pytest.raises(NoLeader):
        found()
