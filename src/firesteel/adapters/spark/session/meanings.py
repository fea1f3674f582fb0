"""What names and settings meant when the parts of a query were made.

Spark Connect looks both up when a query runs; PySpark without it, when a DataFrame is made. So a part that is older than a view
of another content, or than another value of a setting, would have other rows there than here. The parts of plans have numbers in
the order in which they were made, which tells the older ones.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused

_LEAVES = ("read", "range", "local_relation", "cached_local_relation")
"""Kinds of relations without expressions."""


class _Meaning(NamedTuple):
    since: int
    """Number of the first part that was made with it."""
    value: object
    by_user: bool
    """Whether the user's code has chosen it, and not the function before."""


class Meanings:
    """Of one attempt's sessions. A hook of their clients: it looks before they note a change."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], list[_Meaning]] = {}
        self._settings: dict[str, list[_Meaning]] = {}
        self.is_users_code = False
        """Whether code of the user runs: what we set ourselves, to store or to plan, is no change of his."""
        self.on_older: Callable[[str], None] = _refuse
        """Told why a query that is about to run has other rows than its code says; may refuse it."""

    def forget(self) -> None:
        """A session is opened, in which nothing has a meaning yet."""
        self._names.clear()
        self._settings.clear()

    def name_given(self, kind: str, name: str) -> None:
        """A view, function or variable is being registered, changed or dropped; `name` in lower case."""
        if not self.is_users_code:
            return
        known = self._names.setdefault((kind, name), [])
        known.append(_Meaning(internals.next_plan_id(), len(known), True))

    def setting_changed(self, name: str, value: object, *, by_user: bool) -> None:
        """`value` is any text that tells it from others, until `setting_known`."""
        if self.is_users_code or not by_user:
            self._settings.setdefault(name, []).append(_Meaning(internals.next_plan_id(), value, by_user))

    def setting_known(self, name: str, value: str | None) -> None:
        """What the last change has made of it."""
        if known := self._settings.get(name):
            known[-1] = known[-1]._replace(value=value)

    def on_execute_plan(self, request: Any) -> Any:
        """Raises PipelineRefused, unless `on_older` does otherwise."""
        if any(len(known) > 1 for known in (*self._names.values(), *self._settings.values())):
            for relation in _made_before(request.plan):
                for what, advice in self._changed_since(relation):
                    self.on_older(
                        f"{what} was changed after a part of this query was made with it: Spark Connect looks it up when"
                        f" the query runs, so that part has the later one, which it has not in PySpark without; {advice}"
                    )
        return request

    def _changed_since(self, relation: Any) -> Iterator[tuple[str, str]]:
        """What, and what to do about it."""
        number, kind = relation.common.plan_id, relation.WhichOneof("rel_type")
        text = relation.sql.query if kind == "sql" else relation.read.named_table.unparsed_identifier
        for (what, name), known in self._names.items() if text else ():
            if _is_older(known, number) and re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text, re.IGNORECASE):
                yield f"the {what} {name!r}", "give the later one another name"
        for name, known in self._settings.items() if kind not in _LEAVES else ():
            if _is_older(known, number):
                yield name, "set it once, or in functions of their own"


def _made_before(plan: Any) -> Iterator[Any]:
    """Relations of a plan; a statement's own is made where it runs."""
    statement = plan.command.sql_command.input
    own = [
        each.common.plan_id for each in (statement, statement.with_relations.root) if each.common.HasField("plan_id")
    ]
    for each in internals.relations(plan):
        is_relation = each.DESCRIPTOR.full_name == "spark.connect.Relation" and each.common.HasField("plan_id")
        if is_relation and each.common.plan_id not in own:
            yield each


def _is_older(known: list[_Meaning], number: int) -> bool:
    """Whether the part of this number was made with a meaning that the user's code had chosen, and is another by now."""
    then = next((each for each in reversed(known) if each.since <= number), None)
    return then is not None and then.by_user and then.value != known[-1].value


def _refuse(why: str) -> None:
    raise PipelineRefused(why)
