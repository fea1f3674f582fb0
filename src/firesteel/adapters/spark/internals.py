"""PySpark's private names that firesteel needs, all of them: a new version of PySpark is held against this page first.

Each function says what it is for in firesteel's words; why it is needed is said where it is called. PySpark is imported
by those who need it, since clients that open returned rows come through here as well.
"""

import atexit
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

M = TypeVar("M")


# ── plans ────────────────────────────────────────────────────────────────────────────────────────────────
def relation_of(frame: Any, client: Any) -> Any:
    """The unresolved plan of a DataFrame, as the message that `client` would send."""
    return frame._plan.plan(client)


def plan_id_of(frame: Any) -> int:
    """What stands in `common.plan_id` of the relation that this DataFrame is, wherever it is part of a plan."""
    return int(frame._plan._plan_id)


def change_relation(frame: Any, change: Callable[[Any], Any]) -> None:
    """Have all DataFrames that hold this plan, also those made of it before, send it changed from now on. Once a plan."""
    plan = frame._plan
    if "plan" not in vars(plan):
        make = plan.plan
        plan.plan = lambda client: change(make(client))


def physical_plan_of(frame: Any) -> str:
    """What `explain()` prints."""
    return str(frame._explain_string())


def fetched(frame: Any) -> Any:
    """Runs the query; an iterator of Arrow tables, with the StructType of the rows among them where Spark tells it."""
    client = frame.sparkSession.client
    return client.to_table_as_iterator(frame._plan.to_proto(client), frame._plan.observations)


def watch_paths(
    mark: Callable[[], M],
    source: Callable[[Any, M], None],
    target: Callable[[Any], None],
    query: Callable[[str], str],
) -> None:
    """Show every path that is given to PySpark from here on, for a change in place.

    `mark` is called when a source is made, and `source` gets what it returned with each message of that source; `target`
    gets the messages of writes; `query` gives SQL text as it is to be sent.
    """
    from pyspark.sql.connect import plan as connect_plan

    plan: Any = connect_plan  # its classes get other methods
    begin, read = plan.DataSource.__init__, plan.DataSource.plan
    write, begin_sql = plan.WriteOperation.command, plan.SQL.__init__

    def beginning(made: Any, *given: Any, **named: Any) -> None:
        begin(made, *given, **named)
        made._firesteel_mark = mark()

    def reading(made: Any, session: Any) -> Any:
        relation = read(made, session)
        source(relation.read.data_source, made._firesteel_mark)
        return relation

    def writing(made: Any, session: Any) -> Any:
        command = write(made, session)
        target(command.write_operation)
        return command

    def beginning_sql(made: Any, text: str, *given: Any, **named: Any) -> None:
        begin_sql(made, query(text), *given, **named)

    plan.DataSource.__init__ = beginning
    plan.DataSource.plan = reading
    plan.WriteOperation.command = writing
    plan.SQL.__init__ = beginning_sql


# ── clients of sessions ──────────────────────────────────────────────────────────────────────────────────
def release_pools() -> set[Any]:
    """Thread pools by which queries under way tell the server what they have read."""
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Reading

    return {each._release_thread_pool_instance for each in list(Reading._instances)} - {None}


def add_hook(client: Any, hook: Any) -> None:
    """Have `hook.on_execute_plan` see, and change, what the session is about to have run."""
    client._session_hooks.append(hook)


def drop_hooks(client: Any) -> None:
    """Have nobody see it: a clone has the hooks of its original."""
    client._session_hooks = []


def session_id_of(client: Any) -> str:
    return str(client._session_id)


def server_session_id_of(client: Any) -> str:
    """The server's own name of the session; empty before its first answer."""
    return client._server_session_id or ""


def begin_on_server(client: Any) -> None:
    """The two calls that every query needs once, which make the server set the session up."""
    client._get_plan_compression_threshold_and_algorithm()


def be_silent_at_exit(client: Any) -> None:
    """Not ask the server for one more operation when the process ends."""
    atexit.unregister(client._on_exit)


def wrap_analysis(client: Any, around: Callable[..., Any]) -> None:
    """Have `around(analyze, method, **given)` called for each question about a plan, instead of `analyze`."""
    client._analyze = functools.partial(around, client._analyze)


def wrap_plan_calls(client: Any, around: Callable[..., Any]) -> None:
    """Have `around(call, request, **options)` called for each request that has a plan, instead of the gRPC call."""
    for name in ("AnalyzePlan", "ExecutePlan"):
        setattr(client._stub, name, functools.partial(around, getattr(client._stub, name)))


def set_all(conf: Any, settings: Mapping[str, str], *, silent: bool) -> None:
    """Set them in one call; `silent` passes over those that can't be set."""
    conf._set_all(configs=dict(settings), silent=silent)


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────
def make_default(session: Any) -> None:
    """The session is that of this process."""
    from pyspark.sql.connect.session import SparkSession

    SparkSession._set_default_and_active_session(session)


def make_active(session: Any) -> None:
    """The session is that of this thread."""
    from pyspark.sql.connect.session import SparkSession

    SparkSession._active_session.session = session


def give_default(get: Callable[[], Any]) -> None:
    """Have `get` called for the session of this process, where one is wanted."""
    from pyspark.sql.connect.session import SparkSession

    SparkSession._get_default_session = classmethod(lambda cls: get())  # type: ignore[assignment, method-assign]


def options_of(builder: Any) -> Mapping[str, Any]:
    """The settings that a session builder was given."""
    options: Mapping[str, Any] = builder._options
    return options


def place_files(directory: str) -> None:
    """Have `SparkFiles.get` look there in this process, as it does in a Python worker."""
    from pyspark import SparkFiles

    SparkFiles._root_directory, SparkFiles._is_running_on_worker = directory, True


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────
def pandas_of(table: Any, schema: Any, timezone: str) -> Any:
    """A pandas DataFrame of an Arrow table, as `toPandas` makes it."""
    from pyspark.sql.pandas.conversion import _convert_arrow_table_to_pandas

    return _convert_arrow_table_to_pandas(
        table, schema, timezone=timezone, struct_handling_mode="legacy", date_as_object=False
    )


def rows_of(table: Any, schema: Any) -> list[Any]:
    """Rows of an Arrow table, as `collect` makes them."""
    from pyspark.sql.conversion import ArrowTableToRowsConversion

    return ArrowTableToRowsConversion.convert(table, schema)
