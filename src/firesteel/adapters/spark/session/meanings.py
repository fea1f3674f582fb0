"""What names and settings meant when the parts of a query were made.

Spark Connect looks both up when a query runs; PySpark without it, when a DataFrame is made. So a part that is older than another
content of a view, or another value of a setting, has other rows there than here, which is told. The parts of plans have numbers
in the order in which they were made, which tells the older ones.
"""

import hashlib
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from firesteel.adapters.spark import internals

_WITHOUT_EXPRESSIONS = (
    "read",
    "range",
    "local_relation",
    "cached_local_relation",
    "chunked_cached_local_relation",
    "cached_remote_relation",
    "catalog",
)
"""Kinds of relations."""
_LOOKED_UP_WHEN_IT_RUNS = (
    "spark.sql.files.",
    "spark.sql.orc.",
    "spark.sql.parquet.",
    "mapreduce.",
    "mapred.",
    "fs.",
    "dfs.",
)
"""Begin what PySpark without Connect looks up no sooner."""
_NOT_CODE = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)

Name = tuple[str, str, str]
"""A session's id, the kind of what is named, its name in lower case."""


class _Meaning(NamedTuple):
    since: int
    """Number of the first part that was made with it."""
    value: object
    by_user: bool
    """Whether the user's code has chosen it, and not the function before."""


class Meanings:
    """Of one attempt's sessions. A hook of their clients: it looks before they note a change."""

    def __init__(self) -> None:
        self._names: dict[Name, list[_Meaning]] = {}
        self._settings: dict[tuple[str, str], list[_Meaning]] = {}
        self.is_users_code = False
        """Whether code of the user runs: what we set ourselves, to store or to plan, is no change of his."""
        self._shown = set[str]()

    def forget(self) -> None:
        """A session is opened, in which nothing has a meaning yet."""
        self._names, self._settings = {}, {}

    def name_given(self, session_id: str, kind: str, name: str, plan: Any) -> None:
        """A view, function or variable is being registered, changed or dropped by this plan."""
        if self.is_users_code:
            known = self._names.setdefault((session_id, kind, name), [])
            known.append(_Meaning(internals.next_plan_id(), self._content(session_id, plan), True))

    def setting_changed(self, session_id: str, name: str, value: object, *, by_user: bool) -> None:
        """`value` is any text that tells it from others, until `setting_known`."""
        if (self.is_users_code or not by_user) and not name.startswith(_LOOKED_UP_WHEN_IT_RUNS):
            known = self._settings.setdefault((session_id, name), [])
            known.append(_Meaning(internals.next_plan_id(), value, by_user))

    def setting_known(self, session_id: str, name: str, value: str | None) -> None:
        """What the last change has made of it."""
        if known := self._settings.get((session_id, name)):
            known[-1] = known[-1]._replace(value=value)

    def on_execute_plan(self, request: Any) -> Any:
        """Says of each name and setting, once, that the query has the later one."""
        names, settings = (_changed(each, request.session_id) for each in (self._names, self._settings))
        for relation in _made_before(request.plan) if names or settings else ():
            number = relation.common.plan_id
            texts = list(_texts(relation)) if names else []
            for (_, kind, name), known in names:
                if _is_older(known, number) and any(_mentions(text, kind, name) for text in texts):
                    self._show(f"the {kind} {name!r}", "give the later one another name")
            for (_, name), known in settings if relation.WhichOneof("rel_type") not in _WITHOUT_EXPRESSIONS else ():
                if _is_older(known, number):
                    self._show(name, "set it once, or in functions of their own")
        return request

    def _show(self, what: str, advice: str) -> None:
        if what not in self._shown:
            self._shown.add(what)
            print(
                f"firesteel: {what} was changed after a part of this query was made with it: Spark Connect looks it up when"
                f" the query runs, so that part has the later one, which it has not in PySpark without; {advice}",
                file=sys.stderr,
                flush=True,
            )

    def _content(self, session_id: str, plan: Any) -> tuple[object, ...]:
        """Tells it from others: the plan, and how often what its texts name was given before."""
        copy = type(plan)()
        copy.CopyFrom(plan)
        texts: list[str] = []
        for each in internals.relations(copy):
            if each.DESCRIPTOR.full_name == "spark.connect.Relation":
                each.ClearField("common")
                texts += _texts(each)
        read = [
            (key, len(known))
            for key, known in tuple(self._names.items())
            if key[0] == session_id and any(_mentions(text, key[1], key[2]) for text in texts)
        ]
        return hashlib.sha256(copy.SerializeToString()).hexdigest(), *read


def _changed(known: dict[Any, list[_Meaning]], session_id: str) -> list[tuple[Any, list[_Meaning]]]:
    return [(key, each) for key, each in tuple(known.items()) if key[0] == session_id and len(each) > 1]


def _texts(relation: Any) -> Iterator[str]:
    """SQL of a relation, and the names of tables that it reads, without those below it."""
    if relation.WhichOneof("rel_type") == "sql":
        yield relation.sql.query
    if table := relation.read.named_table.unparsed_identifier:
        yield f"TABLE {table}"
    yield from _expression_texts(relation)


def _expression_texts(relation: Any) -> Iterator[str]:
    """SQL texts of expressions in a relation, without those in relations below it."""
    for field, value in relation.ListFields():
        for item in value if field.is_repeated else (value,):
            name = item.DESCRIPTOR.full_name if hasattr(item, "DESCRIPTOR") else ""
            if name == "spark.connect.Expression.ExpressionString":
                yield item.expression
            elif name and name not in ("spark.connect.Relation", "spark.connect.RelationCommon"):
                yield from _expression_texts(item)


def _mentions(text: str, kind: str, name: str) -> bool:
    word = rf"(?<![\w$.`]){re.escape(name)}(?![\w$])|`{re.escape(name)}`"
    if "view" in kind:
        word = rf"(?:\bFROM|\bJOIN|\bTABLE|,)[\s(]*(?:global_temp\s*\.\s*)?(?:{word})(?!\s*\.)"
    elif kind == "function":
        word = rf"(?:{word})\s*\("
    return re.search(word, _NOT_CODE.sub(" ", text), re.IGNORECASE) is not None


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
