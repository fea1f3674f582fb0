"""Several outputs of one query of a stream: `fs.fan_out`. docs/sinks.md says what is once.

All files of a batch are written aside before the first output is given any, so that a write that fails leaves none of them
ahead of the others. Each output keeps its own records, as that of `fs.stream_files` does, and each is put right by its own
when the batch is run again.
"""

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.spark.session.context import current_attempt
from firesteel.adapters.spark.sinks.streamfiles import FilesWriter, GivenFiles, StagedBatch, checked_files, take
from firesteel.model.streams import FAN_OUT, FOREACH_BATCH, StreamOutput

_CALL = "fan_out"
_FILES = "to_files"

Selection = Callable[[Any], Any]
BatchFunction = Callable[[Any, int], Any]


@dataclass(frozen=True, slots=True)
class FilesOfBatches:
    """One of the outputs of `fs.fan_out`: see `fs.to_files`."""

    files: GivenFiles
    rows: Selection | None


def to_files(
    path: str,
    format: str = "parquet",
    partition_by: str | Sequence[str] = (),
    rows: Selection | None = None,
    **options: Any,
) -> FilesOfBatches:
    """One of the outputs of `fs.fan_out`: the rows of each batch are added to the directory `path` as files, once, as by
    `fs.stream_files`. `rows` makes of the batch's DataFrame the one that is written. Raises ValueError for what can't be done.
    """
    if rows is not None and not callable(rows):
        raise SinkRefused(
            f"{_FILES}: rows={rows!r} must be a function of the batch, like rows=lambda batch: batch.where(...)"
        )
    return FilesOfBatches(checked_files(_FILES, path, format, partition_by, options), rows)


def fan_out(df: Any, outputs: Mapping[str, FilesOfBatches | BatchFunction]) -> Any:
    """A DataStreamWriter, for the sink of a streaming pipeline to return, that writes each batch of the stream `df` to several
    outputs, in one query: the batch is computed once. `outputs` have names, and are made by `fs.to_files`, or are functions of
    the batch's DataFrame and its number, as those of `foreachBatch`.

    Files are there once, in each of the outputs, as with `fs.stream_files`. Functions are called at least once for each batch,
    with the same rows under the same number. Raises ValueError for what can't be done.
    """
    if not df.isStreaming:
        raise SinkRefused(f"{_CALL} writes a stream, and these rows are none: call an fs.write_* for each output")
    parts = {name: _part(name, each) for name, each in _checked(outputs).items()}
    writers = {name: each.writer for name, each in parts.items() if isinstance(each, _FilesPart)}
    _refuse_one_for_two(writers)
    known = {name: writers[name].output if name in writers else StreamOutput(kind=FOREACH_BATCH) for name in parts}
    take(StreamOutput(kind=FAN_OUT, parts=known), [each.start for each in writers.values()])
    attempt = current_attempt.get()
    if attempt is not None:
        attempt.caches_unseen()
    return df.writeStream.outputMode("append").foreachBatch(_FanOut(parts))


@dataclass(frozen=True, slots=True)
class _FilesPart:
    writer: FilesWriter
    rows: Selection | None

    def write(self, batch: Any, number: int) -> StagedBatch | None:
        rows = batch if self.rows is None else self.rows(batch)
        if not hasattr(rows, "write"):
            raise TypeError(f"rows=... of {_FILES} returned {type(rows).__name__}, and is to return a DataFrame")
        return self.writer.stage(rows, number)


@dataclass(frozen=True, slots=True)
class _FunctionPart:
    function: BatchFunction

    def write(self, batch: Any, number: int) -> None:
        self.function(batch, number)


@dataclass(frozen=True, slots=True)
class _FanOut:
    """Runs beside Spark, in a process of its own: it travels there pickled."""

    parts: Mapping[str, _FilesPart | _FunctionPart]

    def __call__(self, rows: Any, batch: int) -> None:
        staged: dict[str, StagedBatch | None] = {}
        with _computed_once(rows):
            for name, part in self.parts.items():
                with _saying(name):
                    staged[name] = part.write(rows, batch)
        for name, each in staged.items():
            if each is not None:
                with _saying(name):
                    each.publish()


@contextlib.contextmanager
def _computed_once(rows: Any) -> Iterator[None]:
    """What is read of the batch is kept by Spark as long as this lasts. Whoever is killed meanwhile leaves it in Spark's cache,
    which the worker clears when nobody uses that Spark."""
    from pyspark.errors import PySparkException

    rows.persist()
    try:
        yield
    finally:
        with contextlib.suppress(PySparkException):  # what has failed before says more
            rows.unpersist()


@contextlib.contextmanager
def _saying(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"(output {name!r} of fs.{_CALL})")
        raise


def _checked(outputs: Any) -> Mapping[str, FilesOfBatches | BatchFunction]:
    """Raises SinkRefused."""
    if not isinstance(outputs, Mapping) or not outputs:
        raise SinkRefused(f'{_CALL}: outputs have names, as in {{"all": fs.{_FILES}(path), "late": function}}')
    for name, each in outputs.items():
        if not isinstance(name, str) or not name:
            raise SinkRefused(f"{_CALL}: {name!r} is no name of an output")
        if not (isinstance(each, FilesOfBatches) or callable(each)):
            raise SinkRefused(
                f"{_CALL}: output {name!r} is a {type(each).__name__}, and must be made by fs.{_FILES}, or be a function of a"
                " batch's DataFrame and its number"
            )
    return outputs


def _part(name: str, output: FilesOfBatches | BatchFunction) -> _FilesPart | _FunctionPart:
    if isinstance(output, FilesOfBatches):
        return _FilesPart(FilesWriter.of(output.files), output.rows)
    try:
        inspect.signature(output).bind(None, 0)
    except ValueError:  # it has none, as many that are not written in Python
        pass
    except TypeError as error:
        raise SinkRefused(
            f"{_CALL}: the function of output {name!r} is called with a batch's DataFrame and its number, and does not take"
            f" them ({error}); rows=... of fs.{_FILES} takes the DataFrame alone"
        ) from None
    return _FunctionPart(output)


def _refuse_one_for_two(writers: Mapping[str, FilesWriter]) -> None:
    seen: dict[str, str] = {}
    for name, writer in writers.items():
        other = seen.setdefault(os.path.realpath(writer.start.root), name)
        if other != name:
            raise SinkRefused(
                f"{_CALL}: outputs {other!r} and {name!r} would both write to {writer.start.root}: name a directory for each"
            )
