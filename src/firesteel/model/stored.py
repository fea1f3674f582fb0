"""The version of the form of every record that outlives the process which wrote it, checked as it is read, and what is
raised when it can't be.

Journals and job graphs have versions of their own: `JOURNAL_VERSION`, `SCHEMA_VERSION`.
"""

from typing import ClassVar

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""All that msgspec raises for bytes that have not the form they should have: text that is no UTF-8, and what is nested too
deeply, are no MsgspecError."""


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Fields are only added, with defaults; a changed meaning is a new `FORMAT`. Another one does not decode: msgspec
    raises a ValidationError that names both. A golden file has the form of each kind."""

    FORMAT: ClassVar[int] = 1
    version: int = 1

    def __post_init__(self) -> None:
        if self.version != self.FORMAT:
            raise ValueError(f"it has format version {self.version}, and this firesteel reads {self.FORMAT}")
