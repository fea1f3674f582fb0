"""The worker's side of the guard: a process that closes sessions on a server of others when the worker is gone."""

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from firesteel.adapters.spark import wire

logger = logging.getLogger(__name__)

PROGRAM = "firesteel.adapters.spark.task.sessionguard"
END_SECONDS = 15.0
"""Time that it has for what is left when the worker ends."""


class SessionGuard:
    """One for each worker that uses such a server."""

    def __init__(self, endpoint: wire.SparkAddress, log: Path, program: str = PROGRAM) -> None:
        self._endpoint, self._log, self._program = endpoint, log, program
        self._process: subprocess.Popen[bytes] | None = None
        self._held: dict[wire.SessionName, None] = {}
        """What a process that takes the place of another has to know."""

    def start(self) -> None:
        """Start the process, in a session of its own: what ends the worker's group does not end it.

        Not by asyncio, which kills what it has started when it goes itself.
        """
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                (sys.executable, "-m", self._program),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._write(self._endpoint)

    def order(self, action: wire.GuardAction, session: wire.SessionName) -> None:
        """Tell it, or one that is started in its place when it has ended; nobody waits for an answer."""
        self._held.pop(session, None)
        if action is wire.GuardAction.HOLD:
            self._held[session] = None
        try:
            self._write(wire.GuardOrder(action, session))
        except OSError:
            logger.warning("the guard of sessions has ended: another one is started; its log is %s", self._log)
            self._start_anew(wire.GuardOrder(action, session))

    async def close(self) -> None:
        """Let it end, and with it what is left. Idempotent."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            await asyncio.to_thread(process.wait, END_SECONDS)
        except subprocess.TimeoutExpired:
            logger.warning("sessions on the Connect server are still being closed; see %s", self._log)

    def _start_anew(self, order: wire.GuardOrder) -> None:
        """The new one gets what is held, and the order that its forerunner did not get. When it can't be had, the next order
        tries again."""
        ended = self._process
        assert ended is not None, "what was never started, or was let end, fails no write"
        try:
            self.start()
            for session in self._held:
                self._write(wire.GuardOrder(wire.GuardAction.HOLD, session))
            if order.action is not wire.GuardAction.HOLD:
                self._write(order)
        except OSError as error:
            logger.warning("there is no guard of sessions until the next one begins or ends: %s", error)
        if self._process is not ended:
            _bury(ended)

    def _write(self, message: msgspec.Struct) -> None:
        """Small lines to who reads at once: nothing to wait for. Raises OSError when it has ended."""
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        self._process.stdin.flush()


def _bury(process: subprocess.Popen[bytes]) -> None:
    """Take note of its end, for which the loop does not wait."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    threading.Thread(target=process.wait, name="sessionguard-end", daemon=True).start()
