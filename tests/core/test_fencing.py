"""A message with a stale fencing token changes nothing (invariant 3): for every core and every message."""

import dataclasses
from collections import deque
from enum import Enum

import msgspec
import numpy as np
import pytest

from firesteel.core.effects import Event, Received
from firesteel.core.machine import Core
from firesteel.core.requests import Asked, Request
from firesteel.model import messages as m
from firesteel.model.ids import Address, FencingToken
from firesteel.model.inquiries import AskWorker
from firesteel.model.states import JobStatus
from tests.core.graphs import JOB
from tests.core.messages import KINDS, SAMPLES
from tests.core.stories.dispatcher import DispatcherPlayer
from tests.core.stories.jobmaster import JobMasterPlayer
from tests.core.stories.jobrelease import JobReleasePlayer
from tests.core.stories.player import Player
from tests.core.stories.resourcemanager import ResourceManagerPlayer
from tests.core.stories.taskexecutor import TaskExecutorPlayer

NOT_STATE = ("story", "_effects", "now_ms")
"""What a refused message may touch: the core's story tells of the refusal."""

STALE = (None, FencingToken(0, "old"), FencingToken(1, "another"))
"""Recipient tokens that are not of this session, whose epoch is 1."""

FROM_THE_RESOURCE_MANAGER = (m.TaskExecutorRegistered, m.RequestSlots, m.HeartbeatRequest, AskWorker)
FROM_THE_JOB_MASTER = (
    m.AllocatedSlots,
    m.SubmitTasks,
    m.CancelTasks,
    m.AcknowledgeTaskStates,
    m.NextInputSplits,
    m.DiscardResults,
    m.CommitSinks,
    m.StopTasks,
    m.TakeSavepoint,
    m.TriggerCheckpoint,
    m.ReleaseJobResources,
)

FROM_A_JOB_MASTER = (
    m.RegisterJobMaster,
    m.DeclareRequiredResources,
    m.JobMasterHeartbeat,
    m.DisconnectJobMaster,
)
"""To the ResourceManager."""


def busy_job_master() -> Player:
    """One region runs, another's end is not acknowledged, a third waits."""
    player = JobMasterPlayer()
    player.play("> graph v*3\n> start\n> leads rm 1\n> report w1 slots=a\n> state w1 0#0:RUNNING\n")
    return player


def busy_task_executor() -> Player:
    """Registered with one ResourceManager after another, with an attempt of the second JobMaster."""
    player = TaskExecutorPlayer()
    player.play("> start\n> leads rm 2\n> registered i1 token=2\n> slot 0 a token=2 jm=2\n> held a token=2\n")
    player.play("> submit 0#0@a token=2\n> slot 1 c token=2 jm=2\n> cancel 1#0 token=2\n> wants 0#0:0\n")
    return player


def busy_resource_manager() -> Player:
    player = ResourceManagerPlayer()
    player.play("> start\n> worker w1 . .\n> job job register 1 token=2\n")
    return player


def busy_dispatcher() -> Player:
    player = DispatcherPlayer()
    player.play("> start\n> loaded\n> submit 1 job\n> stored job\n> status job RUNNING\n> result 2 job\n")
    return player


def busy_job_release() -> Player:
    player = JobReleasePlayer()
    player.play("> start\n> leads rm 1\n> report w1\n")
    return player


LEADERS = {
    "jobmaster": busy_job_master,
    "resourcemanager": busy_resource_manager,
    "dispatcher": busy_dispatcher,
    "jobrelease": busy_job_release,
}


def state_of(value: object) -> object:
    """All that a core holds, as plain data that can be compared."""
    match value:
        case None | bool() | int() | float() | str() | Enum() | msgspec.Struct():
            return value
        case np.ndarray():
            return value.tolist()
        case dict():
            return [(state_of(key), state_of(item)) for key, item in value.items()]
        case list() | tuple() | deque():
            return [state_of(item) for item in value]
        case _ if dataclasses.is_dataclass(value):
            return [(field.name, state_of(getattr(value, field.name))) for field in dataclasses.fields(value)]
        case _ if hasattr(value, "__dict__"):
            return [(name, state_of(item)) for name, item in vars(value).items() if name not in NOT_STATE]
        case _:
            return repr(value)


def letter(core: Core, body: m.AnyMessage, sender_token: FencingToken, recipient_token: FencingToken | None) -> Event:
    envelope = m.Envelope(
        sender=Address("w1"),
        recipient=core.address,
        sender_token=sender_token,
        recipient_token=recipient_token,
        body=body,
    )
    return Received(envelope)


def test_there_is_a_sample_of_every_message() -> None:
    assert len(SAMPLES) == len(KINDS)
    assert {type(sample) for sample in SAMPLES} == set(KINDS)


@pytest.mark.parametrize("body", SAMPLES, ids=lambda body: type(body).__name__)
@pytest.mark.parametrize("name", LEADERS)
def test_what_was_meant_for_another_session_changes_nothing(name: str, body: m.AnyMessage) -> None:
    core = LEADERS[name]().core
    before = state_of(core)
    for token in STALE:
        assert core.handle(letter(core, body, FencingToken(99, "new"), token), 10) == []
    assert state_of(core) == before


@pytest.mark.parametrize("body", SAMPLES, ids=lambda body: type(body).__name__)
def test_what_a_former_master_says_to_a_worker_changes_nothing(body: m.AnyMessage) -> None:
    core = busy_task_executor().core
    before = state_of(core)
    assert core.handle(letter(core, body, FencingToken(1, "old"), None), 10) == []
    assert state_of(core) == before


@pytest.mark.parametrize("body", SAMPLES, ids=lambda body: type(body).__name__)
def test_what_the_leading_master_says_to_a_worker_is_heard(body: m.AnyMessage) -> None:
    """The test above would hold of a core that is deaf: this one tells them apart."""
    core = busy_task_executor().core
    before = state_of(core)
    token = FencingToken(2, "rm" if isinstance(body, FROM_THE_RESOURCE_MANAGER) else "jm")
    effects = core.handle(letter(core, body, token, None), 10)
    heard = isinstance(body, FROM_THE_RESOURCE_MANAGER + FROM_THE_JOB_MASTER)
    assert heard == (state_of(core) != before or effects != [])


@pytest.mark.parametrize("kind", FROM_A_JOB_MASTER, ids=lambda kind: kind.__name__)
def test_what_a_former_job_master_says_to_the_resource_manager_changes_nothing(kind: type[m.AnyMessage]) -> None:
    body = next(sample for sample in SAMPLES if type(sample) is kind)
    core = busy_resource_manager().core
    before = state_of(core)
    assert core.handle(letter(core, body, FencingToken(1, "jm-job"), core.token), 10) == []
    assert state_of(core) == before


def test_what_a_former_job_master_says_to_the_dispatcher_changes_nothing() -> None:
    core = busy_dispatcher().core
    before = state_of(core)
    late = m.JobStatusChanged(job_id=JOB, status=JobStatus.FAILING)
    assert core.handle(letter(core, late, FencingToken(1, "jm-job"), core.token), 10) == []
    assert state_of(core) == before


class Whatever(Request[None]):
    """No Dispatcher knows it."""


class Nonsense(Event):
    """No core knows it."""


@pytest.mark.parametrize("make", [*LEADERS.values(), busy_task_executor])
def test_an_event_of_another_component_is_our_bug(make) -> None:
    with pytest.raises(AssertionError, match="not an event of a"):
        make().core.handle(Nonsense(), 10)


def test_a_request_of_another_component_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="not a request to a Dispatcher"):
        busy_dispatcher().core.handle(Asked(5, Whatever()), 10)
