"""Files from a stream, each batch once: `fs.stream_files`. docs/sinks.md says what readers see.

Spark runs a batch again that it has not noted as committed, and runs older ones after a restore. So what counts is not what
was written, but what the records of the output name (`adapters.storage.batchfiles`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.spark.session.context import current_attempt
from firesteel.adapters.spark.sinks import writeroptions
from firesteel.adapters.storage.batchclaims import Start
from firesteel.adapters.storage.batchfiles import BatchFiles
from firesteel.adapters.storage.localdirectories import written_path
from firesteel.model.streams import STREAM_FILES, StreamOutput, csv_options

_CALL = "stream_files"
FORMATS = ("parquet", "csv", "json", "orc")


def stream_files(
    df: Any, path: str, format: str = "parquet", partition_by: str | Sequence[str] = (), **options: Any
) -> Any:
    """A DataStreamWriter, for the sink of a streaming pipeline to return, that adds the rows of each batch to the directory
    `path` as files, once: also when a batch is run again, the query goes on from an older savepoint, or one that was taken
    for dead still writes. Relative paths start where `firesteel` was started. `options` are those of Spark's writer.

    Of a query that starts from a savepoint, batches after that are replaced; the directory of another query is refused, before
    any query of the job starts, and outside of a pipeline when the first batch is written. Raises ValueError for what can't
    be done.
    """
    if format not in FORMATS:
        raise SinkRefused(f"{_CALL}: format={format!r} is none of {', '.join(FORMATS)}")
    if not df.isStreaming:
        raise SinkRefused(f"{_CALL} writes a stream, and these rows are none: use fs.write_{format}")
    keys = writeroptions.checked_columns(_CALL, "partition_by", partition_by)
    given = writeroptions.checked_options(_CALL, format, options)
    attempt = current_attempt.get()
    if attempt is None:
        start, checkpoint = Start(_directory(path, Path.cwd())), ""
        start.claim()
    else:
        assert attempt.function is not None, "a sink runs inside a function"
        identity = attempt.deployment.attempt
        place = _directory(path, attempt.client_directory)
        there = StreamOutput(kind=STREAM_FILES, place=str(place), format=format, options=csv_options(given))
        start = Start(place, identity.job_id, identity.attempt)
        attempt.outputs.take(attempt.function.uid, there, start)  # who claims it, when all queries may start
        checkpoint = attempt.checkpoints.get(attempt.function.uid, "")
    writer = _BatchWriter(start, checkpoint, format, tuple(keys), given)
    return df.writeStream.outputMode("append").foreachBatch(writer)


@dataclass(frozen=True)
class _BatchWriter:
    """Runs beside Spark, in a process of its own: it travels there pickled."""

    start: Start
    checkpoint: str
    """The query's, whose id tells which query it is. Empty outside a pipeline."""
    format: str
    keys: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, rows: Any, batch: int) -> None:
        output = BatchFiles.of(self.start)
        staging = output.begin(batch, self._query_id())
        writer = rows.write.mode("overwrite").format(self.format).options(**self.options)
        (writer.partitionBy(*self.keys) if self.keys else writer).save(str(staging))
        output.commit(batch, staging)

    def _query_id(self) -> str:
        if not self.checkpoint:
            return ""
        return str(json.loads((Path(self.checkpoint) / "metadata").read_text())["id"])


def _directory(path: str, start: Path) -> Path:
    scheme, plain = written_path(path)
    if scheme not in ("", "file"):
        raise SinkRefused(
            f"{_CALL}: {path} is no directory of this machine: name a path or a file: URI that all workers share, or write"
            " with foreachBatch"
        )
    return start / plain
