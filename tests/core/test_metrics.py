"""Metrics are declared once, and what workers measure reaches the ResourceManager with their heartbeats."""

import re
from itertools import starmap

import pytest

from firesteel.core.effects import Received, Send
from firesteel.core.taskexecutor.workeffects import Measured
from firesteel.model import messages as m
from firesteel.model.ids import InstanceID, ResourceID
from firesteel.model.metric import VALUES_MAX, Kind, MetricValue, Scope, known_values, measured
from firesteel.model.metrics import JVM_HEAP_USED, METRICS, QUEUE_LENGTH, Metric
from firesteel.model.reports import SlotReport
from tests.core.stories.resourcemanager import ResourceManagerPlayer
from tests.core.stories.taskexecutor import TaskExecutorPlayer


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: f"{metric.scope.value} {metric.name}")
def test_a_name_is_one_that_prometheus_takes_and_says_the_unit(metric: Metric) -> None:
    name = metric.prometheus_name
    assert re.fullmatch(r"firesteel(_[a-z0-9]+)+", name)
    assert name.endswith("_total") is (metric.kind is Kind.COUNTER)
    assert name.removesuffix("_total").endswith(metric.base_unit.suffix)
    assert metric.description.endswith(".")


def test_no_two_metrics_have_one_name_at_prometheus() -> None:
    names = [metric.prometheus_name for metric in METRICS.values()]
    assert len(set(names)) == len(names)


def test_flinks_names_become_words_and_variables_become_labels() -> None:
    assert JVM_HEAP_USED.prometheus_name == "firesteel_taskmanager_status_jvm_memory_heap_used_bytes"
    assert QUEUE_LENGTH.labels == ("queue",)
    assert QUEUE_LENGTH.prometheus_name == "firesteel_jobmanager_queue_length"
    assert QUEUE_LENGTH.of(3, "etl").id == "queue.etl.length"


def test_what_was_not_measured_is_left_out_and_so_is_what_this_version_does_not_know() -> None:
    assert measured({JVM_HEAP_USED: None, QUEUE_LENGTH: None}) == []
    heap, odd = JVM_HEAP_USED.of(1), MetricValue(QUEUE_LENGTH.name, 1.0)
    values = [heap, MetricValue("of.another.version", 1.0), odd]
    assert known_values(Scope.TASKMANAGER, values) == [(JVM_HEAP_USED, heap)]
    assert known_values(Scope.JOBMANAGER, [odd]) == []


def heartbeats(player: TaskExecutorPlayer) -> list[tuple[MetricValue, ...]]:
    effects = player.core.handle(Received(request_of_resource_manager(player)), player.now_ms)
    bodies = [effect.envelope.body for effect in effects if isinstance(effect, Send)]
    return [body.metrics for body in bodies if isinstance(body, m.TaskExecutorHeartbeat)]


def request_of_resource_manager(player: TaskExecutorPlayer) -> m.Envelope:
    leader = player.core._registration.leader
    assert leader is not None
    return m.Envelope(
        sender=leader.address,
        recipient=player.core.address,
        sender_token=leader.token,
        recipient_token=None,
        body=m.HeartbeatRequest(),
    )


def test_every_heartbeat_of_a_worker_has_what_it_measured_last() -> None:
    player = TaskExecutorPlayer()
    player.play("> start\n> leads rm 1\n> registered i1\n")
    assert heartbeats(player) == [()]
    for used in (1.0, 2.0):
        player.core.handle(Measured((JVM_HEAP_USED.of(used),)), player.now_ms)
    assert heartbeats(player) == heartbeats(player) == [(JVM_HEAP_USED.of(2.0),)]


def told(player: ResourceManagerPlayer, values: tuple[MetricValue, ...], instance: str = "") -> None:
    worker = ResourceID("w1")
    known = player.core.slots.tracker.workers.get(worker)
    mine = InstanceID(instance) if instance or known is None else known.instance_id
    body = m.TaskExecutorHeartbeat(resource_id=worker, instance_id=mine, report=SlotReport(0, ()), metrics=values)
    player.deliver("w1", body)


def test_the_newest_figures_of_a_worker_are_shown_but_not_those_of_a_former_registration() -> None:
    player = ResourceManagerPlayer()
    told(player, (JVM_HEAP_USED.of(9),))
    assert player.core.task_managers() == ()
    player.play("> start\n> worker w1 .\n")
    for used, instance in ((1.0, ""), (2.0, ""), (3.0, "old")):
        told(player, (JVM_HEAP_USED.of(used),), instance)
    (worker,) = player.core.task_managers()
    assert worker.metrics == (JVM_HEAP_USED.of(2.0),)


def test_of_a_worker_that_tells_too_much_the_first_figures_are_kept() -> None:
    player = ResourceManagerPlayer()
    player.play("> start\n> worker w1 .\n")
    values = tuple(starmap(MetricValue, ((f"m{number}", 0.0) for number in range(VALUES_MAX + 1))))
    told(player, values)
    (worker,) = player.core.task_managers()
    assert worker.metrics == values[:-1]


@pytest.mark.parametrize(
    ("end", "lost"),
    [("> goodbye w1\n", 0), ("> peer-lost w1\n", 1), ("> wait 60000\n", 1)],
    ids=["goodbye", "cut", "silent"],
)
def test_a_worker_is_lost_when_it_goes_without_a_goodbye(end: str, lost: int) -> None:
    player = ResourceManagerPlayer()
    player.play(f"> start\n> worker w1 .\n{end}")
    assert player.core.workers == ()
    assert player.core.workers_lost == lost
