"""A user's own sink, in two phases: its `write` runs in the attempt, its `commit` when the whole job has succeeded."""

import sys
from typing import Any, Protocol

import msgspec

from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.spark.session.context import AttemptContext, RuntimeContext, current_attempt
from firesteel.adapters.spark.session.interpreter import use_interpreter
from firesteel.adapters.spark.shares.guard import ANYWHERE
from firesteel.adapters.spark.staged.references import TWO_PHASE_SCHEME, SinkWork, WrittenByUser, decode, encode
from firesteel.model.tasks import Committed, SinkCommit

COMMITTABLE_BYTES_MAX = 1024 * 1024


class TwoPhaseSink(Protocol):
    """A sink for `write_two_phase`: any picklable object with these methods."""

    def write(self, df: Any, context: RuntimeContext) -> Any:
        """Write where no reader looks, under a name made of `context` (job_id, subtask, attempt), and return what
        `commit` needs to know: JSON values or bytes, 1 MiB at the most."""

    def commit(self, committables: list[Any]) -> None:
        """Make visible what all subtasks have written. May be called again for the same, and must then do nothing."""

    def abort(self, committables: list[Any]) -> None:
        """Remove what was written and will not be committed. May be called again, or not at all."""


def write_two_phase(df: Any, sink: TwoPhaseSink) -> None:
    """Write `df` with a sink of your own, to be committed with the job.

    `sink.write(df, context)` is called here. When all regions of the job have finished, `sink.commit([...])` is called
    in a process on a worker, again and again until it has returned once; `sink.abort([...])` when the attempt or the job
    fails. The sink travels pickled with what `write` returned. Outside a pipeline it is committed at once.
    """
    for method in ("write", "commit", "abort"):
        if not callable(getattr(sink, method, None)):
            raise SinkRefused(f"write_two_phase: {type(sink).__name__} has no method {method}()")
    with current_attempt.writing() as attempt:
        if attempt is None:
            alone = RuntimeContext(job_id="", job_name="", attempt=0, subtask=0, parallelism=1, parameters={})
            sink.commit([sink.write(df, alone)])
        else:
            _stage(attempt, df, sink)


def _stage(attempt: AttemptContext, df: Any, sink: TwoPhaseSink) -> None:
    assert attempt.runtime is not None, "a sink runs inside a function"
    assert attempt.function is not None, "a sink runs inside a function"
    attempt.allow_write(ANYWHERE)
    try:
        committable = _encoded(sink, sink.write(df, attempt.runtime))
    finally:
        attempt.withdraw_write(ANYWHERE)
    reference = encode(
        TWO_PHASE_SCHEME,
        WrittenByUser(
            job_id=attempt.deployment.attempt.job_id,
            artifacts=attempt.artifacts,
            python_executable=attempt.python_executable,
            sink=_pickled(sink),
            committable=committable,
        ),
    )
    attempt.report_staging(reference)
    attempt.sinks.append(
        SinkCommit(
            commit_id=attempt.new_commit_id(),
            vertex_id=attempt.vertex_id,
            function=attempt.function.name,
            format="two-phase",
            mode="commit",
            target=type(sink).__name__,
            staging=reference,
            files=(),
        )
    )


def perform(payload: bytes) -> bytes:
    """Commit, or abort, what a SinkWork names. Run in a process of its own; raises what the user's code raises."""
    work = msgspec.json.decode(payload, type=SinkWork)
    sys.path[:0] = work.code
    if work.interpreter:
        use_interpreter(work.interpreter, work.python_executable)
    written = [decode(reference, WrittenByUser) for reference in work.references]
    committables = [msgspec.msgpack.decode(each.committable) for each in written]
    sink = _unpickled(written[0].sink)
    if not work.commit_id:
        sink.abort(committables)
        return b""
    sink.commit(committables)
    return msgspec.json.encode(Committed())


def _encoded(sink: TwoPhaseSink, committable: Any) -> bytes:
    call = f"{type(sink).__name__}.write()"
    try:
        data = msgspec.msgpack.encode(committable)
    except (TypeError, ValueError, OverflowError) as error:
        raise SinkRefused(f"{call} returned what is neither JSON nor bytes: {error}") from None
    if len(data) > COMMITTABLE_BYTES_MAX:
        raise SinkRefused(
            f"{call} returned {len(data):,} bytes, and the limit is {COMMITTABLE_BYTES_MAX:,}: write the rest to where"
            " commit() finds it, and return its name"
        )
    return data


def _pickled(sink: TwoPhaseSink) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(sink))


def _unpickled(data: bytes) -> TwoPhaseSink:
    import cloudpickle

    sink: TwoPhaseSink = cloudpickle.loads(data)
    return sink
