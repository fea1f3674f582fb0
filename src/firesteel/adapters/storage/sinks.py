"""Staged sink output by URI: made visible (`commit_sink`), or removed (`remove_location`)."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from firesteel.adapters.storage import local
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.tasks import SinkCommit
from firesteel.runtime.ports import TaskFailedError


def commit_sink(commit: SinkCommit) -> str:
    """Make a staged output visible; idempotent. Returns what its job is to be told. Raises TaskFailedError. Blocking: call
    from a thread."""
    target, staging = _local(commit.target), _local(commit.staging)
    try:
        return local.commit(commit, target, staging)  # all parts are staged beside one target, so on one file system
    except local.CommitRefused as error:
        raise TaskFailedError(_failure(commit, FailureKind.NON_RECOVERABLE, str(error))) from error
    except OSError as error:
        raise TaskFailedError(_failure(commit, FailureKind.ENVIRONMENT, local.advice(error, target))) from error


def remove_location(location: str) -> None:
    """Delete a staging or result directory and the staging directories it leaves empty; idempotent."""
    local.remove(_local(location))


def _local(location: str) -> Path:
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        message = f"{parts.scheme}:// is not supported yet for sinks, only local paths: {location}"
        raise TaskFailedError(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=message))
    return Path(unquote(parts.path) if parts.scheme == "file" else location)


def _failure(commit: SinkCommit, kind: FailureKind, message: str) -> FailureInfo:
    return FailureInfo(kind=kind, message=message, exception="SinkCommitFailed", vertex=commit.function)
