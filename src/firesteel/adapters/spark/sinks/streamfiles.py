"""Files from a stream, each batch once: `fs.stream_files`. docs/sinks.md says what readers see.

Spark runs a batch again that it has not noted as committed, and runs older ones after a restore. So what counts is not what
was written, but what the records of the output name (`adapters.storage.batchfiles`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
_PLANS = "offsets"
"""Where Spark keeps what it has planned, in a checkpoint: a file for each batch."""


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
    given = checked_files(_CALL, path, format, partition_by, options)
    if not df.isStreaming:
        raise SinkRefused(f"{_CALL} writes a stream, and these rows are none: use fs.write_{format}")
    writer = FilesWriter.of(given)
    take(writer.output, [writer.start])
    return df.writeStream.outputMode("append").foreachBatch(writer)


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """Arguments that were looked at: of files that batches are to become."""

    call: str
    path: str
    format: str
    keys: tuple[str, ...]
    options: Mapping[str, str]


def checked_files(
    call: str, path: str, format: str, partition_by: str | Sequence[str], options: Mapping[str, Any]
) -> GivenFiles:
    """Raises SinkRefused."""
    if format not in FORMATS:
        raise SinkRefused(f"{call}: format={format!r} is none of {', '.join(FORMATS)}")
    keys = writeroptions.checked_columns(call, "partition_by", partition_by)
    return GivenFiles(call, path, format, keys, writeroptions.checked_options(call, format, options))


def take(output: StreamOutput, starts: Sequence[Start]) -> None:
    """The sink that is being called writes there: it claims that when all queries may start; outside of a pipeline, now."""
    attempt = current_attempt.get()
    if attempt is None:
        for start in starts:
            start.claim()
    else:
        assert attempt.function is not None, "a sink runs inside a function"
        attempt.outputs.take(attempt.function.uid, output, starts)


@dataclass(frozen=True, slots=True)
class FilesWriter:
    """Makes batches files of a directory. It runs beside Spark, in a process of its own: it travels there pickled."""

    start: Start
    checkpoint: str
    """The query's, whose id tells which query it is. Empty outside a pipeline."""
    format: str
    keys: tuple[str, ...]
    options: Mapping[str, str]

    @classmethod
    def of(cls, given: GivenFiles) -> "FilesWriter":
        """For the sink that is being called. Raises SinkRefused."""
        attempt = current_attempt.get()
        if attempt is None:
            start, checkpoint = Start(_directory(given, Path.cwd())), ""
        else:
            assert attempt.function is not None, "a sink runs inside a function"
            identity = attempt.deployment.attempt
            job = f"{identity.job_id}-{attempt.instant_ms}"  # a later job may have the id of a former one
            start = Start(_directory(given, attempt.client_directory), job, identity.attempt)
            checkpoint = attempt.checkpoints.get(attempt.function.uid, "")
        return cls(start, checkpoint, given.format, given.keys, given.options)

    @property
    def output(self) -> StreamOutput:
        """Where it writes."""
        place, options = str(self.start.root), csv_options(self.options)
        return StreamOutput(kind=STREAM_FILES, place=place, format=self.format, options=options)

    def __call__(self, rows: Any, batch: int) -> None:
        self.stage(rows, batch).publish()

    def stage(self, rows: Any, batch: int) -> "StagedBatch":
        """Write the batch where no reader looks. Raises Superseded, TargetRefused."""
        output, query_id = BatchFiles.of(self.start), self._query_id()
        planned = self._planned(batch, query_id)
        staging = output.begin(batch, query_id, planned)
        writer = rows.write.mode("overwrite")
        if output.is_there(batch, planned):
            writer.format("noop").save()  # the state that it has, and what code does by the way, are this attempt's
            return StagedBatch(output, batch, None, planned)
        writer = writer.format(self.format).options(**self.options)
        (writer.partitionBy(*self.keys) if self.keys else writer).save(str(staging))
        return StagedBatch(output, batch, staging, planned)

    def _query_id(self) -> str:
        if not self.checkpoint:
            return ""
        return str(json.loads((Path(self.checkpoint) / "metadata").read_text())["id"])

    def _planned(self, batch: int, query_id: str) -> str:
        """A digest of what Spark has planned the batch to be, before it has begun. Attempts of a job share such plans, and a
        savepoint has that of the batch after it."""
        if not self.checkpoint:
            return ""
        try:
            plan = (Path(self.checkpoint) / _PLANS / str(batch)).read_bytes()
        except FileNotFoundError:  # Spark may be told to write plans later
            return ""
        return hashlib.sha256(query_id.encode() + plan).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """A batch that is written, and to be seen. `staging` is None when it is to be seen already."""

    output: BatchFiles
    batch: int
    staging: Path | None
    planned: str

    def publish(self) -> None:
        """In place of what there is of it. Raises Superseded."""
        if self.staging is not None:
            self.output.commit(self.batch, self.staging, self.planned)


def _directory(given: GivenFiles, start: Path) -> Path:
    scheme, plain = written_path(given.path)
    if scheme not in ("", "file"):
        raise SinkRefused(
            f"{given.call}: {given.path} is no directory of this machine: name a path or a file: URI that all workers share,"
            " or write with foreachBatch"
        )
    return start / plain
