"""The shadow: a clone of the attempt's session, in which plans of marked inputs are planned and never run."""

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
_OUTER_TO_INNER = "org.apache.spark.sql.catalyst.optimizer.EliminateOuterJoin"


class Planner:
    """Made by the first plan or view that is to be seen; the worker closes the clone with the attempt's session."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._shadow: Any = None
        self._settings: dict[str, str] = {}

    def settings(self) -> dict[str, str]:
        """Settings of the attempt's session now that planning depends on."""
        given = self._session.conf.getAll.items()
        return {key: value for key, value in given if key.startswith("spark.sql.") and key not in _PLANNING}

    def prepare(self) -> Any:
        """The shadow, before the session changes in a way that it has to be told of apart."""
        if self._shadow is None:
            settings = self.settings()
            client = self._session.client.clone()
            internals.drop_hooks(client)
            self._shadow = client
            internals.set_all(self._conf, _PLANNING, silent=False)
            self._settings = settings
        return self._shadow

    def run(self, command: Any) -> None:
        """Have the shadow do what the session is about to do, a view for one, with marked plans in it."""
        self.prepare().execute_command(command)

    def explained(self, relation: Any, *, keeps_joins: bool = False, anew: bool = False) -> str:
        """EXPLAIN FORMATTED of it, under the session's settings. Raises what Spark raises for a plan that is wrong.

        With `keeps_joins` outer joins stay outer: comparisons in this plan are not what the user has written. With `anew`
        Spark does not go by what it knows of the plan, and draws seeds that nobody has given.
        """
        import pyspark.sql.connect.proto as pb2

        client, settings = self.prepare(), self.settings()
        if keeps_joins:
            settings[_EXCLUDED] = ",".join(filter(None, (settings.get(_EXCLUDED), _OUTER_TO_INNER)))
        if anew:
            settings[_PLAN_CACHE] = "false"
        changed = {key: value for key, value in settings.items() if self._settings.get(key) != value}
        gone = self._settings.keys() - settings.keys()
        if changed:
            internals.set_all(self._conf, changed, silent=True)
        for key in sorted(gone):
            self._conf.unset(key)
        self._settings = settings
        return str(client.explain_string(pb2.Plan(root=relation), explain_mode="formatted"))

    def analyse(self, relation: Any) -> None:
        """Have the attempt's own session analyse a plan. Raises what Spark raises for one that is wrong."""
        import pyspark.sql.connect.proto as pb2

        self._session.client.schema(pb2.Plan(root=relation))

    @property
    def _conf(self) -> Any:
        from pyspark.sql.connect.conf import RuntimeConf

        return RuntimeConf(self._shadow)
