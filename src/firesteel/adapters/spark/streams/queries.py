"""The queries of a streaming attempt, in its task process: started together, followed until all have ended or one fails."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused, QueryStopped
from firesteel.adapters.spark.streams.continuity import Continuity
from firesteel.adapters.spark.streams.outputs import FileOutputs
from firesteel.adapters.spark.streams.snapshots.points import last_committed
from firesteel.adapters.spark.wire import RunningQuery
from firesteel.model.jobgraph import Function
from firesteel.model.streams import AVAILABLE_NOW, QueryProgress

POLL_SECONDS = 0.5
"""Time between two looks at all queries, and so between two reports of their progress."""

_IS_ACTIVE = "another query with same id is already active"
_PYTHON_IS_LATE = "Python worker failed to connect back"
"""In what Spark says why a query could not be started."""

SECOND_RUN_SECONDS = 20.0
"""So long a query waits for another one with its id to end: those of an attempt before end a moment after their session."""

STARTS_MAX = 5
"""Times a query is started whose Python process is late: Spark gives that 10 s, which is too little on a busy machine. Nothing
of the query has begun then, and another attempt would begin all of them again."""

_STOPPED = (
    "the query of sink {uid} was stopped, and not by firesteel: by code of the pipeline, or by somebody else in the same Spark;"
    " it goes on from its last committed batch when it is started again"
)
_LOST = (
    "the task process that had started the query of sink {uid} has died, and another one can't follow it: {error}; it goes on"
    " from its last committed batch when it is started again"
)
_RUNS_ALREADY = (
    "the query of sink {uid} can't start: another query with its id runs in the same Spark, which may be one of another job"
    " from the same savepoint: stop that job, or run this one beside it as a branch (firesteel branch)"
)


@dataclass(frozen=True, slots=True)
class StreamSink:
    """A sink that was called: what it has returned is to be started."""

    function: Function
    writer: Any = None
    """A DataStreamWriter; None of a query that another process has started."""


def stream_sink(function: Function, result: Any) -> StreamSink:
    """The sink of a streaming pipeline. Raises PipelineRefused for what is no DataStreamWriter, and one with checkpoints of its
    own: these would not be used, and a job would read and write all rows once more."""
    if internals.is_stream_writer(result):
        if any(name.lower() == "checkpointlocation" for name in internals.sink_options(result)):
            raise PipelineRefused(
                f"sink {function.name} sets checkpointLocation, and firesteel keeps the checkpoints of its queries itself: leave the"
                " option out; to go on where a job has ended, stop it (firesteel stop, with --drain to have it read what is"
                " there) and start from its savepoint (--from-savepoint)"
            )
        return StreamSink(function, result)
    if internals.is_streaming_query(result):
        raise PipelineRefused(
            f"sink {function.name} has started a query itself: return the writer, without start() or toTable(), for firesteel"
            " gives the query its name and its checkpoint location, then starts it"
        )
    returned = "nothing (None)" if result is None else f"a {type(result).__name__}"
    raise PipelineRefused(
        f"sink {function.name} returned {returned}, and a sink of a streaming pipeline returns a DataStreamWriter, like"
        " `return frame.writeStream.format(...).option(...)`"
    )


def refuse_batch_write(where: str) -> None:
    """Called by each fs.write_*."""
    raise PipelineRefused(
        "fs.write_* writes a batch, and this is a streaming pipeline: a sink returns a DataStreamWriter, like"
        " `return frame.writeStream.format(...)`"
    )


def refuse_stream(function: Function, frame: Any) -> None:
    """Raises PipelineRefused for a source of a batch pipeline that reads a stream."""
    if internals.reads_stream(frame):
        raise PipelineRefused(
            f"source {function.name} reads a stream, and this is a batch pipeline: say"
            ' Pipeline(..., mode="streaming"), or read with spark.read'
        )


def refuse_stream_writer(function: Function, result: Any) -> None:
    """Raises PipelineRefused for a sink of a batch pipeline that would write a stream."""
    if internals.is_stream_writer(result) or internals.is_streaming_query(result):
        raise PipelineRefused(
            f"sink {function.name} writes a stream, and this is a batch pipeline: say"
            ' Pipeline(..., mode="streaming"), or use fs.write_*'
        )


class StreamingQueries:
    """`checkpoints` are by uid. `begin` is told each sink whose query is about to be started or looked at;
    `may_run`, whether any query may run from now on: it is told before the first is started."""

    def __init__(
        self,
        sinks: Sequence[StreamSink],
        checkpoints: Mapping[str, str],
        trigger_ms: int,
        *,
        continuity: Continuity,
        outputs: FileOutputs,
        begin: Callable[[StreamSink], None],
        look: Callable[[StreamSink], None],
        may_run: Callable[[bool], None] = lambda may_run: None,
        remake: Callable[[], Sequence[StreamSink]] | None = None,
    ) -> None:
        """`remake` gives the sinks with their writers, once they are needed, where `sinks` have none."""
        self._sinks, self._checkpoints, self._trigger_ms, self._remake = sinks, checkpoints, trigger_ms, remake
        self._continuity, self._outputs, self._begin, self._look = continuity, outputs, begin, look
        self._may_run = may_run
        self._started: list[_Followed] = []
        self._lock = threading.Lock()
        self._stopping = self._drains = False
        self._not_stopped: Exception | None = None

    def start(self) -> None:
        """Start every query, unless they were stopped before. Raises PipelineRefused before any has started, and before any
        output is claimed, when one of them can't go on from the state, or with the output, that is there."""
        self._prepare()
        for sink in self._sinks:
            self._begin(sink)
            with self._lock:
                if not self._stopping:
                    self._started.append(self._first(sink) if not self._started else self._followed(sink))

    def take_over(self, running: Sequence[RunningQuery], query_of: Callable[[RunningQuery], Any]) -> None:
        """Follow queries that a process before this one has started, those that have ended meanwhile, too. Raises
        QueryStopped where Spark knows nothing of one."""
        sinks = {sink.function.uid: sink for sink in self._sinks}
        for each in running:
            query = query_of(each)
            try:
                _ = query.isActive
            except Exception as error:
                cause = str(error).split("\n\nJVM stacktrace:", maxsplit=1)[0]
                raise QueryStopped(_LOST.format(uid=each.uid, error=cause)) from error
            self._started.append(_Followed.again(sinks[each.uid], query, self._checkpoints[each.uid], each))

    def running(self) -> tuple[RunningQuery, ...]:
        """What it takes to follow them from another process."""
        return tuple(each.told() for each in self._started)

    def queries(self) -> tuple[Any, ...]:
        """Those that were started, as PySpark has them."""
        return tuple(each.query for each in self._started)

    def _prepare(self) -> None:
        steps = self._outputs.note, self._continuity.check, self._outputs.check, self._outputs.claim
        for step in steps:
            for sink in self._sinks:
                self._begin(sink)
                step(sink.function.uid, self._checkpoints[sink.function.uid], sink.writer)
        for sink in self._sinks:
            checkpoint = self._checkpoints[sink.function.uid]
            writer = sink.writer.queryName(sink.function.uid).option("checkpointLocation", checkpoint)
            if not internals.has_trigger(writer):
                _set_trigger(writer, self._trigger_ms)

    def follow(self, report: Callable[[tuple[QueryProgress, ...]], None]) -> None:
        """Return when all have ended; raise the error of the one that fails first, or QueryStopped when one has ended that
        was to go on."""
        self._until_ended(report)
        if self._drains:
            if self._remake is not None:
                self._sinks = self._remake()
                self._prepare()
            self._may_run(True)
            known = {each.sink.function.uid: each for each in self._started}
            for sink in self._sinks:  # also of those that were told to stop before they were started
                self._begin(sink)
                sink.writer.trigger(availableNow=True)
                followed = self._followed(sink)
                if sink.function.uid in known:
                    known[sink.function.uid].query = followed.query
                else:
                    self._started.append(followed)
            self._until_ended(report)

    def _first(self, sink: StreamSink) -> "_Followed":
        """The same, of a query before which none was started."""
        from pyspark.errors import AnalysisException

        self._may_run(True)
        try:
            return self._followed(sink)
        except AnalysisException:  # Spark has said no to the query, before it has begun with it
            self._may_run(False)
            raise

    def _followed(self, sink: StreamSink) -> "_Followed":
        """Its query, started. Raises QueryStopped where one with its id runs, and goes on running."""
        uid, give_up, starts = sink.function.uid, time.monotonic() + SECOND_RUN_SECONDS, 0
        internals.refuse_second_run(sink.writer)
        while True:
            try:
                starts += 1
                query = sink.writer.start()
            except Exception as error:
                if starts < STARTS_MAX and _PYTHON_IS_LATE in str(error):
                    continue
                if _IS_ACTIVE not in str(error):
                    raise
                if time.monotonic() > give_up:
                    raise QueryStopped(_RUNS_ALREADY.format(uid=uid)) from error
                time.sleep(POLL_SECONDS)
            else:
                return _Followed(sink, query, self._checkpoints[uid], internals.ends_by_itself(sink.writer))

    def _until_ended(self, report: Callable[[tuple[QueryProgress, ...]], None]) -> None:
        running = list(self._started)
        while running:
            if self._not_stopped is not None:
                raise self._not_stopped
            for each in tuple(running):
                self._look(each.sink)
                if each.query.awaitTermination(POLL_SECONDS / len(running)):
                    if not (each.ends or self._stopping):
                        raise QueryStopped(_STOPPED.format(uid=each.sink.function.uid))
                    running.remove(each)
            report(tuple(each.progress() for each in self._started))

    def stop(self, *, drain: bool = False) -> None:
        """Stop all of them; a batch in flight is abandoned. With `drain` they then read what is there, to their end. From
        any thread; what was said first counts. One that can't be stopped fails the attempt, whose next one is told again."""
        with self._lock:
            if self._stopping:
                return
            self._stopping, self._drains = True, drain
            started = tuple(self._started)
        for each in started:
            try:
                each.query.stop()
            except Exception as error:
                self._not_stopped = error


@dataclass(slots=True)
class _Followed:
    """A query, and what was seen of it."""

    sink: StreamSink
    query: Any
    checkpoint: str
    ends: bool = False
    """By itself, when it has read what is there."""
    _rows: int = 0
    _seen: str = ""
    """Timestamp of the newest progress that was counted."""
    _batch_id: int = field(default=-1)

    @staticmethod
    def again(sink: StreamSink, query: Any, checkpoint: str, told: RunningQuery) -> "_Followed":
        """As another process has `told` of it."""
        return _Followed(sink, query, checkpoint, told.ends, told.rows, told.seen, told.batch_id)

    def told(self) -> RunningQuery:
        return RunningQuery(
            uid=self.sink.function.uid,
            query_id=self.query.id,
            run_id=self.query.runId,
            ends=self.ends,
            rows=self._rows,
            seen=self._seen,
            batch_id=self._batch_id,
        )

    def progress(self) -> QueryProgress:
        uid = self.sink.function.uid
        last = self.query.lastProgress
        if last is None:
            return QueryProgress(uid=uid, batch_id=_committed(self.checkpoint))
        self._count(last)
        states = last.stateOperators
        return QueryProgress(
            uid=uid,
            batch_id=_committed(self.checkpoint),
            input_rows=self._rows,
            input_rows_per_second=_figure(last.inputRowsPerSecond),
            processed_rows_per_second=_figure(last.processedRowsPerSecond),
            batch_duration_ms=int(last.durationMs.get("triggerExecution", -1)),
            state_rows=sum(each.numRowsTotal for each in states) if states else -1,
            state_bytes=sum(each.memoryUsedBytes for each in states) if states else -1,
            watermark_ms=_milliseconds(last.eventTime.get("watermark", "")),
        )

    def _count(self, last: Any) -> None:
        """Add the rows of what is new. Spark tells of a query that is idle under the number of the batch to come, so
        what tells them apart is the time."""
        several = last.batchId > self._batch_id + 1
        for each in self.query.recentProgress if several else [last]:
            if each.timestamp > self._seen:
                self._rows += each.numInputRows
                self._seen, self._batch_id = each.timestamp, each.batchId


def _committed(checkpoint: str) -> int:
    batch = last_committed(checkpoint)
    return -1 if batch is None else batch


def _set_trigger(writer: Any, trigger_ms: int) -> None:
    if trigger_ms == AVAILABLE_NOW:
        writer.trigger(availableNow=True)
    elif trigger_ms:
        writer.trigger(processingTime=f"{trigger_ms} milliseconds")


def _figure(value: float) -> float:
    """Spark's NaN and infinity, of batches that took no time, are no figures."""
    return round(value, 3) if 0 <= value < float("inf") else 0.0


def _milliseconds(text: str) -> int:
    """-1 for an empty text."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000) if text else -1
