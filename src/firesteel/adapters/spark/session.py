"""The Connect session of an attempt, in its task process: opened when first wanted."""

import threading
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
    """At most one session, opened by the first `get`."""

    def __init__(self, endpoint: Callable[[], Endpoint], name: SessionName, tag: str, settings: dict[str, str]) -> None:
        self._endpoint, self._name, self._tag, self._settings = endpoint, name, tag, settings
        self._session: SparkSession | None = None
        self.on_open: Callable[[Any], None] = lambda session: None

    @property
    def opened(self) -> bool:
        return self._session is not None

    def get(self) -> SparkSession:
        """The session, ready for the user's code: settings applied, operations tagged."""
        if self._session is None:
            channel: Any = LoopbackChannel(self._endpoint(), self._name)  # pyspark's hint asks for its own subclass
            session = ConnectSession.builder.channelBuilder(channel).create()
            session.addTag(self._tag)
            if self._settings:
                session.conf._set_all(configs=dict(self._settings), silent=False)
            # One call that every plan needs makes the server set the session up, while the user's code builds its plan.
            ask = session.client._get_plan_compression_threshold_and_algorithm
            threading.Thread(target=ask, name="open-session", daemon=True).start()
            self.on_open(session)
            self._session = session  # type: ignore[assignment]
        assert self._session is not None
        return self._session
