"""What goes wrong with a storage, as those tell it who are asked for something there."""

import errno


class CommitRefused(Exception):
    """The commit can never succeed; the text says what to do."""


class TargetTaken(CommitRefused):
    """In mode `error`: others have written the target since, and stay; so nobody needs to try again."""

    def __init__(self, what: str, other: str = "path") -> None:
        super().__init__(f"{what}; use mode='overwrite' or 'append', or another {other}")


class NotTakenBack(OSError):
    """A commit failed, and so did taking back what was visible of it by then: the text says what may be, and what to do."""


class TargetBusy(OSError):
    """Somebody else commits to the target, and did all the time that this one waited; the text says who."""


class TargetUnreachable(OSError):
    """What the target is in does not answer, and did not all the time that it was asked."""


class TargetRefused(ValueError):
    """Nothing can be written there; the text names the URI and says what to do."""


class Unusable(OSError):
    """The storage answers, and answers no: wrong credentials, no bucket, no conditional writes. Asking again is no use."""


_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.ETIMEDOUT, errno.ESTALE, errno.EHOSTDOWN, errno.ENOTCONN)
_LASTING = (Unusable, NotTakenBack, FileNotFoundError, FileExistsError, PermissionError)


def may_pass(error: OSError) -> bool:
    """Whether the same may go well in a minute: others leave, somebody makes room, a server comes back."""
    if error.errno is None:
        return not isinstance(error, _LASTING)  # stores that are asked over a network say what they know in words
    return error.errno in _PASSING
