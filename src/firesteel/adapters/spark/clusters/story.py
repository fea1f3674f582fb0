"""What becomes of an application on a cluster, as its driver's log tells it. Pure: lines in.

Spark tells nobody else of it at the time: a Connect client sees a query that does not get on.
"""

import re
from collections import deque

from firesteel.adapters.spark.clusters.masters import Driver

EARLY_EXITS_MAX = 3
"""Executors that have ended before they were registered, in a row and from the start on, after which none is waited for."""
LOSSES_KEPT = 5

_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) \S+: (?P<text>.*)")
_CONNECTED = re.compile(r"Connected to Spark cluster with app ID (\S+)")
_UI = re.compile(r"Successfully started service 'SparkUI' on port (\d+)")
_REGISTERED = re.compile(r"Registered executor \S+ \((?P<host>\S+)\) with ID (?P<id>[^,\s]+)")
_GRANTED = re.compile(r"Executor added: \S+/(?P<id>\S+) on (?P<worker>\S+)(?: \((?P<host>[^)\s]+):\d+\))?")
_UPDATED = re.compile(r"Executor updated: \S+/(?P<id>\S+) is now (?P<state>[A-Z]+)(?: \((?P<why>.*)\))?")
_LOST = re.compile(r"Lost executor (?P<id>\S+) on (?P<host>\S+): (?P<why>.*)")
_GIVEN_BACK = "killed by driver"
"""In Spark's reason for the end of an executor that was idle for long enough."""
_KILLED = re.compile(r"Application has been killed\. Reason: (.*)")
_NOTHING = "Initial job has not accepted any resources"
_MASTER_LOST = ("Disconnected from Spark cluster!", "waiting for master to reconnect")
_MASTER_BACK = "Master has changed, new master is at"
_FAILED_TO_CONNECT = ("Failed to connect to master", "Exception while bootstrapping client")
"""Begin records whose traces say why; with another secret the second one's does."""
_SECRET_MARKS = (
    "Authentication failed",
    "SaslException",
    "does not have SASL enabled",
    "SASL",
    "AuthenticationException",
)
_VERSION_MARKS = ("InvalidClassException", "serialVersionUID", "ClassNotFoundException")
_ENDED = ("EXITED", "FAILED", "KILLED", "LOST", "DECOMMISSIONED")
_OUT_OF_MEMORY = "52"
"""Exit code of an executor whose heap is exhausted."""


def ui_port(line: str) -> str:
    """The port that Spark's pages are served at, where the line tells it."""
    found = _UI.search(line)
    return found[1] if found is not None else ""


class ClusterStory:
    """The story of one driver, from the start of its JVM on."""

    def __init__(self, driver: Driver, version: str) -> None:
        """`version` is its Spark's."""
        self._master, self._driver, self._host, self._version = driver.master, driver, driver.host, version
        self.application = ""
        """Id of the application, once the cluster has given one."""
        self.ui = ""
        """URL of the driver's UI."""
        self.executors: dict[str, str] = {}
        """Addresses of those that are registered now, by their id."""
        self._granted: dict[str, str] = {}
        """Spark Workers of those that the cluster has given and that have not ended, by their id."""
        self._failing: dict[str, None] = {}
        """Spark Workers on which one has ended before it was registered."""
        self._hosts: dict[str, str] = {}
        """Of Spark Workers, as far as they were told."""
        self.fatal = ""
        """Why nothing more can come of this driver: a sentence."""
        self._losses: deque[str] = deque(maxlen=LOSSES_KEPT)
        self._early_exits = 0
        self._has_had_executors = False
        self._last_words = ""
        """Why the last executor has ended that was never registered."""
        self._has_nothing = False
        self._has_lost_all = False
        """The last executor was lost, other than by being given back, and none has come since."""
        self.master_is_lost = False
        """The driver waits for the master to come back."""
        self._is_in_failed_connect = False

    def read(self, line: str) -> None:
        """Take the next line of the log."""
        record = _RECORD.match(line)
        if record is None:
            self._read_trace(line)
            return
        text = record["text"]
        self._is_in_failed_connect = not self.application and any(mark in text for mark in _FAILED_TO_CONNECT)
        self._read_trace(text)
        if found := _CONNECTED.search(text):
            self.application = found[1]
        elif found := _UI.search(text):
            self._found_ui(found[1])
        elif found := _KILLED.search(text):
            self._end(found[1])
        elif found := _GRANTED.search(text):
            self._granted[found["id"]] = found["worker"]
            self._hosts[found["worker"]] = found["host"] or found["worker"]
        elif found := _REGISTERED.search(text):
            self.executors[found["id"]] = found["host"]
            self._early_exits, self._has_nothing, self._has_had_executors = 0, False, True
            self._has_lost_all = False
        elif found := _UPDATED.search(text):
            self._on_updated(found["id"], found["state"], found["why"] or "")
        elif found := _LOST.search(text):
            self._note_lost(found["id"], is_given_back=_GIVEN_BACK in found["why"])
            self._losses.append(f"executor {found['id']} on {found['host']} was lost: {found['why'].rstrip('.')}")
        elif _NOTHING in text:
            self._has_nothing = True
        elif any(mark in text for mark in _MASTER_LOST):
            self.master_is_lost = True
        elif _MASTER_BACK in text:
            self.master_is_lost = False

    @property
    def queued(self) -> str:
        """What keeps the cluster from beginning the application, of a driver that waits for that before it answers."""
        return ""

    @property
    def has_executors(self) -> bool:
        """Whether the cluster has given any: they may still be starting."""
        return bool(self._granted or self.executors)

    @property
    def is_waited_for(self) -> bool:
        """Whether executors are known to be missing, also where nobody counts tasks."""
        return self.gives_none or self._has_lost_all

    @property
    def gives_none(self) -> bool:
        """Whether Spark itself says that it waits, and the cluster has given nothing: Spark has waited for 15 s then."""
        return self._has_nothing and not self.has_executors

    def forgotten(self) -> None:
        """The master is back, and has not said so to the driver: it never will."""
        self.fatal = self.fatal or (
            f"{self._master.shown} can be reached again, and does not know the application {self.application} of the driver"
            f" on {self._host} any more: a master that is restarted keeps applications with spark.deploy.recoveryMode"
        )

    def waiting_words(self) -> str:
        """What who waits for executors is told, in Spark's words where it has any."""
        where = f"executors of {self._master.shown}"
        if self.master_is_lost:
            return f"{where}, which does not answer at the moment"
        if self._early_exits:
            count = "1 has" if self._early_exits == 1 else f"{self._early_exits} have"
            return f"{where}: {count} ended before the driver on {self._host} was reached ({self._last_words})"
        if self._has_nothing:
            return f"{where}, which gives none (in Spark's words: {_NOTHING.lower()})"
        return f"{where} (the last word: {self._losses[-1]})" if self._losses else where

    def _found_ui(self, port: str) -> None:
        self.ui = f"http://{self._driver.pages_host}:{port}"

    def _on_updated(self, executor: str, state: str, why: str) -> None:
        if state not in _ENDED:
            return
        worker = self._granted.pop(executor, None)
        is_registered = executor in self.executors
        self._note_lost(executor, is_given_back=state == "KILLED")
        if not is_registered and state in ("EXITED", "FAILED"):
            self._early_exits += 1
            self._last_words = why
            if worker is not None:
                self._failing[worker] = None
            if self._early_exits >= EARLY_EXITS_MAX and not self._has_had_executors and not self._may_yet_come():
                self._end_for_lack()
        if state != "KILLED" and why:
            memory = "; its heap was exhausted" if f"code {_OUT_OF_MEMORY}" in why else ""
            self._losses.append(f"executor {executor} has ended ({state.lower()}): {why}{memory}")

    def _note_lost(self, executor: str, *, is_given_back: bool) -> None:
        if self.executors.pop(executor, None) is not None and not self.executors:
            self._has_lost_all = not is_given_back

    def _may_yet_come(self) -> bool:
        """Whether an executor starts on a Spark Worker on which none has ended: a broken one gets another each time."""
        return any(worker not in self._failing for worker in self._granted.values())

    def _read_trace(self, text: str) -> None:
        """A driver that is refused tries again for a minute; the first refusal tells enough."""
        if not self._is_in_failed_connect or self.fatal:
            return
        where = f"{self._master.shown} has refused the driver on {self._host}"
        if any(mark in text for mark in _SECRET_MARKS):
            self.fatal = (
                f"{where}: they do not have the same secret; set spark.authenticate and spark.authenticate.secret here"
                " as they are set there"
            )
        elif any(mark in text for mark in _VERSION_MARKS):
            self.fatal = (
                f"{where}: it is of another version than Spark {self._version}, which is installed here; use one version"
                " on both sides"
            )

    def _end(self, reason: str) -> None:
        if self.fatal:
            return
        named = f"the application {self.application}" if self.application else "the application"
        if reason.startswith("All masters are unresponsive"):
            self.fatal = (
                f"{self._master.shown} has not answered the driver on {self._host}: is it a Spark master of version"
                f" {self._version}, and does it reach this host?"
            )
        elif "FAILED" in reason and self._early_exits:
            self._end_for_lack()
        else:
            self.fatal = f"{named} was ended by {self._master.shown}: {reason.rstrip('.')}"

    def _end_for_lack(self) -> None:
        """A standalone master goes on starting executors for ever when each of them begins to run."""
        hosts = ", ".join(dict.fromkeys(self._hosts[worker] for worker in self._failing))
        where = f" on {hosts}" if hosts else ""
        self.fatal = (
            f"executors of {self._master.shown} start{where} and end before they reach the driver on {self._host}: is"
            " spark.driver.host an address that they reach, does a firewall let them in, and are those hosts in order?"
            f" The last has ended with: {self._last_words}"
        )
