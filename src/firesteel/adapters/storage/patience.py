"""Trying again what a busy storage or a network has failed."""

import random
from collections.abc import Callable
from typing import TypeVar

from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.objects import Conflict
from firesteel.model.backoff import ExponentialBackoff

T = TypeVar("T")

TRIES_MAX = 6
"""Times that a call is made which fails as calls to a busy store do."""
PAUSES_S = ExponentialBackoff(0.2, 5.0)
"""Time before the next try."""
ANSWERS = (Unusable, Conflict, FileNotFoundError, FileExistsError)
"""Errors that are answers: the same comes again."""


def tried(
    call: Callable[[], T], check: Callable[[], None], wait: Callable[[float], None], tries_max: int = TRIES_MAX
) -> T:
    """What `call` returns. Before each try `check` may say no. Raises OSError."""
    for failed in range(1, tries_max + 1):
        check()
        try:
            return call()
        except ANSWERS:
            raise
        except OSError:
            if failed == tries_max:
                raise
            wait(PAUSES_S.after(failed, chance=random.random()))
    raise AssertionError("the last try has returned or raised")
