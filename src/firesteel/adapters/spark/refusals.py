"""Errors of the pipeline's author that a task process finds."""


class UserError(Exception):
    """The pipeline's author's fault; the text is the message to show."""


class PipelineRefused(UserError):
    """Running it again can't help: the pipeline itself has to change."""


class NeedsAllRows(PipelineRefused):
    """What a function does is right on all rows only, not on each share of them."""


class SinkRefused(PipelineRefused, ValueError):
    """An `fs.write_*` was asked for what can't be done."""


class TargetExists(PipelineRefused, FileExistsError):
    """There is data where a sink of mode `error` is to write."""


class SettingsRefused(UserError):
    """Spark has not taken the job's settings, for the cause; nobody is to blame who happens to ask it for something."""


class StorageFailed(UserError, OSError):
    """A storage does not answer, or not as it should: it may the next time."""


class SourceSilent(StorageFailed):
    """Nobody answers where Spark is to read."""


class QueryStopped(UserError):
    """A query of a stream has ended, or can't begin, for what others do in the same Spark: the next attempt may go on."""
