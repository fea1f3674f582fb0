"""The Connect session of an attempt, in its task process: opened when first wanted."""

import functools
import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import grpc
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import ChannelBuilder
from pyspark.sql.connect.session import SparkSession as ConnectSession

from firesteel.adapters.spark.wire import Endpoint, SessionName


class LoopbackChannel(ChannelBuilder):
    """A plain channel to a server on this machine, with the token as a header.

    pyspark's own builder sends tokens through gRPC's call credentials: a thread and 1 ms for every call.
    """

    def __init__(self, endpoint: Endpoint, name: SessionName) -> None:
        super().__init__(
            channelOptions=[("grpc.enable_http_proxy", 0)],
            params={self.PARAM_USER_ID: name.user, self.PARAM_SESSION_ID: name.session_id},
        )
        self._endpoint = endpoint

    @property
    def host(self) -> str:
        return "127.0.0.1"

    def toChannel(self) -> grpc.Channel:
        return self._insecure_channel(f"127.0.0.1:{self._endpoint.port}")

    def metadata(self) -> Iterable[tuple[str, str]]:
        return [("authorization", f"Bearer {self._endpoint.token}")]


class AttemptSession:
    """The session of an attempt, opened by the first `get`; by one after the user's code has stopped it, another.

    `announce` is told the name of each but the first before there is such a session: all are the worker's to close.
    """

    def __init__(self, endpoint: Callable[[], Endpoint], name: SessionName, tag: str, settings: dict[str, str]) -> None:
        self._endpoint, self._name, self._tag, self._settings = endpoint, name, tag, settings
        self._session: Any = None
        self.on_open: Callable[[Any], None] = lambda session: None
        self.announce: Callable[[SessionName], None] = lambda name: None
        self._opening = threading.Lock()  # a script's threads may all ask at once

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

    def _open(self, name: SessionName) -> Any:
        channel: Any = LoopbackChannel(self._endpoint(), name)  # pyspark's hint asks for its own subclass
        session: Any = ConnectSession(channel)
        ConnectSession._set_default_and_active_session(session)
        session.addTag(self._tag)
        if self._settings:
            session.conf._set_all(configs=dict(self._settings), silent=False)
        # One call that every plan needs makes the server set the session up, while the user's code builds its plan.
        ask = session.client._get_plan_compression_threshold_and_algorithm
        threading.Thread(target=ask, name="open-session", daemon=True).start()
        for method in ("newSession", "clone"):
            setattr(session.client, method, functools.partial(self._made, getattr(session.client, method)))
        self.on_open(session)
        return session

    def _made(self, make: Callable[..., Any], *given: Any) -> Any:
        """A session that the user's code makes of ours: it is the worker's to close, too."""
        client = make(*given)
        self.announce(SessionName(self._name.user, client._session_id))
        return client

    def _another(self) -> SessionName:
        name = SessionName(self._name.user, str(uuid.uuid4()))
        self.announce(name)
        return name
