"""How much is said and recorded as jobs grow: counted, never timed. Nothing grows with producers times consumers."""

from collections.abc import Sequence

import msgspec
import pytest

from firesteel.core.effects import Effect, Persist, Send
from firesteel.model import messages as m
from firesteel.model.ids import RegionIndex
from tests.core.stories.jobmaster import JobMasterPlayer
from tests.core.stories.resourcemanager import ResourceManagerPlayer


class Counting(JobMasterPlayer):
    """`width` producers, all to all before as many consumers, on one worker with as many slots."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.messages: list[m.AnyMessage] = []
        self.records: list[object] = []
        self.width = width
        self.do_graph(f"lines*{width}", "=>", f"counts*{width}")
        self.do_start()
        self.do_report("w1", slots=",".join(f"s{index}" for index in range(width)))
        self.forget()
        self.do_state("w1", *(f"{index}#0:FINISHED" for index in range(width)))

    def take(self, effect: Effect) -> None:
        super().take(effect)
        match effect:
            case Send():
                self.messages.append(effect.envelope.body)
            case Persist():
                self.records += effect.records
            case _:
                pass

    def forget(self) -> None:
        self.messages.clear()
        self.records.clear()

    def consumers(self, state: str) -> list[str]:
        return [f"{self.width + index}#0:{state}" for index in range(self.width)]

    def size(self) -> int:
        """Bytes of all that was said."""
        return sum(len(msgspec.msgpack.encode(message)) for message in self.messages)


def kinds(items: Sequence[object]) -> list[str]:
    return [type(item).__name__ for item in items]


def test_an_exchange_is_sent_and_recorded_at_the_cost_of_its_sides() -> None:
    small, large = Counting(50), Counting(200)
    assert kinds(small.messages) == kinds(large.messages) == ["AcknowledgeTaskStates", "SubmitTasks"]
    assert kinds(small.records) == kinds(large.records) == ["RegionsFinished", "RegionsDeployed"]
    assert large.size() < 5 * small.size(), "four times as many subtasks, and not sixteen times as much to say"
    submitted = large.messages[-1]
    assert isinstance(submitted, m.SubmitTasks)
    assert not any(deployment.inputs for deployment in submitted.deployments)


@pytest.mark.parametrize("width", [4, 64])
def test_a_region_that_runs_again_costs_no_more_in_a_larger_job(width: int) -> None:
    job = Counting(width)
    job.do_state("w1", *job.consumers("RUNNING"))
    job.forget()
    job.do_state("w1", f"{width}#0:FAILED")
    job.do_wait("1000")
    assert kinds(job.messages) == ["AcknowledgeTaskStates", "JobStatusChanged", "SubmitTasks", "JobStatusChanged"]
    deployed = job.messages[2]
    assert isinstance(deployed, m.SubmitTasks)
    assert (len(deployed.deployments), deployed.groups) == (1, ())
    assert kinds(job.records) == [
        *("RegionsEnded", "RestartPlanned", "JobStatusRecord"),
        *("RegionsReset", "JobStatusRecord", "RegionsDeployed"),
    ]
    assert len(str(job.records)) < 2_500, "and no record names what goes on"


def test_attempts_that_are_gone_together_are_one_record() -> None:
    job = Counting(32)
    job.do_cancel()
    job.forget()
    job.do_state("w1", *job.consumers("CANCELED"))
    assert kinds(job.records) == ["RegionsEnded", "JobStatusRecord"]


def test_a_report_without_news_is_answered_and_recorded_by_nothing() -> None:
    job = Counting(16)
    job.forget()
    slots = ",".join(f"s{index}" for index in range(16))
    seat_of = job.core._scheduler._executions.pool.seat_of
    runs = ",".join(f"{region}#0@{seat_of(RegionIndex(region))}" for region in range(16, 32))
    job.do_report("w1", slots=slots, runs=runs)
    assert kinds(job.messages) == ["AllocatedSlots"]
    assert job.records == []


def test_the_slots_a_job_gets_of_a_worker_are_one_message() -> None:
    player = ResourceManagerPlayer()
    for name in ("w1", "w2", "w3"):
        player.do_worker(name, *["."] * 20)
    player.out = []
    player.do_job("j", "register", "50")
    assert sum("RequestSlots" in line for line in player.out) == 3
