"""RESET in SQL takes a session back to what it began with, as it does where spark-submit has started Spark.

The server would take it back to its own settings: those of the job, of a script's builder, and where relative paths start
are to it changes like any others.
"""

import re
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from pyspark.sql.connect.conf import RuntimeConf

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.session.sqltext import SKIPPED, text_of

RESET = re.compile(rf"{SKIPPED}RESET(?:\s+`?(?P<name>[\w.:\-]+)`?)?\s*;?\s*$", re.IGNORECASE | re.DOTALL)
"""All settings, or the one of that name."""
_NOTHING = "RESET spark.firesteel.nothing"


class Resets:
    """A hook of the clients of one attempt's sessions, which share their hooks. `begun` is what sessions begin with; it may
    grow."""

    def __init__(self, begun: Mapping[str, str]) -> None:
        self._begun = begun
        self._clients = weakref.WeakValueDictionary[str, Any]()
        self._own = threading.local()

    def watch(self, client: Any) -> None:
        """This is the client of a session of the attempt's."""
        self._clients[internals.session_id_of(client)] = client

    def on_execute_plan(self, request: Any) -> Any:
        found = RESET.match(text_of(request.plan))
        client = self._clients.get(request.session_id) if found is not None else None
        if found is not None and client is not None and not getattr(self._own, "is_resetting", False):
            self._reset(client, request.plan.command, found["name"])
            request.plan.command.sql_command.sql = _NOTHING
            request.plan.command.sql_command.input.sql.query = _NOTHING
        return request

    def _reset(self, client: Any, command: Any, name: str | None) -> None:
        self._own.is_resetting = True
        try:
            client.execute_command(command)
            again = {key: value for key, value in self._begun.items() if name in (None, key)}
            internals.set_all(RuntimeConf(client), again, silent=True)
        finally:
            self._own.is_resetting = False
