"""Errors of this ring. All of them are the author's fault and become the client's exit code 2."""

import os

from firesteel.model.jobgraph import InvalidJobGraph


class InvalidPipeline(InvalidJobGraph):
    """The author's fault: the pipeline can't become a job graph. The text says where, what, and what to do.

    `file` and `line` point into the user's code (empty and 0 when the fault is at no place of it);
    `trace` is the user's own traceback when their code raised.
    """

    def __init__(self, message: str, *, function: str = "", file: str = "", line: int = 0, trace: str = "") -> None:
        self.message, self.function, self.file, self.line, self.trace = message, function, file, line, trace
        super().__init__(self._headline())

    @property
    def location(self) -> str:
        """`file:line`, relative to the working directory where that is shorter; or empty."""
        return f"{shown_path(self.file)}:{self.line}" if self.file else ""

    def _headline(self) -> str:
        where = " ".join(part for part in (self.function, f"({self.location})" if self.file else "") if part)
        return f"{where}: {self.message}" if where else self.message


def shown_path(path: str) -> str:
    """The path as a person at this working directory would type it."""
    if not os.path.isabs(path):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
