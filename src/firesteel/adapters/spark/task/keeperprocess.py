"""The session keeper's process: holds a channel to the backend, interrupts and closes sessions at the worker's word.

The worker must be able to do so whatever became of a task process, and must not import gRPC itself.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pyspark.sql.connect.proto as pb2

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.session.channel import open_channel
from firesteel.adapters.spark.task.sessionhand import SessionHand

_MAX_AT_ONCE = 32
SETTLE_SECONDS = 0.2
"""A request that a killed task process had sent may still be on its way for so long."""


def main(channel: wire.ChildChannel, endpoint: wire.SparkAddress) -> None:
    """Serve until the worker closes its end."""
    with open_channel(endpoint) as server:
        keeper = _Keeper(channel, SessionHand(server, endpoint))
        with ThreadPoolExecutor(_MAX_AT_ONCE) as pool:
            while isinstance(request := channel.receive(), wire.KeeperRequest):
                pool.submit(keeper.serve, request)


class _Keeper:
    def __init__(self, channel: wire.ChildChannel, hand: SessionHand) -> None:
        self._channel, self._hand = channel, hand
        self._sending = threading.Lock()

    def serve(self, request: wire.KeeperRequest) -> None:
        try:
            answer = self._answer(request)
        except grpc.RpcError as failed:
            answer = wire.KeeperAnswer(number=request.number, error=str(failed))
        with self._sending:
            self._channel.send(answer)

    def _answer(self, request: wire.KeeperRequest) -> wire.KeeperAnswer:
        hand = self._hand
        if request.action is wire.SessionAction.INTERRUPT:
            return wire.KeeperAnswer(number=request.number, interrupted=hand.interrupt(request.session))
        if request.action is wire.SessionAction.CLEAR_CACHE:
            hand.execute(request.session, pb2.Relation(catalog=pb2.Catalog(clear_cache=pb2.ClearCache())))
            hand.release(request.session)
            return wire.KeeperAnswer(number=request.number)
        settle_seconds = SETTLE_SECONDS if request.was_cut else 0.0
        interrupted, server_session = hand.end_operations(request.session, settle_seconds)
        released = [hand.uncache(request.session, each) for each in request.cached]
        error = ""
        try:
            hand.release(request.session)
        except grpc.RpcError as failed:
            error = str(failed)
        return wire.KeeperAnswer(
            number=request.number,
            error=error,
            server_session=server_session,
            interrupted=interrupted or bool(error),
            released=all(released),
        )
