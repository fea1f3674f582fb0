"""Handing out input splits: which, how many at a time, and to whom. The journal holds what was handed out.

A draw is numbered by the attempt that asks for it, and made once: asked again, it is answered again. When an attempt
ends without a result its draws fall out of the durable state, and with that they are there for others; so they are as
soon as it is to run again, since what has found the splits may run again with it and find others.
"""

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from firesteel.core.execution.topology import LogicalRegion, Topology
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import (
    JournalRecord,
    RegionsEnded,
    RegionsReset,
    RestartPlanned,
    SplitsDrawn,
)
from firesteel.model.ids import RegionIndex
from firesteel.model.reports import SplitRequest
from firesteel.model.splits import DrawnSplits, SplitEnumeration
from firesteel.model.states import ExecutionState

if TYPE_CHECKING:
    from firesteel.core.scheduler.executions import Executions

ASKING = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)
"""States of attempts that are given splits. One that is looked for asks again when it has been found."""

DRAWS_PER_SUBTASK = 8
"""A draw is no smaller than this part of a subtask's fair share."""


class SplitAssigner:
    """What is left of one source's splits.

    Batches shrink with what is left (factoring: Hummel, Schonberg, Flynn, CACM 35(8), 1992): the first draws are
    large, so that a query is worth its start; the last ones are small, so that the subtasks end together. A draw has
    a `2 * subtasks`-th of what is left, and not less than an eighth of a fair share, which bounds the number of
    draws however few of the subtasks run at once.
    """

    def __init__(self, enumeration: SplitEnumeration, drawn: Iterable[int], subtasks: int) -> None:
        splits = enumeration.splits
        self._splits, self._subtasks = splits, subtasks
        self.pending: dict[int, None] = dict.fromkeys(range(len(splits)))
        self._near: dict[str, dict[int, None]] = {}
        """Pending splits by host."""
        for index, split in enumerate(splits):
            for host in split.hosts:
                self._near.setdefault(host, {})[index] = None
        self._left = sum(split.weight for split in splits)
        self._least = max(self._left // (DRAWS_PER_SUBTASK * subtasks), enumeration.batch_weight)
        for index in drawn:
            self._take(index)

    def draw(self, host: str) -> tuple[int, ...]:
        """The next batch, splits near `host` first; empty when nothing is left."""
        wanted = max(self._left // (2 * self._subtasks), self._least)
        chosen: dict[int, None] = {}
        weight = 0
        for index in chain(self._near.get(host, ()), self.pending):
            if index not in chosen:
                weight += self._splits[index].weight
                if chosen and weight > wanted:
                    break
                chosen[index] = None
        for index in chosen:
            self._take(index)
        return tuple(chosen)

    def _take(self, index: int) -> None:
        del self.pending[index]
        self._left -= self._splits[index].weight
        for host in self._splits[index].hosts:
            del self._near[host][index]


class SplitAssigners:
    """The assigners of a job, by the region that has found the splits: made of the durable state when asked for."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._made: dict[RegionIndex, SplitAssigner] = {}
        self._enumerations: dict[RegionIndex, SplitEnumeration] = {}

    def follow(self, record: JournalRecord) -> None:
        """A record was applied to the state. After a loss assigners are made anew: that is rare and can't be wrong."""
        if isinstance(record, RegionsEnded | RegionsReset | RestartPlanned):
            self._made.clear()

    def of(self, finder: RegionIndex, enumeration: SplitEnumeration, state: JobState) -> SplitAssigner:
        """The assigner of the splits that region `finder` has found."""
        if finder not in self._made:
            drawn = self._drawn(finder, state)
            self._made[finder] = SplitAssigner(enumeration, drawn, self._subtasks(finder))
            self._enumerations[finder] = enumeration
        return self._made[finder]

    def _subtasks(self, finder: RegionIndex) -> int:
        return sum(logical.parallelism for logical in self._drawers(finder))

    def _drawn(self, finder: RegionIndex, state: JobState) -> list[int]:
        regions = [RegionIndex(r) for logical in self._drawers(finder) for r in logical.regions().tolist()]
        held = [state.draws.get(region, ()) for region in regions if region not in state.restarting]
        return [index for draws in held for draw in draws for index in draw]

    def _drawers(self, finder: RegionIndex) -> list[LogicalRegion]:
        producer = self._topology.logical_of(finder).index
        return [logical for logical in self._topology.logical if logical.splits_from == producer]

    def validate(self, state: JobState) -> None:
        """Every split is pending, or in one draw of an attempt that goes on."""
        for finder, assigner in self._made.items():
            both = sorted([*assigner.pending, *self._drawn(finder, state)])
            assert both == list(range(len(self._enumerations[finder].splits))), "splits are lost or handed out twice"


def draw_splits(executions: "Executions", request: SplitRequest, now_ms: int) -> DrawnSplits | None:
    """What an attempt is given as its draw `request.number`; None when it is not one that may ask."""
    attempt, graph = request.attempt, executions.graph
    if not graph.is_current(attempt) or graph.state_of(attempt.region) not in ASKING:
        return None
    producer = executions.topology.logical_of(attempt.region).splits_from
    finder = RegionIndex(-1 if producer is None else executions.topology.logical[producer].offset)
    found = executions.partitions.outcomes.get(finder)
    made = executions.state.draws.get(attempt.region, ())
    if found is None or found.splits is None or not 0 <= request.number <= len(made):
        return None
    if request.number == len(made):
        if made and not made[-1]:
            return None  # It was told that there is no more.
        assigner = executions.splits.of(finder, found.splits, executions.state)
        indices = assigner.draw(request.host)
        executions.record(SplitsDrawn(at_ms=now_ms, region=attempt.region, splits=indices))
    indices = executions.state.draws[attempt.region][request.number]
    is_end = not indices
    splits = tuple(found.splits.splits[index] for index in indices)
    if is_end and request.number == 0:
        splits = found.splits.splits[-1:]
    return DrawnSplits(number=request.number, splits=splits, schema=found.splits.schema, is_end=is_end)
