"""Queries of an attempt that are stopped: also early, also when one of them will not."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.refusals import PipelineRefused, QueryStopped
from firesteel.adapters.spark.session.streamoutputs import StreamOutputs
from firesteel.adapters.spark.streams import queries
from firesteel.adapters.spark.streams.continuity import Continuity
from firesteel.adapters.spark.streams.outputs import FileOutputs
from firesteel.adapters.spark.streams.queries import StreamingQueries, StreamSink
from firesteel.adapters.spark.wire import RunningQuery
from firesteel.model.jobgraph import Function, FunctionKind


class FakeQuery:
    id, runId = "query", "run"

    def __init__(self, *, stops: bool = True, is_endless: bool = True) -> None:
        self.stops, self.is_running, self.was_stopped = stops, is_endless, False
        self.lastProgress: Any = None
        self.is_known = True

    @property
    def isActive(self) -> bool:
        if not self.is_known:
            raise RuntimeError("query query is not found\n\nJVM stacktrace:\n at somewhere")
        return self.is_running

    def awaitTermination(self, seconds: float) -> bool:
        return not self.is_running

    def stop(self) -> None:
        if not self.stops:
            raise TimeoutError("it would not stop")
        self.is_running, self.was_stopped = False, True


class FakeWriter:
    """A DataStreamWriter, whose queries are endless unless they read what is there."""

    def __init__(self, *, stops: bool = True, refusals: int = 0, late: int = 0, error: Exception | None = None) -> None:
        self.stops, self.available_now, self.refusals, self.late = stops, False, refusals, late
        self.error = error
        self.queries: list[FakeQuery] = []

    def queryName(self, name: str) -> "FakeWriter":
        return self

    def option(self, key: str, value: str) -> "FakeWriter":
        return self

    def trigger(self, **how: Any) -> "FakeWriter":
        self.available_now = how.get("availableNow", False)
        return self

    def start(self) -> FakeQuery:
        if self.refusals:
            self.refusals -= 1
            raise RuntimeError("Cannot start query: another query with same id is already active.")
        if self.late:
            self.late -= 1
            raise RuntimeError("[INTERNAL_ERROR] Python worker failed to connect back.")
        if self.error is not None:
            raise self.error
        self.queries.append(FakeQuery(stops=self.stops, is_endless=not self.available_now))
        return self.queries[-1]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StreamingQueries]:
    monkeypatch.setattr(internals, "file_sink_path", lambda writer: "")
    monkeypatch.setattr(internals, "sink_kind", lambda writer: "console")
    monkeypatch.setattr(internals, "has_trigger", lambda writer: False)
    monkeypatch.setattr(internals, "streamed_plan", lambda writer: "")
    monkeypatch.setattr(internals, "output_mode", lambda writer: "")
    monkeypatch.setattr(internals, "time_zone", lambda writer: "UTC")
    monkeypatch.setattr(internals, "streams_read", lambda writer: [])
    monkeypatch.setattr(internals, "ends_by_itself", lambda writer: writer.available_now)
    monkeypatch.setattr(internals, "refuse_second_run", lambda writer: None)
    monkeypatch.setattr(queries, "POLL_SECONDS", 0.0)

    def make(
        *writers: FakeWriter,
        remake: Callable[[], Sequence[StreamSink]] | None = None,
        may_run: Callable[[bool], None] = lambda yes: None,
    ) -> StreamingQueries:
        sinks = [
            StreamSink(Function(name=f"sink{number}", uid=f"sink{number}", kind=FunctionKind.SINK), writer)
            for number, writer in enumerate(writers)
        ]
        checkpoints = {sink.function.uid: str(tmp_path / sink.function.uid / "0") for sink in sinks}
        for checkpoint in checkpoints.values():
            Path(checkpoint).mkdir(parents=True, exist_ok=True)
        return StreamingQueries(
            sinks,
            checkpoints,
            0,
            continuity=Continuity(""),
            outputs=FileOutputs(str, StreamOutputs()),
            begin=lambda sink: None,
            look=lambda sink: None,
            may_run=may_run,
            remake=remake,
        )

    return make


def test_a_drain_that_comes_first_reads_what_is_there(started: Callable[..., StreamingQueries]) -> None:
    writers = FakeWriter(), FakeWriter()
    made = started(*writers)
    made.stop(drain=True)
    made.start()
    made.follow(lambda progress: None)
    assert [len(writer.queries) for writer in writers] == [1, 1], "each was run once, to its end"
    assert all(writer.available_now for writer in writers)


def test_a_drain_of_running_queries_stops_them_first(started: Callable[..., StreamingQueries]) -> None:
    writer = FakeWriter()
    made = started(writer)
    made.start()
    made.stop(drain=True)
    made.follow(lambda progress: None)
    assert [query.was_stopped for query in writer.queries] == [True, False]


def test_a_stop_that_comes_first_starts_nothing(started: Callable[..., StreamingQueries]) -> None:
    writer = FakeWriter()
    made = started(writer)
    made.stop()
    made.start()
    made.follow(lambda progress: None)
    assert writer.queries == []


def test_one_that_does_not_stop_fails_the_attempt_and_the_others_are_stopped(
    started: Callable[..., StreamingQueries],
) -> None:
    stubborn, other = FakeWriter(stops=False), FakeWriter()
    made = started(stubborn, other)
    made.start()
    made.stop()
    assert other.queries[0].was_stopped
    with pytest.raises(TimeoutError, match="it would not stop"):
        made.follow(lambda progress: None)


def test_nothing_is_claimed_or_started_when_one_of_them_is_refused(
    started: Callable[..., StreamingQueries], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"sink0": tmp_path / "free", "sink1": tmp_path / "taken"}
    (places["sink1"] / "_spark_metadata").mkdir(parents=True)
    writers = FakeWriter(), FakeWriter()
    found = dict(zip(writers, places.values(), strict=True))
    monkeypatch.setattr(internals, "file_sink_path", lambda writer: str(found[writer]))
    monkeypatch.setattr(internals, "sink_options", lambda writer: {})
    made = started(*writers)
    with pytest.raises(PipelineRefused, match=r"sink sink1: .* of another query"):
        made.start()
    assert [writer.queries for writer in writers] == [[], []]
    assert not (tmp_path / "sink0/output").exists()


def test_one_that_somebody_else_stops_fails_the_attempt(started: Callable[..., StreamingQueries]) -> None:
    other, stopped = FakeWriter(), FakeWriter()
    made = started(other, stopped)
    made.start()
    stopped.queries[0].stop()
    with pytest.raises(QueryStopped, match="the query of sink sink1 was stopped, and not by firesteel"):
        made.follow(lambda progress: None)


def test_one_that_reads_what_is_there_has_finished(started: Callable[..., StreamingQueries]) -> None:
    writer = FakeWriter().trigger(availableNow=True)
    made = started(writer)
    made.start()
    made.follow(lambda progress: None)
    assert [query.was_stopped for query in writer.queries] == [False]


def test_one_whose_former_run_has_not_quite_ended_waits_for_it(
    started: Callable[..., StreamingQueries], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = FakeWriter(refusals=2).trigger(availableNow=True)
    started(writer).start()
    assert len(writer.queries) == 1
    monkeypatch.setattr(queries, "SECOND_RUN_SECONDS", 0.0)
    with pytest.raises(QueryStopped, match="another query with its id runs in the same Spark"):
        started(FakeWriter(refusals=9)).start()


def test_one_whose_python_process_is_late_is_started_again(started: Callable[..., StreamingQueries]) -> None:
    """As on a machine that is so busy that Python does not start in ten seconds."""
    writers = FakeWriter(), FakeWriter(late=queries.STARTS_MAX - 1)
    started(*writers).start()
    assert [len(writer.queries) for writer in writers] == [1, 1]
    with pytest.raises(RuntimeError, match="connect back"):
        started(FakeWriter(late=queries.STARTS_MAX)).start()


def told(*, ends: bool = False) -> RunningQuery:
    return RunningQuery(uid="sink0", query_id="query", run_id="run", ends=ends, rows=5, seen="12:00", batch_id=3)


def test_queries_of_another_process_are_followed_as_it_told_of_them(started: Callable[..., StreamingQueries]) -> None:
    made, query = started(FakeWriter()), FakeQuery()
    made.take_over([told()], lambda each: query)
    assert made.running() == (told(),)
    made.stop()
    made.follow(lambda progress: None)
    assert query.was_stopped


def test_one_that_has_ended_meanwhile_has_finished_if_it_was_to(started: Callable[..., StreamingQueries]) -> None:
    made = started(FakeWriter())
    made.take_over([told(ends=True)], lambda each: FakeQuery(is_endless=False))
    made.follow(lambda progress: None)
    made = started(FakeWriter())
    made.take_over([told()], lambda each: FakeQuery(is_endless=False))
    with pytest.raises(QueryStopped, match="was stopped, and not by firesteel"):
        made.follow(lambda progress: None)


def test_one_that_spark_does_not_know_fails_the_attempt(started: Callable[..., StreamingQueries]) -> None:
    query = FakeQuery()
    query.is_known = False
    with pytest.raises(QueryStopped, match="another one can't follow it: query query is not found; it goes on"):
        started(FakeWriter()).take_over([told()], lambda each: query)


def test_a_drain_by_another_process_makes_the_sinks_again(started: Callable[..., StreamingQueries]) -> None:
    writer, query = FakeWriter(), FakeQuery()
    function = Function(name="sink0", uid="sink0", kind=FunctionKind.SINK)
    made = started(FakeWriter(), remake=lambda: [StreamSink(function, writer)])
    made.take_over([told()], lambda each: query)
    made.stop(drain=True)
    made.follow(lambda progress: None)
    assert query.was_stopped
    assert writer.available_now
    assert len(writer.queries) == 1


BY_SPARK = AnalysisException("append mode is not supported without a watermark")


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ((None, None), [True]),
        ((BY_SPARK, None), [True, False]),
        ((None, BY_SPARK), [True]),
        ((RuntimeError("the connection has broken"), None), [True]),
    ],
    ids=["well", "the first", "the second", "it may run"],
)
def test_it_is_told_whether_a_query_may_run(
    started: Callable[..., StreamingQueries], errors: tuple[Exception | None, ...], told: list[bool]
) -> None:
    found: list[bool] = []
    writers = [FakeWriter(error=error) for error in errors]
    made = started(*writers, may_run=lambda yes: found.append(yes or any(each.queries for each in writers)))
    with contextlib.suppress(AnalysisException, RuntimeError):
        made.start()
    assert found == told


def test_it_is_told_before_a_drain_that_came_first(started: Callable[..., StreamingQueries]) -> None:
    found: list[bool] = []
    made = started(FakeWriter(), may_run=found.append)
    made.stop(drain=True)
    made.start()
    assert found == []
    made.follow(lambda progress: None)
    assert found == [True]
