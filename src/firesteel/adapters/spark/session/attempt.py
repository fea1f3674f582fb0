"""The Connect session of an attempt, in its task process: opened when first wanted."""

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import grpc
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import ChannelBuilder
from pyspark.sql.connect.conf import RuntimeConf
from pyspark.sql.connect.session import SparkSession as ConnectSession

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.clusters.masters import LOOPBACK
from firesteel.adapters.spark.clusters.sessions import further_session
from firesteel.adapters.spark.jvm import launch
from firesteel.adapters.spark.refusals import SettingsRefused
from firesteel.adapters.spark.session.channel import OPTIONS, credentials, metadata, target
from firesteel.adapters.spark.session.meanings import Meanings
from firesteel.adapters.spark.session.names import SessionNames
from firesteel.adapters.spark.session.pinned import PinnedFunctions
from firesteel.adapters.spark.session.resets import Resets
from firesteel.adapters.spark.session.settings import Changes, SessionSettings
from firesteel.adapters.spark.wire import SessionName, SparkAddress


class ServerChannel(ChannelBuilder):
    """A channel to the server of an address, with the limits and retries of PySpark's own."""

    def __init__(self, endpoint: SparkAddress, name: SessionName) -> None:
        super().__init__(
            channelOptions=list(OPTIONS),
            params={self.PARAM_USER_ID: name.user, self.PARAM_SESSION_ID: name.session_id},
        )
        self._endpoint = endpoint

    @property
    def host(self) -> str:
        return self._endpoint.host

    def toChannel(self) -> grpc.Channel:
        where = target(self._endpoint)
        return self._secure_channel(where, credentials()) if self._endpoint.secure else self._insecure_channel(where)

    def metadata(self) -> Iterable[tuple[str, str]]:
        return metadata(self._endpoint)


CLIENT_DIRECTORY = "spark.firesteel.client-directory"
"""The setting that tells a JVM of ours where relative paths of a session start (`jvm/hadoop/LocalFiles.java` reads it)."""


class _Settling:
    """A hook of the session, which is set up in a thread while the user's code builds its plan: what is asked of the server
    meanwhile waits for that. Raises SettingsRefused, of what has made it fail."""

    def __init__(self, client: Any, set_up: Callable[[Any], None]) -> None:
        """`set_up` is given the session's settings, which it does not wait for."""
        self._client, self._set_up, self._ask = client, set_up, client.config
        self._error: Exception | None = None
        self._conf: Any = RuntimeConf(SimpleNamespace(config=self._ask))  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._run, name="settle", daemon=True)
        client.config = self._config
        internals.add_hook(client, self)
        internals.wrap_analysis(client, self._analysis)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._set_up(self._conf)
            internals.begin_on_server(self._client)  # what every query needs
        except Exception as error:
            self._error = error

    def _wait(self) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join()
            if self._error is not None:
                raise SettingsRefused(str(self._error)) from self._error

    def on_execute_plan(self, request: Any) -> Any:
        self._wait()
        return request

    def _analysis(self, analyze: Callable[..., Any], method: str, **given: Any) -> Any:
        self._wait()
        return analyze(method, **given)

    def _config(self, operation: Any) -> Any:
        self._wait()
        return self._ask(operation)


class AttemptSession:
    """The session of an attempt, opened by the first `get`; by one after the user's code has stopped it, another.

    Its queries are in Spark's `scheduler_pool`, and its relative paths start in `directory`, where those are not empty. `announce` is told the name of each but the first before there is such a session: all are the worker's to close.
    """

    def __init__(
        self, endpoint: Callable[[], SparkAddress], name: SessionName, tag: str, settings: dict[str, str]
    ) -> None:
        self._endpoint, self._name, self._tag, self._settings = endpoint, name, tag, settings
        self.begun: dict[str, str] = {}
        """Settings that its sessions begin with, and go back to by RESET: the job's, our own, those of a script's builder."""
        self._resets = Resets(self.begun)
        self._session: Any = None
        self._changed: SessionSettings | None = None
        self.meanings = Meanings()
        self.names = SessionNames(self.meanings)
        self.functions = PinnedFunctions(lambda: self.meanings.is_users_code)
        self.before_setting: Callable[[str], None] = lambda name: None
        """Told the name of a setting that the user's code is about to change; may refuse that."""
        self.on_open: Callable[[Any], None] = lambda session: None
        self.on_client: Callable[[Any], None] = lambda client: None
        """Told the Connect client of every session, also of those that the user's code makes of others."""
        self.announce: Callable[[SessionName], None] = lambda name: None
        self._opening = threading.Lock()  # a script's threads may all ask at once
        self.numbers = itertools.count(1)
        """Of the sessions beside the first."""
        self.scheduler_pool = self.directory = ""
        self.is_elsewhere = False
        """Whether its Spark is on another machine, and may reach what this one does not."""

    @property
    def opened(self) -> bool:
        return self._session is not None

    def get(self) -> SparkSession:
        """The session, ready for the user's code: settings applied, operations tagged."""
        with self._opening:
            if self._session is None:
                self._session = self._open(self._name)
            elif self._session.is_stopped:
                self._session = self._open(self._another())
            session: SparkSession = self._session
            return session

    def rejoin(self) -> SparkSession:
        """The session as a process before this one has left it: nothing is set in it."""
        with self._opening:
            session: SparkSession = self._open(self._name, is_new=False)
            self._session = session
            return session

    def renew(self) -> None:
        """From here on it is another one, in which nothing has happened yet."""
        with self._opening:
            self._session = self._open(self._another())

    @contextlib.contextmanager
    def code_of(self, function: str) -> Iterator[None]:
        """One of the pipeline's functions is called: names are its own, and what it changes was changed by the user."""
        self.functions.forget()
        self.names.function, self.meanings.is_users_code = function, True
        try:
            yield
        finally:
            self.names.function, self.meanings.is_users_code = "", False

    def _setting_changes(self, name: str) -> None:
        self.before_setting(name)

    def settings(self) -> Changes:
        """Settings of Spark that differ now from the job's own."""
        return {} if self._changed is None else self._changed.changes()

    def switch_settings(self, wanted: Changes) -> None:
        """Have them differ in exactly this."""
        if wanted:
            self.get()
        if self._changed is not None:
            self._changed.switch(wanted)

    def _open(self, name: SessionName, *, is_new: bool = True) -> Any:
        endpoint = self._endpoint()
        self.is_elsewhere = endpoint.host != LOOPBACK
        channel: Any = ServerChannel(endpoint, name)  # pyspark's hint asks for its own subclass
        session: Any = ConnectSession(channel)
        internals.make_default(session)
        session.addTag(self._tag)
        self.begun.update(self._settings)
        _Settling(session.client, functools.partial(self._settle, settings=self._settings if is_new else {}))
        self.meanings.forget()
        internals.add_hook(session.client, self.meanings)
        self._changed = SessionSettings(session, self._settings, self._setting_changes, self.meanings)
        internals.add_hook(session.client, self.names)
        internals.add_hook(session.client, self._resets)
        self.on_open(session)
        self._watch(session.client)
        return session

    def _watch(self, client: Any) -> None:
        internals.be_silent_at_exit(client)  # that call may go on for minutes when the server is gone
        client.newSession = functools.partial(self._made, functools.partial(internals.new_session, client), self.begun)
        client.clone = functools.partial(self._made, client.clone, {})
        self._resets.watch(client)
        self.on_client(client)

    def _settle(self, conf: Any, settings: Mapping[str, str]) -> None:
        """Make these a session's settings, and say whose turns its tasks take, and where its relative paths start. Raises an
        error of PySpark's for settings that can't be set."""
        if settings:
            internals.set_all(conf, settings, silent=False)
        ours = {launch.SCHEDULER_POOL: self.scheduler_pool, CLIENT_DIRECTORY: self.directory}
        wanted = {key: value for key, value in ours.items() if value and key not in self._settings}
        self.begun.update(wanted)
        if wanted:
            with contextlib.suppress(Exception):  # the query that comes next says what is wrong
                internals.set_all(conf, wanted, silent=True)

    def _made(self, make: Callable[[str], Any], begun: Mapping[str, str], session_id: str | None = None) -> Any:
        """A session that the user's code makes of ours: it is the worker's to close, too."""
        client = make(session_id or self._further().session_id)
        self.announce(SessionName(self._name.user, internals.session_id_of(client)))
        self._settle(RuntimeConf(client), {})
        if begun:
            internals.set_all(RuntimeConf(client), begun, silent=True)
        self._watch(client)
        return client

    def _another(self) -> SessionName:
        name = self._further()
        self.announce(name)
        return name

    def _further(self) -> SessionName:
        """A name that can be derived from that of the first, also where nobody knows any more what was announced."""
        return further_session(self._name, next(self.numbers))


def offer_by_default(sessions: AttemptSession) -> None:
    """From here on this process's session is there for what needs one where none is at hand, such as `@udf("string")`
    at module level, before any function asks for it."""
    internals.give_default(sessions.get)
