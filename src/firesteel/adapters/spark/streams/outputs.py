"""Outputs of Spark's own streaming file sink: its log lies there, and is made to fit before a query of a new job starts.

A query finds in that log the batches that are written, and leaves them out, whoever wrote them and whatever was in them. So
an output with the log of another query would silently lack rows.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.adapters.spark.streams.checkpoints import note_output, note_sink, output_of
from firesteel.adapters.spark.streams.snapshots.errors import OutputRefused, SnapshotError
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointQuery
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.spark.streams.snapshots.savepoints import read_manifest
from firesteel.adapters.spark.streams.snapshots.sinklogs import LOG, put_back
from firesteel.model.streams import SPARK_FILES, StreamOutput, csv_options


class FileOutputs:
    """Of a job's queries. `savepoint` is what the job starts from, or empty; `absolute` makes a path of a given one; `known`
    is told of each output, and refuses what a branch may not write to."""

    def __init__(self, savepoint: str, absolute: Callable[[str], str], known: StreamOutputs) -> None:
        self._savepoint, self._absolute, self._known = savepoint, absolute, known

    def note(self, uid: str, checkpoint: str, writer: Any) -> None:
        """Where the query is going to write, before any of the job's starts. Raises PipelineRefused."""
        mode = internals.output_mode(writer) or "append"
        claimed = self._known.known.get(uid)
        if claimed is None:
            path = self._absolute(internals.file_sink_path(writer))
            claimed = _by_spark(path, writer) if path else StreamOutput(kind=internals.sink_kind(writer))
            self._known.take(uid, claimed)
        note_sink(Path(checkpoint).parent, msgspec.structs.replace(claimed, mode=mode))

    def claim(self, uid: str, checkpoint: str, writer: Any) -> None:
        """Make the log of the output that `writer` has, if it is a file sink's, fit the query that is about to start.

        Once a job: the attempts that come later go on with it. Raises PipelineRefused.
        """
        output = self._absolute(internals.file_sink_path(writer))
        home = Path(checkpoint).parent
        if not output or output_of(home) is not None:
            return
        try:
            if self._fitted(output, self._saved(uid)):
                note_output(home, output)
        except SnapshotError as error:
            raise PipelineRefused(f"sink {uid}: {error}") from error

    def _saved(self, uid: str) -> SavepointQuery | None:
        if not self._savepoint:
            return None
        return next((each for each in read_manifest(self._savepoint).queries if each.uid == uid), None)

    def _fitted(self, output: str, saved: SavepointQuery | None) -> bool:
        """False for an output that can't be looked at from here, which a new query may write to all the same."""
        if "://" in output and not output.startswith("file:"):
            if saved is not None:
                raise OutputRefused(
                    output,
                    "the log of Spark's own file sink is put back in directories only; a query that starts from a savepoint"
                    " writes to such a place with fs.stream_files or foreachBatch",
                )
            return False
        if saved is not None:
            put_back(self._savepoint, saved, output)
        elif (local_path(output) / LOG).exists():
            raise OutputRefused(
                output,
                f"it has a {LOG} of another query, and Spark would take the first batches of this one for written; name an"
                " output that nobody has streamed to, or start from a savepoint of that query (--from-savepoint)",
            )
        return True


def _by_spark(path: str, writer: Any) -> StreamOutput:
    """Spark's own file sink."""
    plain = str(local_path(path)) if "://" not in path or path.startswith("file:") else path
    chosen = internals.sink_kind(writer).lower() or "parquet"
    options = csv_options(internals.sink_options(writer))
    return StreamOutput(kind=SPARK_FILES, place=plain, format=chosen, options=options)
