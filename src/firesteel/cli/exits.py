"""Exit codes, and the error that ends a command with one."""

FINISHED = 0
JOB_FAILED = 1
BROKEN = 1
"""Exit code of a process of a cluster that could not go on."""
DAMAGED = 1
"""Exit code of a check of files that are not what was written."""
BAD_USAGE = 2
UNREACHABLE = 3
OUTPUT_LOST = 4
"""What was to be printed could not be: of the job it says nothing."""
INTERRUPTED = 130
READER_GONE = 141
"""The one of a tool that SIGPIPE ends: who reads what is printed has gone, as in `firesteel list | head -1`."""


class CommandError(Exception):
    """Ends the command: `message` is one sentence for a person, `trace` goes to the log file or `--verbose`. `job_id` is of a job
    that may have been taken: what has become of it is not known."""

    def __init__(self, message: str, code: int, *, trace: str = "", location: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.trace, self.location = message, code, trace, location
        self.job_id = ""
