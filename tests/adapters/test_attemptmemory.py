"""What an attempt's processes hold, between two looks at their shared pages."""

from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.worker import memory

TASK, STARTED, DAEMON, WORKER = 1, 2, 3, 4
LIMIT = 1_000


class Processes:
    """Their memory, in MiB by pid: as a whole, and by their share of what is shared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident = {TASK: 100, STARTED: 300, DAEMON: 50, WORKER: 250}
        self.shares = {STARTED: 200, DAEMON: 20, WORKER: 150}
        self.now, self.searched = 10.0, 0
        monkeypatch.setattr(memory, "resident_mib", lambda pid: self.resident.get(pid, 0))
        monkeypatch.setattr(memory, "_proportional_kib", lambda pid: self.shares.get(pid, 0) << 10)
        monkeypatch.setattr(memory, "_descendants", lambda pid: [STARTED])
        monkeypatch.setattr(memory, "children", lambda pid: [WORKER] if pid == DAEMON else [])
        monkeypatch.setattr(memory, "daemons", self._daemons)
        monkeypatch.setattr("firesteel.adapters.spark.worker.memory.time.monotonic", lambda: self.now)
        run: Any = SimpleNamespace(
            server_session="s", seat=SimpleNamespace(take=lambda: SimpleNamespace(server=SimpleNamespace(pid=9)))
        )
        self._watched = memory._Watched(run)

    def look(self) -> tuple[int, int]:
        self.now += memory.SAMPLE_SECONDS
        self._watched.look(TASK, LIMIT)
        return self._watched.own_mib, self._watched.workers_mib

    def _daemons(self, supervisor: int, session: str) -> list[int]:
        self.searched += 1
        return [DAEMON]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


def test_what_is_shared_counts_once(processes: Processes) -> None:
    assert processes.look() == (300, 170)


def test_they_are_searched_for_once_a_second(processes: Processes) -> None:
    for _ in range(8):
        processes.look()
    assert processes.searched == 2


def test_too_much_is_seen_at_once(processes: Processes) -> None:
    processes.look()
    processes.resident[WORKER] = processes.shares[WORKER] = 900
    assert processes.look() == (300, 920)


def test_what_was_given_back_is_not_held_against_it(processes: Processes) -> None:
    """What it had started has ended, and the task process has as much instead."""
    processes.look()
    processes.resident |= {TASK: 950, STARTED: 0, DAEMON: 0, WORKER: 0}
    own, workers = processes.look()
    assert own + workers <= LIMIT
