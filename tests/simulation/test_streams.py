"""Streams at level A: bugs planted in what counts of their batches are found, and seeds do what they are meant to."""

import contextlib
import itertools
from collections.abc import Iterator

import pytest

from firesteel.core.checkpoint.generations import Claim
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID, RegionIndex
from firesteel.model.states import JobStatus
from firesteel.model.streams import SavepointOrder, SavepointQueries
from firesteel.testing.simulation.cores.run import Run, run_seed
from firesteel.testing.simulation.cores.world import World
from firesteel.testing.simulation.faults import Faults
from firesteel.testing.simulation.mishaps import Mishaps
from firesteel.testing.simulation.streams.directories import OFFSETS, Directory
from firesteel.testing.simulation.streams.outputs import Output, OutputLost, Superseded
from firesteel.testing.simulation.streams.pipelines import has_stream
from firesteel.testing.simulation.streams.saving import Saving
from firesteel.testing.simulation.streams.storage import StreamStorage
from firesteel.testing.simulation.summary import SimulationFailure
from tests.simulation.streamplants import (
    batches_count_twice_after_a_restore,
    ended_queries_are_in_the_way,
    ended_queries_are_left_out,
    manifest_before_its_files,
    one_worker_speaks_for_all,
    overtaken_checkpoints_stay,
    savepoints_have_no_number,
    stays_after_all_ends,
    stopped_is_done,
    taken_back_before_what_is_staged,
    taken_back_oldest_first,
    told_to_stay_and_to_go,
    vanished_is_begun_anew,
    what_is_to_stay_is_deleted,
    what_was_shown_is_replaced,
    whatever_is_there_is_the_savepoint,
    whoever_deletes_is_first,
    zombies_publish,
)

ZOMBIE_STEPS, STEPS_MAX = 4, 11
"""What is left of a zombie's commit, and with it the steps of the start that follows."""

PLANTS = {
    plant.__name__: (plant, range(first, first + 100))
    for plant, first in (
        (one_worker_speaks_for_all, 0),
        (overtaken_checkpoints_stay, 0),
        (savepoints_have_no_number, 0),
        (batches_count_twice_after_a_restore, 0),
        (what_was_shown_is_replaced, 0),
        (zombies_publish, 3869),
        (manifest_before_its_files, 0),
        (stopped_is_done, 0),
        (vanished_is_begun_anew, 0),
        (ended_queries_are_left_out, 0),
        (ended_queries_are_in_the_way, 0),
        (what_is_to_stay_is_deleted, 0),
        (whoever_deletes_is_first, 0),
        (told_to_stay_and_to_go, 0),
        (stays_after_all_ends, 0),
    )
}


def with_streams(seeds: range) -> Iterator[int]:
    return (seed for seed in seeds if has_stream(Mishaps(seed).stream("streams")))


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, seeds = PLANTS[name]
    plant(monkeypatch)
    for seed in with_streams(seeds):
        try:
            run_seed(seed)
        except SimulationFailure:
            return
    pytest.fail(f"not found by {seeds}")


def run_out(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def written(output: Output, number: int, batch: int) -> Iterator[None]:
    """A batch of one row."""
    planned = (batch, batch + 1)
    yield from output.begin(number, batch, "q", planned)
    if not output.is_there(number, batch, planned):
        output.stage(number, batch, planned)
        yield from output.commit(number, batch)


def overtaken_in(order: tuple[int, ...], dies_after: int, read_to: int) -> Output:
    """A zombie has looked, and commits its second batch, which reads up to `read_to`; its steps come at these places among those
    of the next start, where it reads one row."""
    output = Output()
    zombie = output.claim(Claim("job", 0))
    run_out(written(output, zombie, 0))
    run_out(output.begin(zombie, 1, "q", (1, read_to)))
    output.stage(zombie, 1, (1, read_to))
    late = output.commit(zombie, 1)
    next(late)
    newer = written(output, output.claim(Claim("job", 1)), 1)
    for place in range(STEPS_MAX):
        with contextlib.suppress(Superseded, OutputLost):
            if place not in order:
                next(newer, None)
            elif order.index(place) < dies_after:
                next(late, None)
    run_out(newer)
    return output


def counts_each_batch_once() -> bool:
    orders = itertools.combinations(range(STEPS_MAX), ZOMBIE_STEPS)
    outputs = [
        overtaken_in(order, dies_after, read_to)
        for order in orders
        for dies_after in range(1, ZOMBIE_STEPS + 1)
        for read_to in (2, 9)
    ]
    return all(each.counted() == [(0, 1), (1, 2)] and not each.twice() for each in outputs)


def leaves_no_gap() -> bool:
    """However far a start gets that takes back what three before it have written."""
    for steps in range(9):
        output = Output()
        for start in range(3):
            number = output.claim(Claim("job", start))
            for batch in (2 * start, 2 * start + 1):
                run_out(written(output, number, batch))
        beginning = output.begin(output.claim(Claim("another", 0)), 1, "q", (1, 2))
        for _ in range(steps):
            next(beginning, None)
        if output.counted() != [(batch, batch + 1) for batch in range(len(output.seen))]:
            return False
    return True


JOB = JobID("1" * 32)


def saved_batches() -> list[int]:
    """A stop is asked for twice with one id: between, the query has gone on in another attempt. What was answered with."""
    world, storage = World(0, Faults()), StreamStorage()
    writer = Saving(world, storage, "w", lambda: False)
    directory, answers = Directory("q", 2), list[int]()

    def answered(failure: FailureInfo | None) -> None:
        answers.append(-1 if failure is not None else storage.savepoints["there"].queries["s"].batch)

    for attempt in range(2):
        directory = storage.home("w", JOB, "s")[attempt] = directory.forked()
        for _ in range(2):
            batch = directory.last + 1
            directory.files[OFFSETS, batch] = batch + 1
            directory.run(batch)
            directory.commit(batch, batch)
        queries = (SavepointQueries(region=RegionIndex(0), attempt=attempt, uids=("s",)),)
        order = SavepointOrder(savepoint_id="x", location="there", queries=queries, job_name="j", vertices=())
        writer.save(JOB, order, answered)
        world.run(world.now_ms + 60_000)
    return answers


def test_a_savepoint_that_was_given_up_is_not_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert saved_batches() == [1, -1]
    whatever_is_there_is_the_savepoint(monkeypatch)
    assert saved_batches() == [1, 1], "the bug that was planted is not found"


def test_a_zombie_and_who_follows_it_may_come_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counts_each_batch_once()
    taken_back_before_what_is_staged(monkeypatch)
    assert not counts_each_batch_once(), "the bug that was planted is not found"


def test_who_dies_while_batches_are_taken_back_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    assert leaves_no_gap()
    taken_back_oldest_first(monkeypatch)
    assert not leaves_no_gap(), "the bug that was planted is not found"


def test_pipelines_go_on_from_savepoints_and_are_drained() -> None:
    """Else there would be little that an oracle could see."""
    runs = [Run(seed) for seed in with_streams(range(60))]
    for run in runs:
        run.execute()
    pipelines = [run.pipeline for run in runs if run.pipeline is not None]
    assert len(pipelines) == len(runs)
    assert any(len(pipeline.clients) > 1 for pipeline in pipelines)
    assert any(pipeline.is_drained() for pipeline in pipelines)
    clients = [client for pipeline in pipelines for client in pipeline.clients]
    ends = {client.result.status for client in clients if client.result is not None}
    assert ends == {JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED}
    assert sum(len(client.savepoints) for client in clients) > len(clients)
