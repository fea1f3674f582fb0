"""The session keeper's process: holds a channel to the backend, interrupts and closes sessions at the worker's word.

The worker must be able to do so whatever became of a task process, and must not import gRPC itself.

An operation that was submitted a moment ago may not be known yet, and then is not interrupted; and a session whose
operations have not ended is not closed properly. So a session is closed when Spark says that nothing runs in it. Even
that can be wrong: Spark takes one interrupt an operation, which Hadoop swallows while it makes a directory, and an
operation can end while a stage of it is still being submitted. So it is reported when anything had to be interrupted.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyspark.sql.connect.proto as pb2
import pyspark.sql.connect.proto.base_pb2_grpc as services

from firesteel.adapters.spark import wire

_DEADLINE_SECONDS = 10.0
_MAX_AT_ONCE = 32
END_SECONDS = 8.0
"""Time that operations have to end after their interrupt: planning is not interrupted, and may take its time."""
_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 0.2
"""A request that a killed task process had sent may still be on its way for so long."""
_UNDER_WAY = (
    pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING,
    pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_TERMINATING,
)


def main(channel: wire.ChildChannel, endpoint: wire.SparkAddress) -> None:
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
        try:
            answer = self._answer(request)
        except grpc.RpcError as failed:
            answer = wire.KeeperAnswer(number=request.number, error=str(failed))
        with self._sending:
            self._channel.send(answer)

    def _answer(self, request: wire.KeeperRequest) -> wire.KeeperAnswer:
        if request.action is wire.SessionAction.INTERRUPT:
            return wire.KeeperAnswer(number=request.number, interrupted=self._interrupt(request.session))
        if request.action is wire.SessionAction.CLEAR_CACHE:
            self._execute(request.session, pb2.Relation(catalog=pb2.Catalog(clear_cache=pb2.ClearCache())))
            self._release(request.session)
            return wire.KeeperAnswer(number=request.number)
        settle_seconds = _SETTLE_SECONDS if request.was_cut else 0.0
        interrupted, server_session = self._end_operations(request.session, settle_seconds)
        released = [self._uncache(request.session, each) for each in request.cached]
        error = ""
        try:
            self._release(request.session)
        except grpc.RpcError as failed:
            error = str(failed)
        return wire.KeeperAnswer(
            number=request.number,
            error=error,
            server_session=server_session,
            interrupted=interrupted or bool(error),
            released=all(released),
        )

    def _uncache(self, session: wire.SessionName, cached: wire.Cached) -> bool:
        """Whether it is no longer in Spark's cache. It is looked for by its plan, and files that this names may be gone."""
        try:
            if cached.statement:
                self._execute(session, pb2.Relation(sql=pb2.SQL(query=cached.statement)))
            elif cached.relation:
                unpersist = pb2.AnalyzePlanRequest.Unpersist(relation=pb2.Relation.FromString(cached.relation))
                message = pb2.AnalyzePlanRequest(**self._named(session), unpersist=unpersist)
                self._stub.AnalyzePlan(message, metadata=self._metadata, timeout=_DEADLINE_SECONDS)
            return bool(cached.statement or cached.relation)
        except grpc.RpcError:
            return False

    def _execute(self, session: wire.SessionName, relation: Any) -> None:
        message = pb2.ExecutePlanRequest(**self._named(session), plan=pb2.Plan(root=relation))
        for _ in self._stub.ExecutePlan(message, metadata=self._metadata, timeout=_DEADLINE_SECONDS):
            continue

    def _named(self, session: wire.SessionName) -> dict[str, Any]:
        return {"session_id": session.session_id, "user_context": pb2.UserContext(user_id=session.user)}

    def _release(self, session: wire.SessionName) -> None:
        user = pb2.UserContext(user_id=session.user)
        message = pb2.ReleaseSessionRequest(session_id=session.session_id, user_context=user)
        self._stub.ReleaseSession(message, metadata=self._metadata, timeout=_DEADLINE_SECONDS)

    def _interrupt(self, session: wire.SessionName) -> bool:
        """All that runs there, of whatever thread or tag: the session is the attempt's own. Whether anything did."""
        message = pb2.InterruptRequest(
            session_id=session.session_id,
            user_context=pb2.UserContext(user_id=session.user),
            interrupt_type=pb2.InterruptRequest.INTERRUPT_TYPE_ALL,
        )
        answer = self._stub.Interrupt(message, metadata=self._metadata, timeout=_DEADLINE_SECONDS)
        return bool(answer.interrupted_ids)

    def _end_operations(self, session: wire.SessionName, settle_seconds: float) -> tuple[bool, str]:
        """Interrupt until nothing has run for `settle_seconds`, or END_SECONDS are over.

        Returns whether anything did, and the server's own id of the session; empty when it has never been opened.
        """
        interrupted, server_session = False, ""
        give_up = time.monotonic() + END_SECONDS
        quiet_since = time.monotonic()
        while time.monotonic() < give_up:
            status = self._status(session)
            server_session = status.server_side_session_id
            if any(operation.state in _UNDER_WAY for operation in status.operation_statuses):
                interrupted = True
                self._interrupt(session)
                quiet_since = time.monotonic() + _POLL_SECONDS
            elif time.monotonic() - quiet_since >= settle_seconds:
                break
            time.sleep(_POLL_SECONDS)
        return interrupted, server_session

    def _status(self, session: wire.SessionName) -> Any:
        """Empty for a session that was never opened, or is closed."""
        message = pb2.GetStatusRequest(
            session_id=session.session_id,
            user_context=pb2.UserContext(user_id=session.user),
            operation_status=pb2.GetStatusRequest.OperationStatusRequest(),
        )
        try:
            return self._stub.GetStatus(message, metadata=self._metadata, timeout=_DEADLINE_SECONDS)
        except grpc.RpcError as error:
            if "INVALID_HANDLE" in str(error):
                return pb2.GetStatusResponse()
            raise
