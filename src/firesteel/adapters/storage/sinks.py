"""Staged sink output by URI: made visible (`commit_sink`), or removed (`remove_location`)."""

import logging
from collections.abc import Mapping

import msgspec

from firesteel.adapters.storage.errors import (
    CommitRefused,
    NotTakenBack,
    TargetBusy,
    TargetRefused,
    TargetTaken,
    may_pass,
)
from firesteel.adapters.storage.serving import NOTHING_SET, directories_at, sink_store
from firesteel.adapters.storage.unremoved import forget_unremoved, note_unremoved, unremoved
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.tasks import Committed, SinkCommit
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

FAILURES_MAX = 3
"""Removals that may fail, one after the other, while rows wait to be staged: a storage may be slow to say no."""


def commit_sink(commit: SinkCommit, settings: Mapping[str, str] = NOTHING_SET) -> Committed:
    """Make a staged output visible; idempotent. Raises TaskFailedError. Blocking: call from a thread."""
    try:
        store = sink_store(commit.target, settings)
    except TargetRefused as error:
        raise TaskFailedError(_failure(commit, FailureKind.NON_RECOVERABLE, str(error))) from error
    try:
        return store.commit(commit)
    except CommitRefused as error:
        failure = _failure(commit, FailureKind.NON_RECOVERABLE, str(error))
        raise TaskFailedError(msgspec.structs.replace(failure, stays=isinstance(error, TargetTaken))) from error
    except NotTakenBack as error:
        raise TaskFailedError(_failure(commit, FailureKind.ENVIRONMENT, str(error))) from error
    except OSError as error:
        message = str(error) if isinstance(error, TargetBusy) else store.advice(error, commit.target)
        failure = _failure(commit, FailureKind.ENVIRONMENT, message)
        raise TaskFailedError(msgspec.structs.replace(failure, may_pass=may_pass(error))) from error


def remove_location(location: str, settings: Mapping[str, str] = NOTHING_SET) -> None:
    """Delete a staging or result directory and the staging directories it leaves empty; idempotent. A staged one that can't
    be deleted is noted, for whoever comes by next.

    Raises TaskFailedError.
    """
    try:
        directories_at(location, settings).remove(location)
        forget_unremoved(location)
    except TargetRefused as error:
        failure = FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=str(error))
        raise TaskFailedError(failure) from error
    except OSError as error:
        note_unremoved(location, str(error))
        message = f"{location} was not removed: {error}"
        raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message=message)) from error


def remove_unremoved(above: str, settings: Mapping[str, str] = NOTHING_SET) -> None:
    """Try again what could not be removed before, below a staging directory. Blocking."""
    failures = 0
    for each in unremoved(above):
        try:
            remove_location(each.location, settings)
        except TaskFailedError as error:
            logger.warning("what nobody needs stays: %s", error.failure.message)
            failures += 1
            if failures == FAILURES_MAX:
                return


def _failure(commit: SinkCommit, kind: FailureKind, message: str) -> FailureInfo:
    return FailureInfo(kind=kind, message=message, exception="SinkCommitFailed", vertex=commit.function)
