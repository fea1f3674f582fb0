"""Rows that a pipeline returns to its caller: collected in the task process, kept as one Arrow stream.

The stream's metadata hold what Spark said the types are, and whose rows they are: no two attempts make the same blob,
so that throwing one away can't take another's.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.exchange.plainvalues import plain_values
from firesteel.adapters.spark.exchange.storable import check_returnable
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.context import AttemptContext
from firesteel.adapters.spark.staged.rows import BLOB_LOCATION, staged_rows
from firesteel.model.ids import derived_id
from firesteel.model.tasks import RESULT_FORMAT, SinkCommit

_SCHEMA, _ORIGIN = b"spark.schema", b"firesteel.origin"


def stage_rows(attempt: AttemptContext, frame: Any, directory: Path) -> None:
    """Run the query and write its rows into `directory`, for the worker to put them where the master finds them.

    Raises PipelineRefused for more rows than a result may have, and for columns that can't be returned.
    """
    import pyarrow as pa

    assert attempt.function is not None, "rows are of a function"
    name, identity = attempt.function.name, attempt.deployment.attempt
    table, schema = _fetched(frame, name, attempt.result_max_bytes)
    origin = f"{identity.job_id}/{attempt.name}/{name}"
    table = table.replace_schema_metadata({_SCHEMA: schema.json().encode(), _ORIGIN: origin.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    sha256 = hashlib.sha256(content).hexdigest()
    directory.mkdir(parents=True, exist_ok=True)
    staged_rows(directory, sha256).write_bytes(content)
    attempt.sinks.append(
        SinkCommit(
            commit_id=derived_id("rows", identity.job_id, identity.region, identity.attempt, len(attempt.sinks)),
            vertex_id=attempt.vertex_id,
            function=name,
            format=RESULT_FORMAT,
            mode="return",
            target=sha256,
            staging=f"{BLOB_LOCATION}{sha256}",
            files=(),
            rows=table.num_rows,
            size_bytes=len(content),
        )
    )


def _fetched(frame: Any, name: str, max_bytes: int) -> tuple[Any, Any]:
    """The rows and their Spark schema; stops when they become too many."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    tables, size, schema = [], 0, None
    for part in internals.fetched(frame):
        if isinstance(part, StructType):
            schema = part
            check_returnable(name, schema)
            continue
        size += part.nbytes
        if size > max_bytes:
            raise PipelineRefused(
                f"{name} returns more than {max_bytes >> 20} MiB of rows: return fewer, with limit() or an aggregation;"
                f" or write them with a sink, like fs.write_parquet; or raise the limit, which every result is held"
                f" to, with -D job.result.max-size={max(1, max_bytes >> 18)}m"
            )
        tables.append(part)
    table = pa.concat_tables(tables)
    return table, schema or from_arrow_schema(table.schema, prefer_timestamp_ntz=True)


class ResultRows:
    """The rows that one function of a job has returned, from what `fetch_result` gives."""

    def __init__(self, data: bytes) -> None:
        import pyarrow as pa

        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
        self._schema_json = table.schema.metadata[_SCHEMA].decode()
        self._table = table.replace_schema_metadata(None)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def schema(self) -> Any:
        """A pyspark StructType."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self._schema_json))

    def arrow(self) -> Any:
        """A pyarrow Table, as `toArrow` gives it: timestamps are in UTC."""
        from pyspark.sql.pandas.types import to_arrow_schema

        wanted = to_arrow_schema(self.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
        return self._table.cast(wanted)

    def pandas(self) -> Any:
        """A pandas DataFrame, as `toPandas` gives it: timestamps are in the time zone of the job's session."""
        zones = [field.type.tz for field in self._table.schema if getattr(field.type, "tz", None)]
        return internals.pandas_of(self._table, self.schema, zones[0] if zones else "UTC")

    def rows(self) -> list[Any]:
        """pyspark Rows, as `collect` gives them."""
        return internals.rows_of(self._table, self.schema)

    @property
    def columns(self) -> list[str]:
        return list(self._table.column_names)

    def values(self, limit: int | None = None) -> list[list[Any]]:
        """Plain Python values by column, of the first `limit` rows; needs no PySpark."""
        return [plain_values(column) for column in self._table.slice(0, limit).columns]
