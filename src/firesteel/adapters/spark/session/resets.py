"""RESET in SQL takes a session back to what it began with, as it does where spark-submit has started Spark.

The server would take it back to its own settings: those of the job, of a script's builder, and where relative paths start
are to it changes like any others.
"""

import re
import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql.connect.conf import RuntimeConf

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.session.sqltext import SKIPPED, text_of

RESET = re.compile(rf"{SKIPPED}RESET(?:\s+`?(?P<name>[\w.:\-]+)`?)?\s*;?\s*$", re.IGNORECASE | re.DOTALL)
"""All settings, or the one of that name."""
_NOTHING = "RESET spark.firesteel.nothing"


class Resets:
    """A hook of one client. `begun` is what its session begins with; it may grow."""

    def __init__(self, client: Any, begun: Mapping[str, str]) -> None:
        self._client, self._begun = client, begun
        self._own = threading.local()
        internals.add_hook(client, self)

    def on_execute_plan(self, request: Any) -> Any:
        found = RESET.match(text_of(request.plan))
        is_mine = request.session_id == internals.session_id_of(self._client)  # sessions made of others share hooks
        if found is not None and is_mine and not getattr(self._own, "is_resetting", False):
            self._reset(request.plan.command, found["name"])
            request.plan.command.sql_command.sql = _NOTHING
            request.plan.command.sql_command.input.sql.query = _NOTHING
        return request

    def _reset(self, command: Any, name: str | None) -> None:
        self._own.is_resetting = True
        try:
            self._client.execute_command(command)
            again = {key: value for key, value in self._begun.items() if name in (None, key)}
            internals.set_all(RuntimeConf(self._client), again, silent=True)
        finally:
            self._own.is_resetting = False
