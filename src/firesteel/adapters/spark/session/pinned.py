"""Python functions in queries are what they were when they were first called, with the variables around them.

Spark Connect pickles a function whenever a query is sent, PySpark without it once, when the function is first called. So functions
that a loop makes would all have the loop's last values, and a query that runs twice could have other rows.
"""

import pickle
import weakref
from collections.abc import Callable
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from firesteel.adapters.spark import internals


class PinnedFunction:
    """Is the function itself where it is unpickled. Raises PicklingError when that can't be."""

    def __init__(self, function: Any) -> None:
        serializer: Any = CloudPickleSerializer
        self._pickled: bytes = serializer().dumps(function)

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._pickled,)


class PinnedFunctions:
    """Those of one process: what `is_users_code` calls. While a module is imported, what a function needs may not be there yet."""

    def __init__(self, is_users_code: Callable[[], bool]) -> None:
        self._is_users_code = is_users_code
        self._pinned = weakref.WeakKeyDictionary[Any, PinnedFunction]()

    def install(self) -> None:
        """In this process, from here on."""
        internals.wrap_function_calls(self._function_of)

    def forget(self) -> None:
        """Another of the pipeline's functions is called, which may run in a process of its own: it calls anew."""
        self._pinned.clear()

    def _function_of(self, udf: Any) -> Any:
        if not self._is_users_code():
            return udf.func
        if udf not in self._pinned:
            self._pinned[udf] = PinnedFunction(udf.func)
        return self._pinned[udf]
