"""One instant for all attempts of a job: what `current_timestamp()` and its kin say, in DataFrames as in SQL text.

Spark gives each query its own. Here each of these functions is also a temporary one of the session, found first, which gives
the job's instant under the same name, of the same type. They are made when a plan speaks of them for the first time, since
making one costs some milliseconds. Keywords without parentheses in SQL text (`SELECT CURRENT_DATE`) are not looked up as
functions, and stay Spark's own.
"""

import threading
from collections.abc import Callable
from typing import Any

from firesteel.adapters.spark import internals

_INSTANT = "TIMESTAMP_MICROS({micros})"
_FUNCTIONS = {
    "current_timestamp": ("TIMESTAMP", _INSTANT),
    "now": ("TIMESTAMP", _INSTANT),
    "current_date": ("DATE", f"CAST({_INSTANT} AS DATE)"),
    "curdate": ("DATE", f"CAST({_INSTANT} AS DATE)"),
    "localtimestamp": ("TIMESTAMP_NTZ", f"CAST({_INSTANT} AS TIMESTAMP_NTZ)"),
}
"""Their types, and what they return."""
_ORDER_SETTING = "spark.sql.functionResolution.sessionOrder"


class OneInstant:
    """Gives the present of one session: a hook of its client, which also sees what Spark is asked to analyse. What its
    session begins with, `begun`, is told of the setting that this takes."""

    def __init__(self, session: Any, instant_ms: int, begun: dict[str, str]) -> None:
        self._session, self._micros, self._begun = session, instant_ms * 1000, begun
        self._made: dict[str, None] = {}
        self._lock = threading.RLock()  # a function's threads may all ask Spark at once
        self._is_making = False
        internals.wrap_analysis(session.client, self._analyze)
        internals.add_hook(session.client, self)

    def on_execute_plan(self, request: Any) -> Any:
        if request.plan.HasField("compressed_operation"):
            self._make(list(_FUNCTIONS))
        else:
            self._look_at(request.plan)
        return request

    def _analyze(self, analyze: Callable[..., Any], method: str, **given: Any) -> Any:
        for value in given.values():
            if hasattr(value, "SerializeToString"):
                self._look_at(value)
        return analyze(method, **given)

    def _look_at(self, plan: Any) -> None:
        text = plan.SerializeToString().lower()
        self._make([name for name in _FUNCTIONS if name.encode() in text])

    def _make(self, names: list[str]) -> None:
        with self._lock:
            missing = [name for name in names if name not in self._made]
            if not missing or self._is_making:
                return
            self._is_making = True
            try:
                self._make_all(missing)
            finally:
                self._is_making = False

    def _make_all(self, names: list[str]) -> None:
        if self._made:
            self._session.conf.set(
                _ORDER_SETTING, "second"
            )  # where they come first, none may be named like Spark's own
        for name in names:
            kind, value = _FUNCTIONS[name]
            value = value.format(micros=self._micros)
            self._session.sql(f"CREATE TEMPORARY FUNCTION {name}() RETURNS {kind} RETURN {value}")
            self._made[name] = None
        self._session.conf.set(_ORDER_SETTING, "first")
        self._begun[_ORDER_SETTING] = "first"
