"""The two levels of simulation, by name."""

from collections.abc import Iterable
from typing import Protocol

from firesteel.testing.simulation.cores.run import run_seed
from firesteel.testing.simulation.endpoints.run import run_endpoint_seed
from firesteel.testing.simulation.summary import Summary


class RunSeed(Protocol):
    def __call__(self, seed: int, *, only: Iterable[str] | None = None, tell_all: bool = False) -> Summary:
        """Execute one seed, in which `only` these things go wrong. Raises SimulationFailure."""


LEVELS: dict[str, RunSeed] = {"cores": run_seed, "endpoints": run_endpoint_seed}
"""Cores alone, in great numbers; and the real endpoints with their mailboxes, tasks and timeouts."""
