"""Trying again what a busy storage or a network has failed."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.objects import Conflict
from firesteel.model.backoff import ExponentialBackoff

T = TypeVar("T")

TRIES_MAX = 6
"""Times that a call is made which fails as calls to a busy store do."""
PATIENCE_S = 60.0
"""Time after its first failure in which it is made again: of a server that hangs, a few times are enough."""
PAUSES_S = ExponentialBackoff(0.2, 5.0)
"""Time before the next try."""
ANSWERS = (Unusable, Conflict, FileNotFoundError, FileExistsError)
"""Errors that are answers: the same comes again."""


def tried(
    call: Callable[[], T],
    check: Callable[[], None],
    wait: Callable[[float], None],
    tries_max: int = TRIES_MAX,
    *,
    patience_s: float = PATIENCE_S,
) -> T:
    """What `call` returns. Before each try `check` may say no; what has failed until then is told in its place. Raises
    OSError."""
    told: OSError | None = None
    until_s = 0.0
    for failed in range(1, tries_max + 1):
        try:
            check()
        except OSError as error:
            if told is not None:
                error.args = (str(told),)
            raise
        try:
            return call()
        except ANSWERS:
            raise
        except OSError as error:
            told, now_s = error, time.monotonic()
            until_s = until_s or now_s + patience_s
            if failed == tries_max or now_s >= until_s:
                raise
            wait(PAUSES_S.after(failed, chance=random.random()))
    raise AssertionError("the last try has returned or raised")
