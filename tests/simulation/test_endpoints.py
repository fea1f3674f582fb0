"""Level B: real endpoints; bugs that only they can have are found within the seeds that stand beside them."""

from collections.abc import Callable

import pytest

from firesteel.adapters.ha.joblog import JobLog
from firesteel.core.leadership.events import ServiceStopped
from firesteel.model.ids import FencingToken
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.endpoint import Endpoint
from firesteel.runtime.leadership import LeaderRunner
from firesteel.runtime.retrieval import RemoteLeaders
from firesteel.runtime.taskexecutor import TaskExecutorEndpoint
from firesteel.testing.simulation.endpoints.run import run_endpoint_seed
from firesteel.testing.simulation.summary import SimulationFailure
from tests.simulation.leaderplants import running_attempts_not_adopted


def tasks_go_on(patch: pytest.MonkeyPatch) -> None:
    """What an endpoint has under way is not ended with it."""
    patch.setattr(BackgroundTasks, "cancel", lambda tasks: None)
    patch.setattr(BackgroundTasks, "join", lambda tasks: nothing())


def timers_go_on(patch: pytest.MonkeyPatch) -> None:
    """The timers of an endpoint fire when it has stopped."""
    halt = Endpoint._halt

    def halt_but_for_timers(endpoint: Endpoint) -> None:
        kept = dict(endpoint._timers)
        endpoint._timers.clear()
        halt(endpoint)
        endpoint._timers.update(kept)

    patch.setattr(Endpoint, "_halt", halt_but_for_timers)


def cancellations_lost(patch: pytest.MonkeyPatch) -> None:
    """An attempt that is cancelled before it has begun never says how it ended."""
    ended = TaskExecutorEndpoint._attempt_ended
    patch.setattr(
        TaskExecutorEndpoint,
        "_attempt_ended",
        lambda endpoint, attempt, task: None if task.cancelled() else ended(endpoint, attempt, task),
    )


def claims_get_stuck(patch: pytest.MonkeyPatch) -> None:
    """A claim that failed behind its snapshot is tried again under the same number (a bug we had)."""
    claim = JobLog.claim

    def claim_and_keep_the_number(log: JobLog, token: FencingToken) -> None:
        begun: list[object] = []
        begin = log._begin

        def note(prepared: str) -> None:
            begun.append(log._claim)
            begin(prepared)

        log._begin = note  # type: ignore[method-assign]
        try:
            claim(log, token)
        except OSError:
            if begun:
                log._published = begun[0]  # type: ignore[assignment]
            raise
        finally:
            del log._begin

    patch.setattr(JobLog, "claim", claim_and_keep_the_number)


def sessions_overlap(patch: pytest.MonkeyPatch) -> None:
    """The next session of a service begins before the last one has ended."""
    perform = LeaderRunner._perform

    def stop_later(runner: LeaderRunner, effect: object) -> None:
        perform(runner, effect)  # type: ignore[arg-type]
        if type(effect).__name__ == "StopService":
            runner._tell(ServiceStopped(effect.token))  # type: ignore[attr-defined]

    patch.setattr(LeaderRunner, "_perform", stop_later)


def leaders_asked_once(patch: pytest.MonkeyPatch) -> None:
    """A worker that has lost its master does not ask anew who leads."""
    patch.setattr(RemoteLeaders, "_ask_again", lambda leaders: None)


PLANTS: dict[Callable[[pytest.MonkeyPatch], None], range] = {
    tasks_go_on: range(30),
    timers_go_on: range(10),
    cancellations_lost: range(40),
    leaders_asked_once: range(20),
    claims_get_stuck: range(255, 315),
    sessions_overlap: range(20),
    running_attempts_not_adopted: range(60),
}


async def nothing() -> None:
    """Waits for nothing."""


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_holds(seed: int) -> None:
    run_endpoint_seed(seed)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in PLANTS[plant]:
        try:
            run_endpoint_seed(seed)
        except SimulationFailure:
            return
    pytest.fail(f"not found by {PLANTS[plant]}")
