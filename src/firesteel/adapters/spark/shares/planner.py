"""The shadow: a clone of the attempt's session, in which plans of marked inputs are planned and never run."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from firesteel.adapters.spark import internals

_PLANNING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.exchange.reuse": "false",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.debug.maxToStringFields": "1000000",
    "spark.sql.maxPlanStringLength": "100000000",
}
"""Physical plans that are final, whole, and show every exchange."""
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_PLAN_CACHE = "spark.connect.session.planCache.enabled"
_RULES = "org.apache.spark.sql.catalyst.optimizer."
_OUTER_TO_INNER = f"{_RULES}EliminateOuterJoin"
_BY_NUMBER_OF_ROWS = tuple(f"{_RULES}{name}" for name in ("EliminateLimits", "EliminateOffsets", "OptimizeOneRowPlan"))
"""Rules that drop an operator which changes nothing of so few rows: a share has few, and all shares have more."""


class Planner:
    """Made by the first plan or view that is to be seen; the worker closes the clone with the attempt's session. Threads of a
    function take turns: what one asks is answered under its own settings."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._shadow: Any = None
        self._settings: dict[str, str] = {}
        self._turn = threading.Lock()

    def settings(self) -> dict[str, str]:
        """Settings of the attempt's session now that planning depends on."""
        return _planned_by(self._session.client)

    def run(self, command: Any) -> None:
        """Have the shadow do what the session is about to do, a view for one, with marked plans in it."""
        with self._under(self.settings()) as shadow:
            shadow.execute_command(command)

    def explained(
        self, relation: Any, settings: Mapping[str, str], *, keeps_joins: bool = False, anew: bool = False
    ) -> str:
        """EXPLAIN FORMATTED of it, under these settings of the session. Raises what Spark raises for a plan that is wrong.

        With `keeps_joins` outer joins stay outer: comparisons in this plan are not what the user has written. With `anew`
        Spark does not go by what it knows of the plan, and draws seeds that nobody has given.
        """
        import pyspark.sql.connect.proto as pb2

        without = (*_BY_NUMBER_OF_ROWS, *([_OUTER_TO_INNER] if keeps_joins else []))
        wanted = {**settings, _EXCLUDED: ",".join(filter(None, (settings.get(_EXCLUDED), *without)))}
        if anew:
            wanted[_PLAN_CACHE] = "false"
        with self._under(wanted) as shadow:
            return str(shadow.explain_string(pb2.Plan(root=relation), explain_mode="formatted"))

    def analyse(self, relation: Any) -> None:
        """Have the attempt's own session analyse a plan. Raises what Spark raises for one that is wrong."""
        import pyspark.sql.connect.proto as pb2

        self._session.client.schema(pb2.Plan(root=relation))

    @contextlib.contextmanager
    def _under(self, wanted: dict[str, str]) -> Iterator[Any]:
        """The shadow, which has these settings meanwhile."""
        with self._turn:
            if self._shadow is None:
                self._shadow = self._session.client.clone()
                internals.drop_hooks(self._shadow)
                self._settings = _planned_by(self._shadow)
                internals.set_all(_conf_of(self._shadow), _PLANNING, silent=False)
            conf = _conf_of(self._shadow)
            changed = {key: value for key, value in wanted.items() if self._settings.get(key) != value}
            if changed:
                internals.set_all(conf, changed, silent=True)
            for key in sorted(self._settings.keys() - wanted.keys()):
                conf.unset(key)
            self._settings = wanted
            yield self._shadow


def _planned_by(client: Any) -> dict[str, str]:
    given = _conf_of(client).getAll.items()
    return {key: value for key, value in given if key.startswith("spark.sql.") and key not in _PLANNING}


def _conf_of(client: Any) -> Any:
    from pyspark.sql.connect.conf import RuntimeConf

    return RuntimeConf(client)
