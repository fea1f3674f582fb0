"""A forked child: waits for its one assignment, does it, and is gone. Never reused."""

import os
import sys
from types import ModuleType
from typing import Any

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.refusals import UserError
from firesteel.adapters.spark.stackdump import write_stacks_on_signal
from firesteel.adapters.spark.streams.snapshots.errors import SnapshotError
from firesteel.adapters.spark.task.entrypoints import resolve
from firesteel.adapters.spark.task.errors import text_of, trace_of
from firesteel.adapters.storage.errors import CommitRefused, TargetUnreachable
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.pipeline import declarations

_SENTENCES = (UserError, SnapshotError, CommitRefused, TargetUnreachable)
"""Errors whose text is all there is to say, to whom it may concern."""


def main(sock: Any) -> None:
    """Serve the assignment that comes over `sock`. Returns when the process may end."""
    channel = wire.ChildChannel(sock)
    match channel.receive():
        case None:
            return
        case wire.RunTask() as task:
            _reseed()
            write_stacks_on_signal()
            from firesteel.adapters.spark.task import process

            process.main(channel, task)
        case wire.CallFunction() as call:
            _reseed()
            declarations.need_no_session()
            channel.send(_call(call))
        case wire.KeepSessions() as keep:
            from firesteel.adapters.spark.task import keeperprocess

            keeperprocess.main(channel, keep.endpoint)
        case other:
            raise AssertionError(f"not an assignment: {other}")


def _call(call: wire.CallFunction) -> wire.CallResult | wire.Failed:
    try:
        return wire.CallResult(resolve(call.entry_point)(call.payload))
    except BaseException as error:
        name, trace = type(error).__name__, trace_of(error)
        text = text_of(error)
        message = text if isinstance(error, _SENTENCES) else f"{name}: {text}"
        failure = FailureInfo(kind=FailureKind.USER, message=message, exception=name, trace=trace)
        return wire.Failed(failure)
    finally:
        sys.stdout.flush()


def _reseed() -> None:
    """Python reseeds `random` after a fork; numpy does not."""
    numpy: ModuleType | None = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
