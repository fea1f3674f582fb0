"""The log of the store of jobs: nothing acknowledged is lost, whatever fails and whoever else claims it.

One job's commits stand for all entries: their order shows. Claims and writes are cut off, fail or are overtaken
at any call to the operating system.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from firesteel.adapters.ha.disk import TEMPORARY, Disk
from firesteel.adapters.ha.joblog import JobLog
from firesteel.adapters.ha.objectdirectory import ObjectDirectory
from firesteel.core.journal.records import SinkCommitted
from firesteel.core.journal.storedjobs import AnyEntry, GraphStored, RecordsAppended
from firesteel.model.ids import FencingToken
from firesteel.runtime.services import StaleLeader
from firesteel.testing.power import FakeSystem, Plan, PowerCut
from tests.core.graphs import JOB, job
from tests.durable.objects import FakeObjects

LEADERS = ("a", "b")
History = tuple[str, ...]

calls = st.integers(0, 40)


def other_than(name: str) -> str:
    return LEADERS[1 - LEADERS.index(name)]


class Masters(RuleBasedStateMachine):
    """Two masters on one disk; `possible` is what a claim may find, `certain` what was acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.chance = random.Random(0)
        self.system = self.new_system()
        self.logs = {name: self.new_log() for name in LEADERS}
        self.certain: History = ()
        self.possible: set[History] = {()}
        self.claims = self.epoch = self.written = 0
        self.holder = ""
        self.is_contested = False
        """Somebody is claiming it, or has tried to: that may have shut the holder out."""

    @rule(seed=st.integers(0, 1 << 32))
    def shuffle(self, seed: int) -> None:
        self.chance.seed(seed)

    @rule(name=st.sampled_from(LEADERS))
    def claims_it(self, name: str) -> None:
        """With nothing in the way, this works at any time."""
        self.system.plan = None
        assert self.claim(name)

    @rule(name=st.sampled_from(LEADERS), at=calls)
    def claims_it_on_a_full_disk(self, name: str, at: int) -> None:
        """What failed once can be tried again, under the same token."""
        self.system.plan = Plan(at, self.system.fill_up)
        if not self.claim(name):
            self.system.plan = None
            assert self.claim(name, again=True)

    @rule(name=st.sampled_from(LEADERS), at=calls)
    def claims_it_and_is_overtaken(self, name: str, at: int) -> None:
        self.system.plan = Plan(at, lambda: self.overtake(name))
        self.claim(name)

    @rule(name=st.sampled_from(LEADERS), at=calls)
    def claims_it_while_the_other_one_writes(self, name: str, at: int) -> None:
        if self.holder == other_than(name):
            self.system.plan = Plan(at, lambda: self.write(other_than(name), 1))
            assert self.claim(name)

    @rule(name=st.sampled_from(LEADERS), at=calls)
    def claims_it_and_the_power_is_cut(self, name: str, at: int) -> None:
        self.until_dark(at, lambda: self.claim(name))

    @rule(name=st.sampled_from(LEADERS), count=st.integers(0, 9))
    def writes(self, name: str, count: int) -> None:
        self.system.plan = None
        assert self.write(name, count) == (name == self.holder) or self.is_contested

    @rule(name=st.sampled_from(LEADERS), count=st.integers(0, 9), at=calls)
    def writes_to_a_full_disk(self, name: str, count: int, at: int) -> None:
        self.system.plan = Plan(at, self.system.fill_up)
        self.write(name, count)

    @rule(name=st.sampled_from(LEADERS), count=st.integers(1, 9), at=calls)
    def writes_and_is_overtaken(self, name: str, count: int, at: int) -> None:
        self.system.plan = Plan(at, lambda: self.overtake(name))
        self.write(name, count)

    @rule(name=st.sampled_from(LEADERS), count=st.integers(1, 9), at=calls)
    def writes_and_the_power_is_cut(self, name: str, count: int, at: int) -> None:
        self.until_dark(at, lambda: self.write(name, count))

    @rule()
    def power_is_cut(self) -> None:
        self.until_dark(0, self.system.cut)

    @invariant()
    def files_do_not_pile_up(self) -> None:
        """Each claim that came to nothing leaves at most a journal, a snapshot and two that were not finished."""
        assert len([name for name in self.system.names if TEMPORARY not in name]) < 100

    def new_system(self) -> FakeSystem | FakeObjects:
        return FakeSystem(self.chance)

    def new_log(self) -> JobLog:
        assert isinstance(self.system, FakeSystem)
        return JobLog(Disk(Path("/disk"), self.system), history_size=4, snapshot_records=6)

    # ── steps ────────────────────────────────────────────────────────────────────────────────
    def claim(self, name: str, *, again: bool = False) -> bool:
        log, claims = self.logs[name], self.claims
        self.epoch += not again
        self.is_contested = True
        try:
            log.claim(FencingToken(self.epoch, name))
        except (OSError, StaleLeader):
            return False
        if self.claims == claims:
            self.found(name)
        else:
            assert self.holder != name, "a claim that was overtaken is none"
        return True

    def found(self, name: str) -> None:
        state = self.logs[name].jobs.state(JOB)
        seen = state.committed if state is not None else ()
        assert seen in self.possible, f"{name} finds {seen}, of {self.possible}"
        self.certain, self.possible = seen, {seen}
        self.claims += 1
        self.holder, self.is_contested = name, False

    def overtake(self, name: str) -> None:
        """The other one claims the log meanwhile, and writes."""
        assert self.claim(other_than(name))
        assert self.write(other_than(name), 1)

    def write(self, name: str, count: int) -> bool:
        entries: list[AnyEntry] = [GraphStored(job("a"))] if count and self.certain == () else []
        commits = tuple(str(self.written + number) for number in range(count))
        self.written += count
        entries += [RecordsAppended(JOB, (SinkCommitted(at_ms=0, commit_id=each),)) for each in commits]
        claims, was = self.claims, self.holder
        if name == self.holder:
            self.possible.add(self.certain + commits)
        try:
            self.logs[name].append(entries)
        except StaleLeader:
            assert was != name or self.claims != claims or self.is_contested, "it was the holder all the time"
            return False
        except OSError:
            return False
        assert was == name, "who does not hold the log may not write"
        if self.claims == claims:
            self.certain += commits
            self.possible = {self.certain}
        else:
            known = self.certain
            assert all(each in known for each in commits), "acknowledged, and lost to the one who came after"
        return True

    def until_dark(self, at: int, step: Callable[[], object]) -> None:
        self.system.plan = Plan(at, self.system.cut)
        try:
            step()
        except PowerCut:
            pass
        self.system.restart()
        self.logs = {name: self.new_log() for name in LEADERS}
        self.holder = ""


class MastersOfABucket(Masters):
    """A call fails before or after it was done, and a power cut is the death of a master."""

    def new_system(self) -> FakeObjects:
        return FakeObjects(self.chance)

    def new_log(self) -> JobLog:
        assert isinstance(self.system, FakeObjects)
        directory = ObjectDirectory(self.system, "jobs/", part_bytes=300)
        return JobLog(directory, history_size=4, snapshot_records=6)


@pytest.mark.parametrize("masters", [Masters, MastersOfABucket])
def test_nothing_acknowledged_is_lost(masters: type[Masters]) -> None:
    run_state_machine_as_test(masters, settings=settings(max_examples=200, stateful_step_count=30, deadline=None))


def test_a_claim_finds_the_journal_that_the_holder_begins_meanwhile() -> None:
    """It had listed the one before, which is deleted when it wants to read it."""
    masters = MastersOfABucket()
    for name in "aaaab":
        masters.claims_it(name=name)
    masters.writes(count=5, name="b")
    masters.claims_it_while_the_other_one_writes(at=0, name="a")
