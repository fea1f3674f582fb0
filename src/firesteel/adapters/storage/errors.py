"""What goes wrong with a storage, as those tell it who are asked for something there."""


class CommitRefused(Exception):
    """The commit can never succeed; the text says what to do."""


class NotTakenBack(OSError):
    """A commit failed, and so did taking back what was visible of it by then: the text says what may be, and what to do."""


class TargetRefused(ValueError):
    """Nothing can be written there; the text names the URI and says what to do."""


class Unusable(OSError):
    """The storage answers, and answers no: wrong credentials, no bucket, no conditional writes. Asking again is no use."""
