"""Answers of a cluster that does not do what it was asked; raised where the answer arrives."""


class UnknownJob(LookupError):
    """The caller's fault: no job of that id is known here."""


class DuplicateJob(ValueError):
    """The caller's fault: a job of that id is known already."""


class CancelRefused(RuntimeError):
    """Nobody's fault: the job is past the point at which it could be cancelled, and goes on; the text says why."""


class TooManyJobs(RuntimeError):
    """The cluster is full: as many jobs as it takes have not ended yet."""


class StorageFull(RuntimeError):
    """The master's disk has no room for the job's artifacts: nothing of it was taken."""


class StorageUnavailable(RuntimeError):
    """The store's fault. A job that was handed in may be durable or not: the same submission may be repeated, and tells.
    Also while the store still has something of a former job of that id."""


class ReadOnly(PermissionError):
    """The caller's fault: what was asked changes something, and here nothing can be changed."""


class UnknownTaskManager(LookupError):
    """The caller's fault: no worker of that id is registered."""


class NoAnswer(ConnectionError):
    """Nobody's fault, or the worker's: it has gone, is silent, or has too much to answer."""


class CheckpointFailed(RuntimeError):
    """A checkpoint was not taken; the text says why."""


class SavepointFailed(RuntimeError):
    """A savepoint could not be taken, restored or disposed of; the text says why and whose fault it is. The job goes on."""
