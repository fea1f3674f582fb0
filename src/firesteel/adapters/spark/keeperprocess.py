"""The session keeper's process: holds a channel to the backend, interrupts and closes sessions at the worker's word.

The worker must be able to do so whatever became of a task process, and must not import gRPC itself.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyspark.sql.connect.proto as pb2
import pyspark.sql.connect.proto.base_pb2_grpc as services

from firesteel.adapters.spark import wire

_DEADLINE_SECONDS = 10.0
_MAX_AT_ONCE = 8


def main(channel: wire.ChildChannel, endpoint: wire.Endpoint) -> None:
    """Serve until the worker closes its end."""
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{endpoint.port}", options=options) as server:
        keeper = _Keeper(channel, _stub(server), endpoint.token)
        with ThreadPoolExecutor(_MAX_AT_ONCE) as pool:
            while isinstance(request := channel.receive(), wire.KeeperRequest):
                pool.submit(keeper.serve, request)


def _stub(server: grpc.Channel) -> Any:
    make: Any = services.SparkConnectServiceStub  # generated code, without types
    return make(server)


class _Keeper:
    def __init__(self, channel: wire.ChildChannel, stub: Any, token: str) -> None:
        self._channel, self._stub = channel, stub
        self._metadata = [("authorization", f"Bearer {token}")]
        self._sending = threading.Lock()

    def serve(self, request: wire.KeeperRequest) -> None:
        error = server_session = ""
        try:
            if request.tag:
                self._interrupt(request.session, request.tag)
            else:
                server_session = self._release(request.session)
        except grpc.RpcError as failed:
            error = str(failed)
        with self._sending:
            answer = wire.KeeperAnswer(number=request.number, error=error, server_session=server_session)
            self._channel.send(answer)

    def _interrupt(self, session: wire.SessionName, tag: str) -> None:
        message = pb2.InterruptRequest(
            session_id=session.session_id,
            user_context=pb2.UserContext(user_id=session.user),
            interrupt_type=pb2.InterruptRequest.INTERRUPT_TYPE_TAG,
            operation_tag=tag,
        )
        self._stub.Interrupt(message, metadata=self._metadata, timeout=_DEADLINE_SECONDS)

    def _release(self, session: wire.SessionName) -> str:
        message = pb2.ReleaseSessionRequest(
            session_id=session.session_id, user_context=pb2.UserContext(user_id=session.user)
        )
        answer = self._stub.ReleaseSession(message, metadata=self._metadata, timeout=_DEADLINE_SECONDS)
        return str(answer.server_side_session_id)
