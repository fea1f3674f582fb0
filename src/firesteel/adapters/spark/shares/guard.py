"""ShareGuard: refuses, before Spark runs it, a plan that would give other rows on shares than on the whole."""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import NeedsAllRows, PipelineRefused
from firesteel.adapters.spark.shares import decisions
from firesteel.adapters.spark.shares.approvals import Approvals, digest_of
from firesteel.adapters.spark.shares.inputs import input_over
from firesteel.adapters.spark.shares.marking import OBSERVE, Input, Marking, broadcast, relations_in, spread
from firesteel.adapters.spark.shares.physical import Judgement, Rows, has_columns, judge, seeds_in
from firesteel.adapters.spark.shares.pieces import Pieces
from firesteel.adapters.spark.shares.planner import Planner
from firesteel.adapters.spark.shares.seeds import drawn_seeds
from firesteel.model.jobgraph import Function, JobEdge

_HARMLESS_COMMANDS = (
    *("register_function", "register_table_function", "register_data_source"),
    *("get_resources_command", "create_resource_profile_command"),
)
_OF_THE_SESSION = ("set_current_database", "set_current_catalog", "drop_temp_view")
_FOR_THE_EYE = ("show_string", "html_string")
_COMMENT = r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*"
_QUERY = re.compile(rf"{_COMMENT}(select|with|values|table|from|map|reduce)\b", re.IGNORECASE | re.DOTALL)
_CHANGES = re.compile(r"\b(insert\s+(into|overwrite)|merge\s+into|update|delete\s+from)\b", re.IGNORECASE)
_MAKES = r"[\s\S]*\b(as|select|with|values|from)\b"
"""A view, of what is cached."""
_SETS = re.compile(
    rf"{_COMMENT}(set(?!\s+var)|reset|describe|desc|show|explain|uncache|cache(?!{_MAKES})|refresh)\b", re.IGNORECASE
)
_DEFINES = re.compile(
    rf"{_COMMENT}(create\s+(or\s+replace\s+)?temp(orary)?\s+(view|function)|drop\s+(view|temporary\s+function))\b",
    re.IGNORECASE | re.DOTALL,
)
_USES = re.compile(rf"{_COMMENT}use\b", re.IGNORECASE)

APPROVED = "approved"
"""The directory of a job's approvals, beside those of its attempts' results."""
ANYWHERE = "*"
"""Allowed to a user's own two-phase sink."""


class ShareGuard:
    """The guard of one attempt of a region with parallelism above 1. A session hook of the Connect client.

    It sees the result of every function, and all that a function has Spark run while it is called. The planner is asked about
    what leaves the attempt: functions whose results are parts of that need no question of their own. `approved`: a directory
    of the job's, where its subtasks leave word of what Spark's planner has approved.
    """

    def __init__(self, session: Any, parallelism: int, approved: Path) -> None:
        self._session, self._parallelism = session, parallelism
        self._planner, self._approvals = Planner(session), Approvals(approved)
        self._drawn_seeds = drawn_seeds()
        self._given: dict[int, Input] = {}
        self._numbers = itertools.count(1)
        self._views: list[Any] = []
        """What the function has defined for SQL text to name, in order, as commands."""
        self._places: list[Any] = []
        """Where it has said that names are to be looked for, in order, as commands or relations."""
        self._returned: dict[str, tuple[Function, Any]] = {}
        """Functions that have returned, by name, and what; nobody has asked about that."""
        self._active: Function | None = None
        self._refusal: PipelineRefused | None = None
        """The first that the function has been told."""
        self._pieces: Pieces | None = None
        self._staged: set[str] = set()
        internals.add_hook(session.client, self)

    def given(self, frame: Any, edge: JobEdge, columns: Sequence[str]) -> None:
        """`frame` is what the subtask reads over `edge`."""
        self._given[internals.plan_id_of(frame)] = input_over(edge, frame, columns)

    def drawn(self, splits: Any) -> None:
        """`splits` is the argument that the source is called with."""
        self._pieces = Pieces(splits)
        self._returned.clear()

    def call(self, function: Function, call: Callable[[], Any]) -> Any:
        """Call the user's function under watch. Raises PipelineRefused."""
        if function.per_share:
            self._check_returned()  # of which nobody sees anything any more
        self._active, self._refusal = function, None
        is_asked = self._is_nothing if function.per_share else self._is_share
        try:
            with decisions.answered(is_asked):
                result = call()
        finally:
            self._active = None
        if self._refusal is not None:  # what the function makes of an error is not what it would make of the answer
            raise self._refusal
        return result

    def staging(self, location: str) -> None:
        """A sink is about to write to that path, table or Kafka, or ANYWHERE, for now."""
        self._staged.add(location)

    def staged(self, location: str) -> None:
        """It has."""
        self._staged.discard(location)

    def returned(self, function: Function, frame: Any) -> None:
        """Note a function's result."""
        relation = internals.relation_of(frame, self._session.client)
        if function.per_share:
            self._given[internals.plan_id_of(frame)] = Input(spread(relation))
        else:
            self._returned[function.name] = function, relation

    def leaves(self, function: Function, frame: Any) -> None:
        """Check a function's result, which others are to have. Raises PipelineRefused."""
        if not function.per_share:
            with self._naming_the_first():
                self._check_result(function, internals.relation_of(frame, self._session.client))

    def _check_result(self, function: Function, relation: Any) -> None:
        if self._rows_of(function, relation) is Rows.WHOLE:
            self._refuse_whole(function, "returns")

    def _check_returned(self) -> None:
        for name, (function, relation) in list(self._returned.items()):  # threads of a function may ask at once
            self._check_result(function, relation)
            self._returned.pop(name, None)

    @contextlib.contextmanager
    def _naming_the_first(self) -> Iterator[None]:
        """A refusal names the first function that it is for, not a later one which works with that one's result."""
        try:
            yield
        except PipelineRefused:
            self._check_returned()
            raise

    # ── what a function has Spark run ────────────────────────────────────────────────────────────────────
    def on_execute_plan(self, request: Any) -> Any:
        function = self._active
        if function is not None:
            try:
                with self._naming_the_first():
                    self._check_run(function, request.plan)
            except PipelineRefused as refused:
                self._refusal = self._refusal or refused
                raise
        return request

    def _check_run(self, function: Function, plan: Any) -> None:
        kind = plan.WhichOneof("op_type")
        if decisions.asking.get():
            self._check_question(function, plan.root)
        elif function.per_share:
            self._note_names(plan)
        elif kind == "root":
            self._check_query(function, plan.root)
        elif kind == "command":
            self._check_command(function, plan.command)
        else:
            raise self._refused(function, "a plan too large to be looked at")

    def _check_question(self, function: Function, relation: Any) -> None:
        """How many rows there are is answered for a share; metrics that are observed meanwhile would pass for those of all."""

        def refuse(operator: str) -> None:
            if operator == OBSERVE:
                raise self._refused(function, operator)

        if not function.per_share:
            self._check_returned()
            self._marking().marked(relation, refuse)

    def _check_query(self, function: Function, relation: Any) -> None:
        kind = relation.WhichOneof("rel_type")
        self._note_place(relation)
        if kind in (*_FOR_THE_EYE, "catalog"):
            return
        if self._rows_of(function, relation, "collecting rows into Python") is Rows.SHARE:
            raise self._refused(function, "collecting rows into Python")

    def _check_command(self, function: Function, command: Any) -> None:
        kind = command.WhichOneof("command_type")
        node = getattr(command, kind)
        if kind == "create_dataframe_view" and not node.is_global:
            self._define(command)
        elif kind == "sql_command":
            self._check_sql(function, command)
        elif kind == "write_operation" and self._is_allowed(node):
            if self._rows_of(function, node.input) is Rows.WHOLE:
                self._refuse_whole(function, "writes")
        elif kind in ("write_operation", "write_operation_v2", "merge_into_table_command"):
            raise self._refused(function, "a write of its own, not by fs.write_*,")
        elif kind in _HARMLESS_COMMANDS:
            self._define(command)
        elif any(self._may_be_share(relation) for relation in relations_in(node)):
            raise self._refused(function, _COMMANDS.get(kind, kind))

    def _check_sql(self, function: Function, command: Any) -> None:
        """A query is looked at when its rows are wanted; what else SQL text does, each subtask would do."""
        text = _text_of(command.sql_command)
        if _DEFINES.match(text):
            self._define(command)
        elif _USES.match(text):
            self._use(command)
        elif not _SETS.match(text) and (not _QUERY.match(text) or _CHANGES.search(text)):
            raise self._refused(function, "SQL text that is no query")

    def _note_names(self, plan: Any) -> None:
        """Note what a function that may do anything defines, and where it has names looked for: later ones may use them."""
        if plan.WhichOneof("op_type") != "command":
            self._note_place(plan.root)
            return
        command = plan.command
        kind, text = command.WhichOneof("command_type"), _text_of(command.sql_command)
        if kind in ("create_dataframe_view", *_HARMLESS_COMMANDS) or (kind == "sql_command" and _DEFINES.match(text)):
            self._define(command)
        elif kind == "sql_command" and _USES.match(text):
            self._use(command)

    def _note_place(self, relation: Any) -> None:
        """Have the shadow look for names where the session is about to."""
        if relation.WhichOneof("rel_type") == "catalog" and relation.catalog.WhichOneof("cat_type") in _OF_THE_SESSION:
            self._planner.explained(relation, self._planner.settings())  # which does it there
            self._places.append(relation)

    def _use(self, command: Any) -> None:
        self._planner.run(command)
        self._places.append(command)

    def _define(self, command: Any) -> None:
        """Have the shadow know it, too: with marked plans for what is a share."""
        copy = type(command)()
        copy.CopyFrom(command)
        if copy.WhichOneof("command_type") == "create_dataframe_view":
            view = copy.create_dataframe_view
            marked, is_share = self._marking().marked(view.input, lambda operator: None)
            view.input.CopyFrom(marked)
            if not is_share:
                broadcast(view.input)
        self._planner.run(copy)
        self._views.append(copy)

    def _is_allowed(self, write: Any) -> bool:
        where = write.path or write.options.get("dbtable") or write.options.get("kafka.bootstrap.servers")
        return ANYWHERE in self._staged or where in self._staged

    # ── what a plan is ───────────────────────────────────────────────────────────────────────────────────
    def _marking(self) -> Marking:
        views = bool(self._views)
        if self._pieces is None:
            return Marking(self._given, self._numbers, views=views)
        return Marking(self._given, self._numbers, views=views, leaf=self._pieces.__contains__)

    def _is_nothing(self, frame: Any) -> bool:
        return False

    def _may_be_share(self, relation: Any) -> bool:
        return self._marking().marked(relation, lambda operator: None)[1]

    def _is_share(self, frame: Any) -> bool:
        return self._may_be_share(internals.relation_of(frame, self._session.client))

    def _rows_of(self, function: Function, relation: Any, instead: str = "") -> Rows:
        """What a subtask has of the rows of `relation`. Raises PipelineRefused when they would be others than those of the
        whole; with `instead`, a share is refused by that name, and not looked at."""

        def refuse(operator: str) -> None:
            raise self._refused(function, operator)

        from pyspark.errors import PySparkException

        plain, may_be_share = self._marking().marked(relation, refuse)
        if instead and may_be_share and not self._views:
            return Rows.SHARE
        settings = self._planner.settings()
        digest = digest_of([plain, *self._views, *self._places], settings)
        with self._approvals.turn(digest):
            if digest in self._approvals:
                return Rows.SHARE
            judgement = self._judged(function, plain, relation, settings)
            if judgement.problems and judgement.rows is Rows.SHARE:
                neutral, _ = self._marking().marked(relation, refuse, neutral=True)
                with contextlib.suppress(PySparkException, PipelineRefused):  # not every plan can be written so
                    again = self._judged(function, neutral, relation, settings, keeps_joins=True)
                    judgement = judgement.reviewed(again)
            if judgement.problems and not (instead and judgement.rows is Rows.SHARE):
                refuse(judgement.problems[0])
            if judgement.rows is Rows.SHARE and not judgement.problems:
                self._approvals.add(digest)
            return judgement.rows

    def _judged(
        self, function: Function, marked: Any, relation: Any, settings: Mapping[str, str], *, keeps_joins: bool = False
    ) -> Judgement:
        from pyspark.errors import AnalysisException

        try:
            explained = self._planner.explained(marked, settings, keeps_joins=keeps_joins)
        except AnalysisException as error:
            self._planner.analyse(relation)  # a mistake of the user's is better told of the user's plan
            raise NeedsAllRows(
                f"{function.name} has parallelism {self._parallelism}, and whether its subtasks may each do this with a"
                f" share of the rows can't be found out ({error.getCondition()}): give frames that are joined names by"
                ' .alias("a") and write F.col("a.k") instead of a["k"]; or set parallelism=1; or say per_share=True if a'
                " result for each share is what you want"
            ) from error
        given = seeds_in(explained) - self._drawn_seeds
        if given:  # or Spark has drawn them
            given &= seeds_in(self._planner.explained(marked, settings, keeps_joins=keeps_joins, anew=True))
        return judge(explained, given=given, files_are_the_users=self._pieces is not None)

    # ── refusals ─────────────────────────────────────────────────────────────────────────────────────────
    def _refuse_whole(self, function: Function, verb: str) -> None:
        if self._pieces is not None:
            raise self._refused(function, "reading what is not of `splits`")
        raise NeedsAllRows(
            f"{function.name} has parallelism {self._parallelism}, and every subtask {verb} the same rows, made of"
            " nothing but broadcast inputs or data it reads by itself: set parallelism=1, give one input another"
            " distribution, or say per_share=True if the rows are to be repeated"
        )

    def _refused(self, function: Function, operator: str) -> PipelineRefused:
        return NeedsAllRows(_sentence(function, self._parallelism, operator))


_COMMANDS = {"checkpoint_command": "checkpoint", "create_dataframe_view": "a view for all sessions"}


def _text_of(command: Any) -> str:
    given = command.input
    return str(command.sql or given.sql.query or given.with_relations.root.sql.query)


def _sentence(function: Function, parallelism: int, operator: str) -> str:
    if function.splits is not None:
        return (
            f"{function.name} reads its input split by split, but {operator} needs more than some splits: do it in a"
            " transform behind the source; or set parallelism=1; or say per_share=True if a result for each draw of"
            " splits, or of what else it reads, is what you want"
        )
    inputs = ", ".join(f'"{name}": fs.hash_by(...)' for name in function.inputs)
    by_columns = (
        f"distribute by the columns it groups or joins by, with inputs={{{inputs}}} (if it is: in a function of its own behind"
        " this one, where these are columns that a UDF, an outer join or this function makes); or "
        if inputs and has_columns(operator)
        else ""
    )
    return (
        f"{function.name} has parallelism {parallelism}, so each subtask has a share of the rows, but {operator} needs"
        f" more than a share: {by_columns}set parallelism=1; or say per_share=True if a result for each share is what you"
        " want"
    )
