"""ShareGuard: refuses, before Spark runs it, a plan that would give other rows on shares than on the whole."""

from collections.abc import Callable, Sequence
from typing import Any

from firesteel.adapters.spark.operators import AGGREGATE_UDFS
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.shares import PlanWalk, relations_in
from firesteel.adapters.spark.sharing import PART, WHOLE, Share
from firesteel.model.jobgraph import Function, JobEdge, Partitioner

_HARMLESS_COMMANDS = ("register_table_function", "register_data_source", "get_resources_command")
_FOR_THE_EYE = ("show_string", "html_string")

ANYWHERE = "*"
"""Allowed to a user's own two-phase sink."""


class ShareGuard:
    """Of one attempt of a region with parallelism above 1. A session hook of the Connect client.

    It sees the result of every function, and all that a function has Spark run while it is called.
    """

    def __init__(self, session: Any, parallelism: int) -> None:
        self._session, self._parallelism = session, parallelism
        self._known: dict[int, Share] = {}
        self._active: Function | None = None
        self._staged: set[str] = set()
        session.client._session_hooks.append(self)

    def given(self, frame: Any, edge: JobEdge, columns: Sequence[str]) -> None:
        """`frame` is what the subtask reads over `edge`."""
        share = PART
        if edge.partitioner is Partitioner.BROADCAST:
            share = WHOLE
        elif edge.partitioner is Partitioner.HASH:
            share = Share(whole=False, keys=tuple(frozenset((_named(key, columns),)) for key in edge.keys))
        if len({name.lower() for name in columns}) == len(columns):
            share = Share(whole=share.whole, keys=share.keys, columns=tuple(columns))
        self._known[frame._plan._plan_id] = share

    def call(self, function: Function, call: Callable[[], Any]) -> Any:
        """Call the user's function under watch."""
        self._active = function
        try:
            return call()
        finally:
            self._active = None
            self._staged.discard(ANYWHERE)

    def staging(self, location: str) -> None:
        """A sink is about to write to that path or table, or ANYWHERE until the function ends."""
        self._staged.add(location)

    def returned(self, function: Function, frame: Any) -> None:
        """Check a function's result. Raises PipelineRefused."""
        share = self._share_of(frame._plan.plan(self._session.client), function)
        if share.whole:
            self._refuse_whole(function, "returns")
            share = PART
        self._known[frame._plan._plan_id] = share

    def on_execute_plan(self, request: Any) -> Any:
        function = self._active
        if function is not None and not function.per_share:
            kind = request.plan.WhichOneof("op_type")
            if kind == "root":
                self._check_query(function, request.plan.root)
            elif kind == "command":
                self._check_command(function, request.plan.command)
            else:
                raise PipelineRefused(_sentence(function, self._parallelism, "a plan too large to be looked at"))
        return request

    def _check_query(self, function: Function, relation: Any) -> None:
        if relation.WhichOneof("rel_type") not in _FOR_THE_EYE and not self._share_of(relation, function).whole:
            raise PipelineRefused(_sentence(function, self._parallelism, "collecting rows into Python"))

    def _check_command(self, function: Function, command: Any) -> None:
        kind = command.WhichOneof("command_type")
        node = getattr(command, kind)
        if kind == "register_function" and node.python_udf.eval_type in AGGREGATE_UDFS:
            raise PipelineRefused(_sentence(function, self._parallelism, "a registered function over groups"))
        if kind in (*_HARMLESS_COMMANDS, "register_function"):
            return
        shares = [self._share_of(relation, function) for relation in relations_in(node)]
        if kind == "write_operation" and self._is_allowed(node):
            if all(share.whole for share in shares):
                self._refuse_whole(function, "writes")
        elif kind in ("write_operation", "write_operation_v2"):
            raise PipelineRefused(_sentence(function, self._parallelism, "a write of its own, not by fs.write_*,"))
        elif not all(share.whole for share in shares):
            raise PipelineRefused(_sentence(function, self._parallelism, _COMMANDS.get(kind, kind)))

    def _is_allowed(self, write: Any) -> bool:
        return ANYWHERE in self._staged or (write.path or write.options.get("dbtable")) in self._staged

    def _share_of(self, relation: Any, function: Function) -> Share:
        def refuse(operator: str) -> None:
            if not function.per_share:
                raise PipelineRefused(_sentence(function, self._parallelism, operator))

        leaf = WHOLE if function.splits is None else PART
        return PlanWalk(self._known, refuse, leaf).share_of(relation)

    def _refuse_whole(self, function: Function, verb: str) -> None:
        if not function.per_share:
            raise PipelineRefused(
                f"{function.name} has parallelism {self._parallelism}, and every subtask {verb} the same rows, made of"
                " nothing but broadcast inputs or data it reads by itself: set parallelism=1, give one input another"
                " distribution, or say per_share=True if the rows are to be repeated"
            )


_COMMANDS = {
    "sql_command": "SQL text",
    "create_dataframe_view": "a view for SQL text",
    "checkpoint_command": "checkpoint",
}


def _sentence(function: Function, parallelism: int, operator: str) -> str:
    if function.splits is not None:
        return (
            f"{function.name} reads its input split by split, but {operator} needs more than some splits: do it in a"
            " transform behind the source; or set parallelism=1; or say per_share=True if a result for each draw of"
            " splits, or of what else it reads, is what you want"
        )
    inputs = ", ".join(f'"{name}": fs.hash_by(...)' for name in function.inputs)
    return (
        f"{function.name} has parallelism {parallelism}, so each subtask has a share of the rows, but {operator} needs"
        f" more than a share: distribute by the columns it groups or joins by, with inputs={{{inputs}}}; or set"
        " parallelism=1; or say per_share=True if a result for each share is what you want"
    )


def _named(key: str, columns: Sequence[str]) -> str:
    """The column's name as it is written, for a key that may be in another case."""
    return key if key in columns else next((name for name in columns if name.lower() == key.lower()), key)
