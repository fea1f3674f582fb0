"""The guard of a worker's sessions on a Connect server of others: a process that outlives the worker, for a moment.

Run as a program; standard input is a pipe whose other end only the worker holds. Its first line is the server's address,
the others are GuardOrders, in JSON. What is held is called in on, so that the server does not take it for abandoned. When
the pipe closes, however the worker has died, all that is held is interrupted and closed; so is at any time what the worker
could not close. A server that can't be reached is tried again, for wire.GUARD_GIVE_UP_SECONDS. Signals that ask it to end
are the worker's to answer: a service manager sends them to all that the worker has started.
"""

import logging
import os
import queue
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import msgspec

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.session.channel import open_channel
from firesteel.adapters.spark.task.keeperprocess import SETTLE_SECONDS
from firesteel.adapters.spark.task.sessionhand import SessionHand
from firesteel.model.configuration import parse_duration_ms

CALL_IN_SECONDS, SHORTEST_SECONDS = 60.0, 0.2
"""Time between two signs of life of each session at most, and at least. Servers close after an hour what has given none,
unless told otherwise."""
TIMEOUT = "spark.connect.session.manager.defaultSessionTimeout"
RETRY_SECONDS = 2.0
_AT_ONCE = 16

logger = logging.getLogger("sessionguard")


class SessionGuard:
    """What is held, and what is to be closed."""

    def __init__(self, hand: SessionHand) -> None:
        self._hand = hand
        self._held: dict[wire.SessionName, None] = {}
        self._called_in = time.monotonic()
        self._period: float | None = None

    @property
    def period(self) -> float:
        """Seconds between two signs of life: until the server was asked for its patience, it may have little."""
        return RETRY_SECONDS if self._period is None else self._period

    def obey(self, order: wire.GuardOrder, pool: ThreadPoolExecutor) -> None:
        match order.action:
            case wire.GuardAction.HOLD:
                self._held[order.session] = None
                self._ask(order.session)
            case wire.GuardAction.FORGET:
                self._held.pop(order.session, None)
            case wire.GuardAction.CLOSE:
                self._held.pop(order.session, None)
                pool.submit(self.end, order.session)

    def call_in(self, pool: ThreadPoolExecutor) -> None:
        """Give the held ones a sign of life, when it is time."""
        if time.monotonic() - self._called_in >= self.period:
            self._called_in = time.monotonic()
            for session in tuple(self._held):
                self._ask(session)
                pool.submit(self._look, session)

    def _ask(self, session: wire.SessionName) -> None:
        """Find out how patient the server is, unless that is known."""
        if self._period is None:
            try:
                self._period = call_in_seconds(self._hand.setting(session, TIMEOUT))
            except grpc.RpcError as error:
                logger.warning("how patient the server is could not be asked: %s", error)
            else:
                logger.info("sessions are called in on every %g s", self._period)

    def end_all(self, pool: ThreadPoolExecutor) -> None:
        """The worker is gone: nothing of it is to run on."""
        if self._held:
            logger.warning("the worker is gone: closing %d sessions", len(self._held))
        for session in tuple(self._held):
            pool.submit(self.end, session)

    def end(self, session: wire.SessionName) -> None:
        """Interrupt and close it, as soon as the server can be reached."""
        give_up = time.monotonic() + wire.GUARD_GIVE_UP_SECONDS
        while True:
            try:
                self._hand.interrupt(session)
            except grpc.RpcError:  # it was never opened, or the server is away: what follows tells
                pass
            try:
                self._hand.end_operations(session, SETTLE_SECONDS)
                self._hand.release(session)
            except grpc.RpcError as error:
                if time.monotonic() >= give_up:
                    logger.warning("session %s of %s was not closed: %s", session.session_id, session.user, error)
                    return
                time.sleep(RETRY_SECONDS)
            else:
                logger.warning("session %s of %s is closed", session.session_id, session.user)
                return

    def _look(self, session: wire.SessionName) -> None:
        try:
            self._hand.status(session)
        except grpc.RpcError as error:
            logger.warning("session %s could not be called in on: %s", session.session_id, error)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    first = sys.stdin.buffer.readline()
    if not first:
        return
    endpoint = msgspec.json.decode(first, type=wire.SparkAddress)
    logger.info("sessions on %s:%d are guarded", endpoint.host, endpoint.port)
    orders: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(orders,), daemon=True).start()
    with open_channel(endpoint) as server, ThreadPoolExecutor(_AT_ONCE) as pool:
        guard = SessionGuard(SessionHand(server, endpoint))
        while line := _next(orders, guard.period / 4):
            if line.strip():
                guard.obey(msgspec.json.decode(line, type=wire.GuardOrder), pool)
            guard.call_in(pool)
        guard.end_all(pool)


def _read(orders: queue.Queue[bytes]) -> None:
    for line in sys.stdin.buffer:
        orders.put(line)
    orders.put(b"")


def call_in_seconds(timeout: str) -> float:
    """Time between two signs of life where a server closes sessions after that time of silence, as Spark writes it: a third."""
    try:
        third = parse_duration_ms(timeout) / 3_000
    except ValueError:  # never, or nothing was set
        return CALL_IN_SECONDS
    return min(max(third, SHORTEST_SECONDS), CALL_IN_SECONDS)


def _next(orders: queue.Queue[bytes], seconds: float) -> bytes:
    """The next line, an empty one when it may be time to call in, or nothing when the worker is gone."""
    try:
        return orders.get(timeout=seconds)
    except queue.Empty:
        return b"\n"


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)  # a thread may still wait for its pipe
