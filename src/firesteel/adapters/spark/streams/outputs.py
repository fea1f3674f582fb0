"""Outputs of a job's queries: all are looked at, then all are claimed, then the first query starts.

Spark's own file sink has its log there. A query finds in it the batches that are written, and leaves them out, whoever wrote
them and whatever was in them: an output with the log of another query would silently lack rows, so the log is made to fit
before a query of a new job starts. A claim of a directory of `fs.stream_files` or `fs.fan_out` ends the
query that writes there.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.adapters.spark.streams.inheritance import kept, log_beside
from firesteel.adapters.spark.streams.notes import claimed_by, note_claimed, note_output, note_sink, output_of, sink_of
from firesteel.adapters.spark.streams.snapshots.errors import OutputRefused, SnapshotError
from firesteel.adapters.spark.streams.snapshots.fences import is_planned
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointQuery
from firesteel.adapters.spark.streams.snapshots.points import last_committed, local_path, query_id_of
from firesteel.adapters.spark.streams.snapshots.sinklogs import LOG, check_fit, last_written, put_back
from firesteel.adapters.storage.batchclaims import generations_of
from firesteel.adapters.storage.batchfiles import check_history
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.model.streams import FOREACH_BATCH, SPARK_FILES, StreamOutput, csv_options

_UNBORN = "?"
"""Of a query that has no id yet: it is no query that has written anything."""


class FileOutputs:
    """Of a job's queries. `absolute` makes a path of a given one; `known` is told of each output, and refuses what a branch may
    not write to. Of the savepoint that the job starts from is known what is kept beside the checkpoints."""

    def __init__(self, absolute: Callable[[str], str], known: StreamOutputs) -> None:
        self._absolute, self._known = absolute, known

    def note(self, uid: str, checkpoint: str, writer: Any) -> None:
        """Where the query is going to write, before any of the job's starts. Raises PipelineRefused."""
        for _, places, options in internals.streams_read(writer) if self._known.is_branch else ():
            self._known.check_source(uid, places, {name.lower(): value for name, value in options.items()})
        mode = internals.output_mode(writer) or "append"
        claimed = self._known.known.get(uid)
        if claimed is not None and (told := internals.told_of_files(writer)):
            raise PipelineRefused(
                f"sink {uid}: {told[0]}(...) of a writer that fs.stream_files or fs.fan_out has returned does nothing: their"
                " arguments say how files are written (format, partition_by, and the options of Spark's writer)"
            )
        if claimed is None:
            path, kind = self._absolute(internals.file_sink_path(writer)), internals.sink_kind(writer)
            if kind == FOREACH_BATCH and "partitionBy" in internals.told_of_files(writer):
                raise PipelineRefused(
                    f"sink {uid}: a writer with foreachBatch has no partitionBy(...): what the function writes a batch with"
                    " says how it is partitioned"
                )
            claimed = _by_spark(path, writer) if path else StreamOutput(kind=kind)
            self._known.take(uid, claimed)
        home = Path(checkpoint).parent
        note_sink(home, claimed.with_mode(mode))
        for other in home.parent.iterdir():  # also of those that other workers run: of two, one sees the other
            theirs = sink_of(other)
            if theirs is not None:
                self._known.refuse_one_for_two((uid, claimed), (other.name, theirs))

    def check(self, uid: str, checkpoint: str, writer: Any) -> None:
        """Whether the query can write to its output, in which nothing is changed yet. Raises PipelineRefused."""
        try:
            if starts := self._known.starts.get(uid):
                query_id, batch = query_id_of(checkpoint) or _UNBORN, _next_batch(checkpoint)
                for start in starts:
                    check_history(start.root, batch, query_id)
                    _check_there(Path(checkpoint).parent, start.root, batch)
            elif output := self._unfitted(checkpoint, writer):
                _check_log(output, checkpoint, kept(Path(checkpoint).parent))
            elif known := output_of(Path(checkpoint).parent):
                _check_own(known, checkpoint)
        except (SnapshotError, TargetRefused) as error:
            raise PipelineRefused(f"sink {uid}: {error}") from error

    def claim(self, uid: str, checkpoint: str, writer: Any) -> None:
        """Have the query's output be its own from here on; make the log of Spark's own file sink fit it.

        The log once a job: the attempts that come later go on with it. Raises PipelineRefused, or Superseded.
        """
        for start in self._known.starts.get(uid, ()):
            first_batch = 0 if generations_of(start.root) else _next_batch(checkpoint)
            start.claim()
            note_claimed(Path(checkpoint).parent, start.root, first_batch)
        output = self._unfitted(checkpoint, writer)
        try:
            if output and is_directory(output):
                home = Path(checkpoint).parent
                saved = kept(home)
                if saved is not None:
                    put_back(log_beside(home), saved, output)
                note_output(home, output)
        except SnapshotError as error:
            raise PipelineRefused(f"sink {uid}: {error}") from error

    def _unfitted(self, checkpoint: str, writer: Any) -> str:
        """The output of Spark's own file sink, if no query of the job has written there yet; else empty."""
        output = self._absolute(internals.file_sink_path(writer))
        return output if output and output_of(Path(checkpoint).parent) is None else ""


def _check_log(output: str, checkpoint: str, saved: SavepointQuery | None) -> None:
    """An output that can't be looked at from here, a new query may write to all the same. Raises a SnapshotError."""
    if saved is not None:
        if not is_directory(output):
            raise OutputRefused(
                output,
                "the log of Spark's own file sink is put back in directories only; a query that starts from a savepoint"
                " writes to such a place with fs.stream_files or foreachBatch",
            )
        check_fit(log_beside(Path(checkpoint).parent), saved, output)
        _check_others(output, checkpoint, saved)
    elif is_directory(output) and (local_path(output) / LOG).exists():
        raise OutputRefused(
            output,
            f"it has a {LOG} of another query, and Spark would take the first batches of this one for written; name an"
            " output that nobody has streamed to, or start from a savepoint of that query (--from-savepoint)",
        )


def _check_own(output: str, checkpoint: str) -> None:
    """Of an attempt that goes on: what the log has was planned by an attempt before. Raises OutputRefused."""
    following = _next_batch(checkpoint)
    known = following if is_planned(local_path(checkpoint), following) else following - 1
    written = last_written(output)
    if written > known:
        raise OutputRefused(
            output,
            f"its {LOG} has batches up to {written}, and this query has planned none after {known}: another query writes"
            " there, or the checkpoints were replaced, and Spark would leave out batches with those numbers; start from a"
            " savepoint (--from-savepoint), or name a new output",
        )


def _check_there(home: Path, root: Path, batch: int) -> None:
    """Of an attempt that goes on with `batch`: a directory that an earlier one has claimed is empty when somebody has emptied
    it. Raises TargetRefused."""
    if batch > claimed_by(home).get(str(root), batch) and not generations_of(root):
        raise TargetRefused(
            f"the output {root} was deleted while the query ran, or this worker has another directory by that name: its"
            f" batches up to {batch - 1} are gone; put it back and start from the job's last checkpoint (--from-savepoint), or"
            " submit the job anew"
        )


def _check_others(output: str, checkpoint: str, saved: SavepointQuery) -> None:
    """Of a query that starts from a savepoint, and would take out of the log what was written since. Raises OutputRefused."""
    home, planned = Path(checkpoint).parent, is_planned(local_path(checkpoint), saved.point.batch + 1)
    written = last_written(output)
    if written <= saved.point.batch + planned:
        return
    place = os.path.realpath(local_path(output))
    for other in sorted(home.parent.parent.glob("*/*")):
        theirs = output_of(other) if other.is_dir() and other.parent != home.parent else None
        if theirs is not None and os.path.realpath(local_path(theirs)) == place:
            raise OutputRefused(
                output,
                f"batches up to {written} were written there since, by sink {other.name} of job {other.parent.name}, which"
                f" writes there: stop that job, or name a new output (if it has ended, delete {other})",
            )


def is_directory(output: str) -> bool:
    """Whether it is a path or a `file:` URI."""
    return "://" not in output or output.startswith("file:")


def _next_batch(checkpoint: str) -> int:
    batch = last_committed(checkpoint)
    return 0 if batch is None else batch + 1


def _by_spark(path: str, writer: Any) -> StreamOutput:
    """Spark's own file sink."""
    plain = str(local_path(path)) if is_directory(path) else path
    chosen = internals.sink_kind(writer).lower() or "parquet"
    options = csv_options(internals.sink_options(writer))
    return StreamOutput(kind=SPARK_FILES, place=plain, format=chosen, options=options)
