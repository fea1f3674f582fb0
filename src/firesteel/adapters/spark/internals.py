"""PySpark's private names that firesteel needs, all of them: a new version of PySpark is held against this page first.

Each function says what it is for in firesteel's words; why it is needed is said where it is called. PySpark is imported
by those who need it, since clients that open returned rows come through here as well.
"""

import atexit
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from firesteel.model.streams import FOREACH_BATCH

M = TypeVar("M")


# ── plans ────────────────────────────────────────────────────────────────────────────────────────────────
def relation_of(frame: Any, client: Any) -> Any:
    """The unresolved plan of a DataFrame, as the message that `client` would send."""
    return frame._plan.plan(client)


def relations(message: Any) -> Iterator[Any]:
    """A plan's relations and what they are made of, without the expressions."""
    yield message
    for field, value in message.ListFields():
        for item in value if field.is_repeated else (value,):
            name = item.DESCRIPTOR.full_name if hasattr(item, "DESCRIPTOR") else ""
            if name and not name.startswith("spark.connect.Expression"):
                yield from relations(item)


def reads(message: Any) -> Iterator[Any]:
    """Those relations of a plan that read from outside it, a join's left side before its right."""
    return (each for each in relations(message) if each.DESCRIPTOR.full_name == "spark.connect.Read")


def plan_id_of(frame: Any) -> int:
    """What stands in `common.plan_id` of the relation that this DataFrame is, wherever it is part of a plan."""
    return int(frame._plan._plan_id)


def next_plan_id() -> int:
    """The number that the next relation of this process gets: they are counted as they are made."""
    from pyspark.sql.connect.plan import LogicalPlan

    return int(LogicalPlan._nextPlanId)


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


def reads_stream(frame: Any) -> bool:
    """Whether a DataFrame is made of a streaming source, as far as its own plan says: nobody is asked."""
    waiting, seen = [frame._plan], set[int]()
    while waiting:
        plan = waiting.pop()
        if id(plan) in seen:
            continue
        seen.add(id(plan))
        if getattr(plan, "_is_streaming", None):
            return True
        below = (getattr(plan, name, None) for name in ("_child", "_left", "_right", "left", "right", "other"))
        waiting += [each for each in below if each is not None]
    return False


def is_stream_writer(value: Any) -> bool:
    """What `df.writeStream` gives."""
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    return isinstance(value, DataStreamWriter)


def is_streaming_query(value: Any) -> bool:
    from pyspark.sql.connect.streaming.query import StreamingQuery

    return isinstance(value, StreamingQuery)


def running_query(session: Any, query_id: str, run_id: str, name: str) -> Any:
    """A query that runs in this session, whoever has started it: nobody is asked."""
    from pyspark.sql.connect.streaming.query import StreamingQuery

    return StreamingQuery(session, query_id, run_id, name)


def session_of_query(query: Any) -> Any:
    """The session that it was started in."""
    return query._session


def has_listeners(session: Any) -> bool:
    """Whether this process listens to the session's streaming queries."""
    manager = getattr(session, "_sqm", None)
    return manager is not None and bool(manager._sqlb._listener_bus)


def has_trigger(writer: Any) -> bool:
    """Whether `trigger(...)` was called on it."""
    return writer._write_proto.WhichOneof("trigger") is not None


def ends_by_itself(writer: Any) -> bool:
    """Whether its query, by the trigger that it has by now, reads what is there and ends."""
    return writer._write_proto.WhichOneof("trigger") in ("available_now", "once")


def refuse_second_run(writer: Any) -> None:
    """Of a query with the id of one that runs in this Spark, Spark is to refuse the start: else it stops the one that runs."""
    _settings(writer).set("spark.sql.streaming.stopActiveRunOnRestart", "false")


def _settings(writer: Any) -> Any:
    """Of the session in which a writer of a stream starts its query."""
    from pyspark.sql.connect.conf import RuntimeConf

    return RuntimeConf(writer._session.client)


def time_zone(writer: Any) -> str:
    """That of the session in which a writer of a stream starts its query."""
    return _settings(writer).get("spark.sql.session.timeZone") or ""


_MAX_FIELDS = "spark.sql.debug.maxToStringFields"


def streamed_plan(writer: Any) -> str:
    """What `explain()` prints of the rows that a writer of a stream is to write, with all columns however many; nothing where
    Spark can't tell before the query runs, as of SQL over a view of a stream."""
    from pyspark.errors import AnalysisException

    client, conf = writer._session.client, _settings(writer)
    before = conf.get(_MAX_FIELDS)
    conf.set(_MAX_FIELDS, str(1 << 20))
    try:
        return str(client.explain_string(writer._write_stream._child.to_proto(client), "simple"))
    except AnalysisException:
        return ""
    finally:
        conf.set(_MAX_FIELDS, str(before))


def streams_read(writer: Any) -> list[tuple[str, list[str], dict[str, str]]]:
    """Format, paths and options of each stream that the rows of a writer come from, a join's left before its right; of a table
    its name is the path."""
    found = reads(writer._write_stream._child.to_proto(writer._session.client))
    return [
        ("table", [read.named_table.unparsed_identifier], dict(read.named_table.options))
        if read.HasField("named_table")
        else (read.data_source.format, list(read.data_source.paths), dict(read.data_source.options))
        for read in found
        if read.is_streaming
    ]


def output_mode(writer: Any) -> str:
    """The one that a writer of a stream was given; empty for none."""
    return str(writer._write_proto.output_mode)


def file_sink_path(writer: Any) -> str:
    """The path that a writer of a stream was given for Spark's own file sink; empty for every other sink."""
    if sink_kind(writer).lower() not in ("", "avro", "csv", "json", "orc", "parquet", "text"):  # no format is Parquet
        return ""
    return str(writer._write_proto.path or writer._write_proto.options.get("path", ""))


def told_of_files(writer: Any) -> list[str]:
    """Methods that were called on a writer of a stream, and mean nothing to one of `foreachBatch`."""
    told = writer._write_proto
    fields = (told.options, "option"), (told.format, "format"), (told.partitioning_column_names, "partitionBy")
    return [name for value, name in fields if value]


def sink_options(writer: Any) -> dict[str, str]:
    """Options that a writer of a stream was given."""
    return dict(writer._write_proto.options)


def sink_kind(writer: Any) -> str:
    """By what a writer of a stream writes: its format, `foreachBatch`, `foreach` or `table NAME`; empty is the default format."""
    proto = writer._write_proto
    for field, name in (("foreach_batch", FOREACH_BATCH), ("foreach_writer", "foreach")):
        if proto.HasField(field):
            return name
    return f"table {proto.table_name}" if proto.table_name else str(proto.format)


def watch_paths(
    mark: Callable[[], M],
    source: Callable[[Any, M], None],
    target: Callable[[Any], None],
) -> None:
    """Show every path that is given to PySpark from here on, for a change in place.

    `mark` is called when a source is made, and `source` gets what it returned with each message of that source; `target`
    gets the messages of writes, also of streams.
    """
    from pyspark.sql.connect import plan as connect_plan

    plan: Any = connect_plan  # its classes get other methods
    begin, read = plan.DataSource.__init__, plan.DataSource.plan
    write, write_stream = plan.WriteOperation.command, plan.WriteStreamOperation.command

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

    def writing_stream(made: Any, session: Any) -> Any:
        command = write_stream(made, session)
        target(command.write_stream_operation_start)
        return command

    plan.DataSource.__init__ = beginning
    plan.DataSource.plan = reading
    plan.WriteOperation.command = writing
    plan.WriteStreamOperation.command = writing_stream


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


def new_session(client: Any, session_id: str) -> Any:
    """What `client.newSession()` makes, with an id that the caller has chosen."""
    connection = copy.deepcopy(client._builder)
    connection._params[connection.PARAM_SESSION_ID] = session_id
    return type(client)(
        connection=connection,
        user_id=client._user_id,
        use_reattachable_execute=client._use_reattachable_execute,
        session_hooks=client._session_hooks,
        rpc_deadlines=client._rpc_deadlines,
    )


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


def watch_operations(client: Any, under_way: Callable[[], AbstractContextManager[None]]) -> None:
    """Have all that the session has Spark run, run within `under_way()`."""
    execute, fetch = client._execute, client._execute_and_fetch_as_iterator

    def executing(*given: Any, **named: Any) -> Any:
        with under_way():
            return execute(*given, **named)

    def fetching(*given: Any, **named: Any) -> Iterator[Any]:
        found, end = fetch(*given, **named), object()
        while True:
            with under_way():  # not while somebody works with what came
                each = next(found, end)
            if each is end:
                return
            yield each

    client._execute, client._execute_and_fetch_as_iterator = executing, fetching


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


def wrap_function_calls(pin: Callable[[Any], Any]) -> None:
    """Have columns of a UDF, and all that takes a Python function, hold `pin(UDF)` in place of the function."""
    from pyspark.sql.connect.udf import UserDefinedFunction

    udfs: Any = UserDefinedFunction
    original = udfs._build_common_inline_user_defined_function

    def build(udf: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(udf, *args, **kwargs)
        made._function._func = pin(udf)
        return made

    udfs._build_common_inline_user_defined_function = build


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
