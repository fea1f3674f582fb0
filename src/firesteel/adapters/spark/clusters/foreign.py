"""A Connect server that others have started, as the backend of a worker: neither started nor stopped here.

It looks like `jvm.server.SparkServer` to who uses it. What that does by the process id of its JVM has no counterpart.
"""

import asyncio
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path

from firesteel.adapters.spark.clusters.masters import SparkMaster, server_address
from firesteel.adapters.spark.clusters.reach import MasterUnreachable, driver_host
from firesteel.adapters.spark.clusters.story import ClusterStory
from firesteel.adapters.spark.wire import SparkAddress
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.resources import SparkApplication
from firesteel.runtime.background import BackgroundTasks

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Time between two looks whether the server is there."""
MISSES_MAX = 3
"""Looks in a row at a server that is not there, after which its attempts have failed."""


class ForeignServer:
    """One server, for as long as the worker lives."""

    story: ClusterStory | None = None
    pid: int | None = None
    silence = ""
    """It is others who look after its JVM."""

    def __init__(self, master: SparkMaster, printed: Path) -> None:
        """`printed` has the links to where Python functions of sessions would print: this server does not know them."""
        self._master, self._printed = master, printed
        self._generations: Iterator[int] = itertools.count(1)
        loop = asyncio.get_running_loop()
        self._endpoint: asyncio.Future[SparkAddress] = loop.create_future()
        self._death: asyncio.Future[FailureInfo] = loop.create_future()
        self._obstacle = ""
        self._background = BackgroundTasks()
        self.application_id = ""
        """Spark's own, once it was asked."""

    def start(self) -> None:
        """Begin to look for it; returns at once."""
        self._background.start(self._watch(), "connect-server")

    async def endpoint(self) -> SparkAddress:
        """Where it listens, once it can be reached."""
        return await asyncio.shield(self._endpoint)

    @property
    def current(self) -> SparkAddress | None:
        """The same, without waiting."""
        return self._endpoint.result() if self._endpoint.done() and not self._endpoint.cancelled() else None

    def death(self) -> asyncio.Future[FailureInfo]:
        """Set when it can't be reached any more. Not to be cancelled: shield it."""
        return self._death

    def waits_for(self) -> str:
        """Text for who waits for the endpoint: what it waits for."""
        return self._obstacle or f"{self._master.shown} to answer"

    def application(self) -> SparkApplication | None:
        return SparkApplication(self._master.shown, self.application_id)

    async def end_python_workers(self, server_session: str) -> None:
        """They are the server's own business."""
        await asyncio.to_thread((self._printed / server_session).unlink, missing_ok=True)

    async def renew(self) -> None:
        """Nothing: others use it, too."""

    async def close(self) -> None:
        """Let go of it. Idempotent."""
        await self._background.close()
        for future in (self._endpoint, self._death):
            future.cancel()

    async def _watch(self) -> None:
        misses = 0
        while True:
            try:
                await driver_host(self._master)
            except MasterUnreachable as unreachable:
                misses, self._obstacle = misses + 1, str(unreachable)
                if misses >= MISSES_MAX and self._endpoint.done():
                    self._lose()
            else:
                misses, self._obstacle = 0, ""
                if not self._endpoint.done():
                    self._endpoint.set_result(server_address(self._master, next(self._generations)))
            await asyncio.sleep(LOOK_SECONDS)

    def _lose(self) -> None:
        logger.warning("%s", self._obstacle)
        loop = asyncio.get_running_loop()
        death, self._death, self._endpoint = self._death, loop.create_future(), loop.create_future()
        death.set_result(
            FailureInfo(kind=FailureKind.ENVIRONMENT, message=self._obstacle, exception="ConnectServerLost")
        )
