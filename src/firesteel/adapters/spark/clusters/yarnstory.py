"""What becomes of an application on YARN, as its driver's log tells it. Pure: lines in."""

import re

from firesteel.adapters.spark.clusters.masters import Driver
from firesteel.adapters.spark.clusters.story import ClusterStory

WORDS_MAX_CHARS = 200
"""Most of what YARN says of an application."""
_REPORT = re.compile(r" Client: Application report for (?P<id>\S+) \(state: (?P<state>[A-Z_]+)\)")
_DETAIL = re.compile(r"\t (?P<name>diagnostics|queue|tracking URL): (?P<text>.*)")
_EXITED = re.compile(r"YARN application has exited unexpectedly with state (?P<state>[A-Z]+)")
_LAST_WORDS = re.compile(r" Diagnostics message: (?P<text>.*)")
_TIME = re.compile(r"^\[[^\]]*\]\s*")
_BEGINS = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
_NONE = "N/A"


class YarnStory(ClusterStory):
    """A driver waits, before it answers anybody, for YARN to begin its application; and goes on without, when that has been
    ended."""

    def __init__(self, driver: Driver, version: str) -> None:
        super().__init__(driver, version)
        self._state = self._details = ""
        self._queue = ""
        self._exited = ""
        """The state that the application has ended in."""

    def read(self, line: str) -> None:
        if self._exited and not self.fatal:
            found = _LAST_WORDS.search(line)
            why = f" ({_shortened(found['text'])})" if found is not None else ""
            named = f"the application {self.application}" if self.application else "the application"
            self.fatal = f"{named} was ended by {self._master.shown}: its state is {self._exited}{why}"
        elif found := _EXITED.search(line):
            self._exited = found["state"]
        elif found := _REPORT.search(line):
            self.application, self._state = found["id"], found["state"]
        elif found := _DETAIL.match(line):
            self._read_detail(found["name"], found["text"])
        else:
            super().read(line)

    @property
    def queued(self) -> str:
        if self._state not in _BEGINS:
            return ""
        where = f" in the queue {self._queue}" if self._queue else ""
        why = f": {self._details}" if self._details else ""
        return f"{self._master.shown} has not begun {self.application} yet, which waits{where}{why}"

    def _read_detail(self, name: str, text: str) -> None:
        match name:
            case "diagnostics":
                self._details = "" if text == _NONE else _shortened(text)
            case "queue":
                self._queue = text
            case _:
                self.ui = text.rstrip("/") if text != _NONE else self.ui

    def _found_ui(self, port: str) -> None:
        """Its pages are at the address that YARN gives: the driver sends others there."""


def _shortened(text: str) -> str:
    plain = _TIME.sub("", text).partition("  Details :")[0].strip().rstrip(".")
    return plain if len(plain) <= WORDS_MAX_CHARS else f"{plain[:WORDS_MAX_CHARS]}..."
