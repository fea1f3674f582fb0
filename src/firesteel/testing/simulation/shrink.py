"""A long list of things that went wrong, made as short as it can be and still break the same: delta debugging."""

from collections.abc import Callable, Sequence

from firesteel.testing.simulation.cores.run import run_seed
from firesteel.testing.simulation.levels import RunSeed
from firesteel.testing.simulation.summary import SimulationFailure

TRIALS_MAX = 600
"""Runs that shrinking may take."""


def shrink(failure: SimulationFailure, run: RunSeed = run_seed, *, trials_max: int = TRIALS_MAX) -> SimulationFailure:
    """The failure of the same seed and the same cause with the fewest mishaps that were found.

    Raises AssertionError when the seed holds with the list of what went wrong in it: then chance is not in the list.
    """
    found = _same_failure(failure, failure.mishaps, run)
    assert found is not None, f"seed {failure.seed} does not fail again"
    shortest = [found]

    def fails(names: Sequence[str]) -> bool:
        again = _same_failure(failure, names, run)
        if again is not None and len(again.mishaps) <= len(shortest[0].mishaps):
            shortest[0] = again
        return again is not None

    smallest(list(dict.fromkeys(found.mishaps)), fails, trials_max)
    return shortest[0]


def smallest(names: list[str], fails: Callable[[Sequence[str]], bool], trials_max: int = TRIALS_MAX) -> list[str]:
    """A part of `names` that still fails, and of which no piece that was tried can be left out."""
    pieces, trials = 2, 0
    while len(names) > 1 and trials < trials_max:
        size = -(-len(names) // pieces)
        for begin in range(0, len(names), size):
            rest = names[:begin] + names[begin + size :]
            trials += 1
            if fails(rest):
                names, pieces = rest, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(names), 2 * pieces)
    return names


def _same_failure(failure: SimulationFailure, names: Sequence[str], run: RunSeed) -> SimulationFailure | None:
    try:
        run(failure.seed, only=names)
    except SimulationFailure as again:
        return again if _what(again) == _what(failure) else None
    return None


def _what(failure: SimulationFailure) -> str:
    """What broke, without the names of those it broke for."""
    return "".join(letter for letter in failure.what if letter.isalpha() or letter == " ")[:40]
