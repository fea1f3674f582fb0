"""Names that a pipeline's functions give to things in the session: views, functions, variables, the current database.

Spark Connect looks a name up when a query runs, and functions of one region make one query in one session. So what one
function has registered under a name is what all of them would read, whichever was called last; and which functions share a
session is decided by how the pipeline is cut. A name therefore belongs to the function that has given it.
"""

import re
from collections.abc import Iterator
from typing import Any

from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.meanings import Meanings
from firesteel.adapters.spark.session.sqltext import SKIPPED, text_of

_NAME = r"(?P<name>(?:`[^`]+`|[\w$]+)(?:\.(?:`[^`]+`|[\w$]+))*)"
_STATEMENTS = [
    (kind, re.compile(SKIPPED + text, re.IGNORECASE | re.DOTALL))
    for kind, text in (
        ("view", rf"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}"),
        ("view", rf"CACHE\s+(?:LAZY\s+)?TABLE\s+{_NAME}\s+(?:OPTIONS\b.*?\)\s*)?(?:AS|SELECT|WITH)\b"),
        ("view", rf"DROP\s+VIEW\s+(?:IF\s+EXISTS\s+)?{_NAME}"),
        ("global view", rf"CREATE\s+(?:OR\s+REPLACE\s+)?GLOBAL\s+TEMP(?:ORARY)?\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}"),
        ("function", rf"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+FUNCTION\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}"),
        ("function", rf"DROP\s+TEMP(?:ORARY)?\s+FUNCTION\s+(?:IF\s+EXISTS\s+)?{_NAME}"),
        ("variable", rf"DECLARE\s+(?:OR\s+REPLACE\s+)?(?:VAR(?:IABLE)?\s+)?{_NAME}"),
        ("variable", rf"DROP\s+TEMP(?:ORARY)?\s+VAR(?:IABLE)?\s+(?:IF\s+EXISTS\s+)?{_NAME}"),
        ("variable", rf"SET\s+VAR(?:IABLE)?\s+\(?\s*{_NAME}"),
    )
]  # fmt: skip
_USE = re.compile(SKIPPED + r"(?:USE|SET\s+CATALOG)\b", re.IGNORECASE | re.DOTALL)
_DATABASE = ("the current database", "")


class SessionNames:
    """Owners of the names of one attempt's sessions. A hook of their clients."""

    def __init__(self, meanings: Meanings) -> None:
        self._meanings = meanings
        self.function = ""
        """The function that is being called; empty in a script, where all names are the script's."""
        self._owners: dict[tuple[str, str], str] = {}

    def begin(self) -> None:
        """The functions of a region are called from here on: they have a session to themselves."""
        self._owners.clear()

    @property
    def views(self) -> set[str]:
        """Temporary views of the session, in lower case."""
        return {name for kind, name in self._owners if kind == "view"}

    def on_execute_plan(self, request: Any) -> Any:
        """Raises PipelineRefused for a name that another function has given."""
        for kind, name in _given(request.plan):
            if name:
                self._meanings.name_given(request.session_id, kind, name, request.plan)
            if not self.function:
                continue
            owner = self._owners.setdefault((kind, name), self.function)
            if (kind, name) == _DATABASE:
                raise PipelineRefused(
                    f"{self.function} changes the current database, in which other functions of the same session look"
                    " their tables up too: write it before the table's name, like db.table"
                )
            if owner != self.function:
                raise PipelineRefused(
                    f"{self.function} gives, changes or drops the {kind} {name!r}, and {owner} has given it: names are"
                    " looked up when the query runs, so both would have the later one; choose another name in one of them"
                )
        return request


def _given(plan: Any) -> Iterator[tuple[str, str]]:
    """Kinds and names of what a plan registers, changes or drops."""
    command = plan.command
    match command.WhichOneof("command_type"):
        case "create_dataframe_view":
            view = command.create_dataframe_view
            yield "global view" if view.is_global else "view", view.name.lower()
        case "sql_command":
            yield from _given_by_text(text_of(plan))
        case "register_function" | "register_table_function" as registered:
            yield "function", getattr(command, registered).function_name.lower()
        case "register_data_source":
            yield "data source", command.register_data_source.name.lower()
        case _:
            pass
    catalog = plan.root.catalog
    match catalog.WhichOneof("cat_type"):
        case "drop_temp_view":
            yield "view", catalog.drop_temp_view.view_name.lower()
        case "drop_global_temp_view":
            yield "global view", catalog.drop_global_temp_view.view_name.lower()
        case "set_current_database" | "set_current_catalog":
            yield _DATABASE
        case _:
            pass


def _given_by_text(text: str) -> Iterator[tuple[str, str]]:
    if _USE.match(text):
        yield _DATABASE
    for kind, statement in _STATEMENTS:
        if found := statement.match(text):
            last = re.findall(r"`[^`]+`|[\w$]+", found["name"])[-1]
            yield kind, last.strip("`").lower()
            return
