"""One Spark Connect server JVM: started, found, watched, ended."""

import asyncio
import logging
import os
import re
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from firesteel.adapters.inspection.rotation import open_for_appending
from firesteel.adapters.spark.clusters.masters import Driver, MasterKind
from firesteel.adapters.spark.jvm import launch, supervisor
from firesteel.adapters.spark.wire import SparkAddress

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.02
_FOLLOW_SECONDS = 0.2
LAST_DEEDS_SECONDS = 5.0
"""Time in which a driver deletes the pods of its executors, also when its worker was killed; others are ended at once."""
_STARTED = re.compile(re.escape(launch.STARTED) + r"\S*:(\d+)")
_SETTING = re.compile(r"\[INVALID_CONF_VALUE\.\w+\] (The value .+?\.) SQLSTATE")
MAX_LOG_TAIL_BYTES = 4_096


class JvmDied(Exception):
    """The server's process has ended, by itself unless `why` says more. `status` as of a shell, `tail` its last lines."""

    def __init__(self, status: int, log: Path, why: str = "") -> None:
        self.status, self.log, self.tail = status, log, _tail(log)
        super().__init__(why or _death(status, self.tail))


class SparkJvm:
    """A JVM from start to end; used once. `ephemeral` is deleted should this process be killed; `driver` says where executors
    are, if elsewhere."""

    def __init__(
        self,
        command: list[str],
        log: Path,
        generation: int,
        ephemeral: Path | None = None,
        *,
        driver: Driver | None = None,
    ) -> None:
        self._command, self.log, self._generation, self._driver = command, log, generation, driver
        self._ephemeral = "" if ephemeral is None else str(ephemeral)
        self._token = secrets.token_urlsafe(24)
        self._process: asyncio.subprocess.Process | None = None
        self._why = ""

    async def start(self) -> None:
        """Start the process. Its working directory is the worker's: relative paths in queries mean what they say."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        work_dir = self.log.parent.parent
        modules = launch.place_modules(work_dir)
        has_pods = self._driver is not None and self._driver.master.kind is MasterKind.KUBERNETES
        grace = str(LAST_DEEDS_SECONDS if has_pods else 0.0)
        wrapper = [sys.executable, "-I", "-S", supervisor.__file__, self._ephemeral, grace]
        with open_for_appending(self.log) as log:
            self._process = await asyncio.create_subprocess_exec(
                *wrapper,
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=launch.jvm_environment(self._token, work_dir / launch.PRINTED, modules, self._driver),
                process_group=0,
            )

    @property
    def pid(self) -> int | None:
        """The supervisor's pid while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def endpoint(self) -> SparkAddress:
        """Address of the server, once it listens. Raises JvmDied."""
        assert self._process is not None, "started first"
        with open(self.log, "rb") as log:  # noqa: ASYNC230 - a local file of a few lines
            text = b""
            while True:
                text += log.read()
                found = _STARTED.search(text.decode(errors="replace"))
                if found is not None:
                    return SparkAddress(int(found[1]), self._token, self._generation)
                if self._process.returncode is not None:
                    raise JvmDied(self._process.returncode, self.log)
                await asyncio.sleep(_POLL_SECONDS)

    async def lines(self) -> AsyncIterator[str]:
        """The lines of its log as they come, until it has ended."""
        assert self._process is not None, "started first"
        with open(self.log, "rb") as log:  # noqa: ASYNC230 - a local file of a few lines
            rest = b""
            while True:
                has_ended = self._process.returncode is not None
                if os.fstat(log.fileno()).st_size < log.tell():  # it was full, and was begun anew
                    log.seek(0)
                *lines, rest = (rest + log.read()).split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace")
                if has_ended:
                    return
                await asyncio.sleep(_FOLLOW_SECONDS)

    async def died(self) -> JvmDied:
        """Wait for the end of the process."""
        assert self._process is not None, "started first"
        return JvmDied(await self._process.wait(), self.log, self._why)

    async def kill(self, why: str = "") -> None:
        """End it, at once but for `LAST_DEEDS_SECONDS`; `why` is told of its death. Idempotent."""
        process, self._why = self._process, self._why or why
        if process is None or process.stdin is None:
            return
        process.stdin.write(b"\n")  # says that this end was closed on purpose
        process.stdin.close()
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)  # it may have been stopped with its JVM
        await process.wait()


def _death(status: int, tail: str) -> str:
    if "java.lang.OutOfMemoryError" in tail:
        return "the Spark backend ran out of memory (heap); raise taskmanager.spark.heap"
    if (setting := _SETTING.search(tail)) is not None:
        return f"Spark does not start with its settings: {setting[1]}"
    if status == 128 + 9:
        return "the Spark backend was killed (SIGKILL): did the machine run out of memory? The end of its log is in the trace"
    return f"the Spark backend ended with status {status}; the end of its log is in the trace"


def _tail(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - MAX_LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
