"""A hand on sessions of a Connect server: interrupts, looks, closes, by the server's own calls and without a session.

An operation that was submitted a moment ago may not be known yet, and then is not interrupted; and a session whose
operations have not ended is not closed properly. So a session is closed when Spark says that nothing runs in it. Even
that can be wrong: Spark takes one interrupt an operation, which Hadoop swallows while it makes a directory, and an
operation can end while a stage of it is still being submitted. So it is reported when anything had to be interrupted.
"""

import time
from typing import Any

import grpc
import pyspark.sql.connect.proto as pb2
import pyspark.sql.connect.proto.base_pb2_grpc as services

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.session.channel import metadata

DEADLINE_SECONDS = 10.0
"""Time for each call."""
END_SECONDS = 8.0
"""Time that operations have to end after their interrupt: planning is not interrupted, and may take its time."""
_POLL_SECONDS = 0.05
_UNDER_WAY = (
    pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING,
    pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_TERMINATING,
)


class SessionHand:
    """By an open channel to the server. Its methods block, and raise grpc.RpcError."""

    def __init__(
        self, server: grpc.Channel, endpoint: wire.SparkAddress, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        make: Any = services.SparkConnectServiceStub  # generated code, without types
        self._stub: Any = make(server)
        self._deadline_seconds = deadline_seconds
        self._metadata = metadata(endpoint)

    def uncache(self, session: wire.SessionName, cached: wire.Cached) -> bool:
        """Whether it is no longer in Spark's cache. It is looked for by its plan, and files that this names may be gone."""
        try:
            if cached.statement:
                self.execute(session, pb2.Relation(sql=pb2.SQL(query=cached.statement)))
            elif cached.relation:
                unpersist = pb2.AnalyzePlanRequest.Unpersist(relation=pb2.Relation.FromString(cached.relation))
                message = pb2.AnalyzePlanRequest(**_named(session), unpersist=unpersist)
                self._stub.AnalyzePlan(message, metadata=self._metadata, timeout=self._deadline_seconds)
            return bool(cached.statement or cached.relation)
        except grpc.RpcError:
            return False

    def execute(self, session: wire.SessionName, relation: Any) -> None:
        message = pb2.ExecutePlanRequest(**_named(session), plan=pb2.Plan(root=relation))
        for _ in self._stub.ExecutePlan(message, metadata=self._metadata, timeout=self._deadline_seconds):
            continue

    def release(self, session: wire.SessionName) -> None:
        """Close it. The server never opens one of that name again."""
        message = pb2.ReleaseSessionRequest(**_named(session))
        self._stub.ReleaseSession(message, metadata=self._metadata, timeout=self._deadline_seconds)

    def interrupt(self, session: wire.SessionName) -> bool:
        """All that runs there, of whatever thread or tag: the session is the attempt's own. Whether anything did."""
        message = pb2.InterruptRequest(**_named(session), interrupt_type=pb2.InterruptRequest.INTERRUPT_TYPE_ALL)
        answer = self._stub.Interrupt(message, metadata=self._metadata, timeout=self._deadline_seconds)
        return bool(answer.interrupted_ids)

    def end_operations(self, session: wire.SessionName, settle_seconds: float) -> tuple[bool, str]:
        """Interrupt until nothing has run for `settle_seconds`, or END_SECONDS are over.

        Returns whether anything did, and the server's own id of the session; empty when it has never been opened.
        """
        interrupted, server_session = False, ""
        give_up = time.monotonic() + END_SECONDS
        quiet_since = time.monotonic()
        while time.monotonic() < give_up:
            status = self.status(session)
            server_session = status.server_side_session_id
            if any(operation.state in _UNDER_WAY for operation in status.operation_statuses):
                interrupted = True
                self.interrupt(session)
                quiet_since = time.monotonic() + _POLL_SECONDS
            elif time.monotonic() - quiet_since >= settle_seconds:
                break
            time.sleep(_POLL_SECONDS)
        return interrupted, server_session

    def setting(self, session: wire.SessionName, name: str) -> str:
        """The value that it has there, opened by this if it was not; empty for none."""
        operation = pb2.ConfigRequest.Operation(get_option=pb2.ConfigRequest.GetOption(keys=[name]))
        message = pb2.ConfigRequest(**_named(session), operation=operation)
        answer = self._stub.Config(message, metadata=self._metadata, timeout=self._deadline_seconds)
        return next((str(pair.value) for pair in answer.pairs), "")

    def status(self, session: wire.SessionName) -> Any:
        """Empty for a session that was never opened, or is closed. For one that is open, the server counts it as a use."""
        message = pb2.GetStatusRequest(
            **_named(session), operation_status=pb2.GetStatusRequest.OperationStatusRequest()
        )
        try:
            return self._stub.GetStatus(message, metadata=self._metadata, timeout=self._deadline_seconds)
        except grpc.RpcError as error:
            if "INVALID_HANDLE" in str(error):
                return pb2.GetStatusResponse()
            raise


def _named(session: wire.SessionName) -> dict[str, Any]:
    return {"session_id": session.session_id, "user_context": pb2.UserContext(user_id=session.user)}
