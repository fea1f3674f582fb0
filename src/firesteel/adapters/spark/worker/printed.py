"""The log of an attempt: standard output and error in one file, kept short, and shown when the attempt fails."""

from pathlib import Path

import msgspec

from firesteel.model.failures import FailureInfo

SHOWN_BYTES = 4 * 1024
"""The end of it that goes into a failure's trace."""
KEPT_SHARE = 4
"""A file over its limit keeps one part in so many, the newest."""


def with_output(failure: FailureInfo, log: Path) -> FailureInfo:
    """The failure with the end of what was printed."""
    try:
        printed = _end_of(log, SHOWN_BYTES).decode(errors="replace").strip()
    except OSError:
        return failure
    if not printed:
        return failure
    trace = f"{failure.trace.rstrip()}\n\nThe end of what the attempt printed:\n{printed}\n".lstrip()
    return msgspec.structs.replace(failure, trace=trace)


def keep_short(log: Path, limit_bytes: int) -> None:
    """Drop the oldest part of a file that has outgrown its limit. Its writer appends, and goes on behind the rest."""
    try:
        if log.stat().st_size <= limit_bytes:
            return
        kept = _end_of(log, limit_bytes // KEPT_SHARE)
        with open(log, "r+b") as file:
            file.truncate(0)
        with open(log, "ab") as file:
            file.write(b"... (what was printed before is gone: the file was over its limit)\n" + kept)
    except OSError:
        return  # not there yet, or no longer


def _end_of(log: Path, size: int) -> bytes:
    with open(log, "rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - size))
        return file.read(size)
