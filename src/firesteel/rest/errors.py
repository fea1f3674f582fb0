"""Errors of a request, as a status and a sentence."""

import errno

from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.model.refusals import (
    CancelRefused,
    DuplicateJob,
    ReadOnly,
    StorageFull,
    StorageUnavailable,
    TooManyJobs,
    UnknownJob,
)
from firesteel.runtime.client import NoLeader, UnknownResult, UnknownTaskManager

NO_LEADER = "Service temporarily unavailable due to an ongoing leader election. Please refresh."


class RestError(Exception):
    """A refusal, mostly the fault of the caller; `message` is one sentence that says what would be right."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def bad_request(message: str) -> RestError:
    return RestError(400, message)


def not_found(message: str) -> RestError:
    return RestError(404, message)


def rest_error(error: Exception) -> RestError | None:
    """The answer to an error that a gateway raises; None when it is a bug."""
    match error:
        case RestError():
            return error
        case UnknownJob():
            return RestError(404, f"Job could not be found: {error}")
        case UnknownResult():
            return RestError(404, str(error))
        case UnknownTaskManager():
            return RestError(404, f"Could not find TaskExecutor: {error}")
        case ReadOnly():
            return RestError(405, str(error))
        case DuplicateJob() | CancelRefused():
            return RestError(409, str(error))
        case TooManyJobs():
            return RestError(429, str(error))
        case InvalidJobGraph():
            return RestError(400, str(error))
        case NoLeader():
            return RestError(503, error.why or NO_LEADER)
        case StorageFull():
            return RestError(507, str(error))
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return RestError(507, f"The master's disk is full ({error}): free some space, then try again.")
        case StorageUnavailable() | ConnectionError():
            return RestError(503, str(error))
        case OSError():
            return RestError(
                500, f"The master can't reach its files or storage ({str(error) or type(error).__name__})."
            )
        case _:
            return None
