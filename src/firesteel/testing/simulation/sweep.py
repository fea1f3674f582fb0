"""Many seeds, on all cores: which fail, and what went wrong in how many of them."""

import logging
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from firesteel.testing.simulation.levels import LEVELS
from firesteel.testing.simulation.mishaps import SITES
from firesteel.testing.simulation.summary import SimulationFailure, Summary

SEEDS_A_TASK = 8
"""Seeds that a process takes at once."""

Outcome = Summary | SimulationFailure


@dataclass(slots=True)
class Sweep:
    """What came of some seeds."""

    seeds: int = 0
    events: int = 0
    with_leader_changes: int = 0
    """Seeds in which the leader changed."""
    leader_changes: int = 0
    failures: list[SimulationFailure] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    """In how many seeds each kind of mishap has happened."""

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        if isinstance(outcome, SimulationFailure):
            self.failures.append(outcome)
            return
        self.events += outcome.events
        self.with_leader_changes += outcome.leader_changes > 0
        self.leader_changes += outcome.leader_changes
        self.seen.update({_kind_of(name) for name in outcome.mishaps})

    def never_seen(self) -> list[str]:
        """Sites of rare behaviour that no run has come to."""
        return [site for site in SITES if site not in self.seen]


def sweep(
    seeds: range, processes: int | None = None, *, level: str = "cores", tell_all: bool = False
) -> Iterator[Outcome]:
    """Run seeds, in order; on as many processes as the machine has cores when not told how many."""
    chosen = processes or len(os.sched_getaffinity(0))
    jobs = [(level, seed, tell_all) for seed in seeds]
    if chosen == 1:
        yield from map(_outcome_of, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(chosen) as pool:
        yield from pool.imap(_outcome_of, jobs, chunksize=min(SEEDS_A_TASK, -(-len(jobs) // chosen)))


def _outcome_of(job: tuple[str, int, bool]) -> Outcome:
    level, seed, tell_all = job
    logging.disable(logging.WARNING)  # of disks that fail on purpose
    try:
        return LEVELS[level](seed, tell_all=tell_all)
    except SimulationFailure as failure:
        return failure


def _kind_of(name: str) -> str:
    """`loss` of `loss master-0>worker-1 7`."""
    return name.split(" ", 1)[0]
