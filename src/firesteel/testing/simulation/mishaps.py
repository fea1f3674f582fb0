"""What goes wrong in a run, each time by name: a list that can be recorded, replayed and shrunk.

A cause draws from a stream of its own, and each of its draws has a number. So `loss master-0>worker-1 7` means
the same in every run of a seed, as long as what comes before it is the same; and a run in which only some of a
list may happen differs from the whole one by nothing else.
"""

import random
from collections.abc import Iterable

SITE_ACTIVE, SITE_RATE = 0.25, 0.1
"""Share of the seeds in which a site of rare behaviour is active, and how often it then shows."""

SITES = {
    "leader-told-late": "news of a leader takes half a minute to somebody",
    "leader-told-twice": "news of a leader comes again, later",
    "nobody-there": "who writes to an address that is gone is told so",
    "timer-late": "a process is busy: its timer fires seconds late",
    "ends-at-once": "an attempt ends in the moment it starts, before it is said to run",
    "runs-late": "an attempt is said to run only after seconds",
    "commit-slow": "making an output visible takes half a minute",
    "commit-repeated": "a commit is carried out, and nobody hears of it",
    "release-slow": "deleting what a job has left takes half a minute",
    "progress-told": "an attempt tells how far it is, also when it has just ended",
    "copy-slow": "a file of a savepoint takes seconds",
    "store-slow": "a write takes ten seconds",
    "shutdown-slow": "the master that takes over is not up for some seconds",
}
"""Rare things that are legal, by name. Each seed has some of them."""


class Mishaps:
    """Draws all that goes wrong. With `only`, nothing else than that happens, though all of it is drawn."""

    def __init__(self, seed: int, only: Iterable[str] | None = None, *, rare: bool = False) -> None:
        self.struck: list[str] = []
        """What has happened, in order."""
        self.is_over = False
        """Healed: nothing goes wrong any more."""
        self._seed = seed
        self._only = None if only is None else frozenset(only)
        self._streams: dict[str, random.Random] = {}
        self._drawn: dict[str, int] = {}
        self._rare = rare
        self._active: dict[str, bool] = {}

    def stream(self, name: str) -> random.Random:
        """The random stream of one cause."""
        known = self._streams.get(name)
        if known is None:
            known = self._streams[name] = random.Random(f"{self._seed}:{name}")
        return known

    def strikes(self, cause: str, probability: float = 1.0) -> bool:
        """Whether it happens this time."""
        if self.is_over or probability <= 0.0:
            return False
        self._drawn[cause] = number = self._drawn.get(cause, 0) + 1
        return self.stream(cause).random() < probability and self._happens(f"{cause} {number}")

    def one_of(self, cause: str, kinds: tuple[tuple[str, float], ...]) -> str:
        """Name of the kind that happens this time, empty for none. One draw for all of them."""
        if self.is_over:
            return ""
        self._drawn[cause] = number = self._drawn.get(cause, 0) + 1
        left = self.stream(cause).random()
        for kind, probability in kinds:
            left -= probability
            if left < 0.0:
                return kind if self._happens(f"{kind} {cause} {number}") else ""
        return ""

    def sometimes(self, site: str) -> bool:
        """Whether one of the SITES shows its rare behaviour now."""
        active = self._active.get(site)
        if active is None:
            assert site in SITES, f"{site} is not known"
            active = self._active[site] = (
                self._rare and random.Random(f"{self._seed}:site:{site}").random() < SITE_ACTIVE
            )
        return active and self.strikes(site, SITE_RATE)

    def _happens(self, name: str) -> bool:
        if self._only is not None and name not in self._only:
            return False
        self.struck.append(name)
        return True
