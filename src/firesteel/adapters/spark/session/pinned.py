"""Python functions in queries are what they were when they were first called, with the variables around them.

Spark Connect pickles a function whenever a query is sent, PySpark without it once, when the function is first called. So functions
that a loop makes would all have the loop's last values, and a query that runs twice could have other rows.
"""

import pickle
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from firesteel.adapters.spark import internals

_PINNED = "_firesteel_pinned"


class PinnedFunction:
    """Is the function itself where it is unpickled. Raises PicklingError when that can't be."""

    def __init__(self, function: Any) -> None:
        serializer: Any = CloudPickleSerializer
        self._pickled: bytes = serializer().dumps(function)

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._pickled,)


def pin_functions() -> None:
    """In this process, from here on."""
    internals.wrap_function_calls(_pinned)


def _pinned(udf: Any) -> PinnedFunction:
    own = vars(udf)
    if _PINNED not in own:
        own[_PINNED] = PinnedFunction(udf.func)
    pinned: PinnedFunction = own[_PINNED]
    return pinned
