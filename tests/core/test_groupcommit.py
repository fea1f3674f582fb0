"""Writes to a journal: one at a time, each with all that has come meanwhile, each told when it is through."""

from hypothesis import given
from hypothesis import strategies as st

from firesteel.core.effects import Persist, Persisted
from firesteel.core.journal.groupcommit import GroupCommit
from firesteel.core.journal.records import CommitsIntended, JournalRecord

Step = bool
"""Whether something is decided; else the write that is under way is through."""


def decided(number: int) -> Persist:
    return Persist(number, (record(number),))


def record(number: int) -> JournalRecord:
    return CommitsIntended(commits=(), at_ms=number)


def test_what_comes_in_the_same_turn_is_one_write() -> None:
    commit = GroupCommit()
    assert commit.add(decided(1))
    assert not commit.add(decided(2))
    assert commit.next_write() == (record(1), record(2))
    assert commit.written() == Persisted(2)
    assert commit.next_write() == ()
    assert commit.add(decided(3)), "nothing was under way"


def test_what_comes_while_a_write_is_under_way_waits_for_the_next() -> None:
    commit = GroupCommit()
    commit.add(decided(1))
    assert commit.next_write() == (record(1),)
    assert not commit.add(decided(2))
    assert commit.written() == Persisted(1), "the second is not durable"
    assert commit.next_write() == (record(2),)
    assert commit.written() == Persisted(2)


@given(st.lists(st.booleans(), max_size=40))
def test_all_is_written_once_in_order_and_nothing_told_before(steps: list[Step]) -> None:
    commit, number, begun, is_due = GroupCommit(), 0, False, False
    journal: list[JournalRecord] = []
    under_way: tuple[JournalRecord, ...] = ()
    for decides in (*steps, *([False] * 3)):
        if decides:
            number += 1
            is_due = commit.add(decided(number)) or is_due
        elif begun:
            journal += under_way
            assert commit.written() == Persisted(len(journal))
            begun, is_due = False, True
        if is_due and not begun:
            under_way, is_due = commit.next_write(), False
            begun = bool(under_way)
    assert journal == [record(it) for it in range(1, number + 1)]
