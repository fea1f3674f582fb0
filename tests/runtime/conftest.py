"""Virtual time; and whenever a JobMaster stops, its state is what its journal stands for."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.core.journal.journal import JobState, fold
from firesteel.model import options
from firesteel.runtime.jobmaster import JobMasterEndpoint
from firesteel.testing.backend import TaskScript
from firesteel.testing.virtualtime import VirtualTimeLoop

Do = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def do() -> Iterator[Do]:
    """Runs a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        yield runner.run


@pytest.fixture
def script() -> TaskScript:
    return TaskScript()


@pytest.fixture(autouse=True)
def journals_fold_to_live_states(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Compares, whenever a JobMaster stops with all it decided written down; gives the jobs it has compared."""
    compared: list[str] = []
    differing: list[str] = []
    stop = JobMasterEndpoint.stop

    async def compare_then_stop(self: JobMasterEndpoint) -> None:
        core, store = self.core, self._store
        assert isinstance(store, InMemoryJobStore)
        job_id = core.job.graph.job_id
        if core._durable == core._sequence and not self._stopped and store._claims.get(job_id) == core.token:
            compared.append(job_id)
            folded = JobState(job_id=job_id)
            for record in store.journal(job_id):
                fold(folded, record, options.EXCEPTION_HISTORY_SIZE.default)
            live = core._scheduler._executions.state
            if folded != live:
                differing.append(f"{folded}\n is not the live\n{live}")
        await stop(self)

    monkeypatch.setattr(JobMasterEndpoint, "stop", compare_then_stop)
    yield compared
    assert not differing, "\n".join(differing)
