"""The fold of a store's entries."""

import pytest

from firesteel.core.journal.storedjobs import GraphStored, JobRemoved, RecordsAppended, ResultStored, StoredJobs
from firesteel.model.ids import JobID
from tests.core.graphs import job
from tests.durable.stories import ENDED, STORY, result_of


def folded(*entries: object) -> StoredJobs:
    jobs = StoredJobs(history_size=4)
    for entry in entries:
        jobs.apply(entry)  # type: ignore[arg-type]
    return jobs


def content(jobs: StoredJobs) -> object:
    return jobs.graphs(), jobs.kept_graphs(), jobs.results(), [jobs.state(graph.job_id) for graph in jobs.graphs()]


def test_what_is_left_of_a_story() -> None:
    jobs = folded(*STORY)
    assert [graph.job_id for graph in jobs.graphs()] == ["first", "third"]
    assert [graph.job_id for graph in jobs.kept_graphs()] == ["fifth"]
    ended = [(result.job_id, is_dirty) for result, is_dirty in jobs.results()]
    assert ended == [("second", False), ("third", True), ("fifth", False), ("sixth", False)]
    assert jobs.state(JobID("second")) is None
    assert jobs.state(JobID("fifth")) is None
    assert folded(JobRemoved(JobID("never seen"))).results() == ()


@pytest.mark.parametrize("cut", range(len(STORY) + 1))
def test_a_snapshot_and_what_follows_is_the_whole(cut: int) -> None:
    assert content(folded(*folded(*STORY[:cut]).snapshot(), *STORY[cut:])) == content(folded(*STORY))


def test_a_new_job_of_an_id_takes_the_place_of_what_is_left_of_the_last() -> None:
    """The last one is over and cleaned up; a result whose cleanup is due is the job's own."""
    again = job("b", "fifth")
    jobs = folded(*STORY, GraphStored(again))
    assert again in jobs.graphs()
    assert (jobs.kept_graphs(), "fifth" in [result.job_id for result, _ in jobs.results()]) == ((), False)
    ended = result_of("fifth")
    jobs = folded(*STORY, GraphStored(again), ResultStored(ended), GraphStored(again))
    assert (ended, True) in jobs.results()
    assert (ended, True) in folded(*jobs.snapshot()).results()


def test_a_state_is_the_callers_own() -> None:
    jobs = folded(*STORY)
    taken = jobs.state(JobID("first"))
    jobs.apply(RecordsAppended(JobID("first"), (ENDED,)))
    now = jobs.state(JobID("first"))
    assert taken is not None
    assert now is not None
    assert (len(taken.deployed), len(now.deployed), len(now.ended)) == (1, 0, 1)
