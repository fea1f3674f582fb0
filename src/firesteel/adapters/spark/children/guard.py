"""The worker's side of the guard: a process that closes sessions on a server of others when the worker is gone."""

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from firesteel.adapters.spark import wire

logger = logging.getLogger(__name__)

PROGRAM = "firesteel.adapters.spark.task.sessionguard"
END_SECONDS = 15.0
"""Time that it has for what is left when the worker ends."""
CLOSINGS_MAX = 1_000
"""Sessions that are remembered because they may still be being closed: the newest."""
ENDINGS_MAX = 3
"""Processes that are let end, one after the other, when each is killed over what is left."""


class SessionGuard:
    """One for each worker that uses such a server."""

    def __init__(self, endpoint: wire.SparkAddress, log: Path, program: str = PROGRAM) -> None:
        self._endpoint, self._log, self._program = endpoint, log, program
        self._process: subprocess.Popen[bytes] | None = None
        self._held: dict[wire.SessionName, None] = {}
        self._closing: dict[wire.SessionName, float] = {}
        """When a process was told to close these, oldest first: it may still try to. Closing one twice is harmless."""

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
        self._note(action, session)
        try:
            self._write(wire.GuardOrder(action, session))
        except OSError:
            self._start_anew()

    async def close(self) -> None:
        """Let it end, and with it what is left. Idempotent."""
        for _ in range(ENDINGS_MAX):
            if self._process is not None and self._process.poll() is not None and (self._held or self._pending()):
                self._start_anew()
            process = self._process
            if process is None or process.stdin is None:
                return
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                if await asyncio.to_thread(process.wait, END_SECONDS) == 0:
                    break
            except subprocess.TimeoutExpired:
                logger.warning("sessions on the Connect server are still being closed; see %s", self._log)
                break
        self._process = None

    def _note(self, action: wire.GuardAction, session: wire.SessionName) -> None:
        """What a process that takes the place of another has to know."""
        self._held.pop(session, None)
        self._closing.pop(session, None)
        if action is wire.GuardAction.HOLD:
            self._held[session] = None
        if action is wire.GuardAction.CLOSE:
            self._closing[session] = time.monotonic()
            while len(self._closing) > CLOSINGS_MAX:
                del self._closing[next(iter(self._closing))]

    def _pending(self) -> list[wire.SessionName]:
        """Sessions that the process may still try to close."""
        given_up = time.monotonic() - wire.GUARD_GIVE_UP_SECONDS
        return [session for session, since in self._closing.items() if since > given_up]

    def _start_anew(self) -> None:
        """The new one gets what is held, and what its forerunner may not have closed. When it can't be had, the next order
        tries again."""
        logger.warning("the guard of sessions has ended: another one is started; its log is %s", self._log)
        ended = self._process
        assert ended is not None, "what was never started, or was let end, fails no write"
        try:
            self.start()
            for session in self._held:
                self._write(wire.GuardOrder(wire.GuardAction.HOLD, session))
            for session in self._pending():
                self._write(wire.GuardOrder(wire.GuardAction.CLOSE, session))
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
