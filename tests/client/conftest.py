"""A cluster without Spark behind a REST endpoint, in a thread of its own, for clients that block."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from firesteel.model.ids import JobID
from firesteel.model.views import JobView
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import LIMIT_S, RestCluster, rest_cluster

LIFE_S = 800.0
"""How long the cluster of a test may live: trying all that the document allows takes a while."""


class Served:
    """`rest` lives in another thread: use `do` for everything that touches it."""

    def __init__(self, directory: Path, script: TaskScript) -> None:
        self._directory, self._script = directory, script
        self._up: Future[tuple[asyncio.AbstractEventLoop, RestCluster]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        self._loop, self.rest = self._up.result(LIMIT_S)
        self.address = self.rest.server.address.removeprefix("http://")

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        try:
            async with rest_cluster(self._directory, script=self._script, limit_s=LIFE_S) as rest:
                self._up.set_result((asyncio.get_running_loop(), rest))
                await self._over.wait()
        except BaseException as error:
            if self._up.done():
                raise
            self._up.set_exception(error)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine beside the cluster."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call something beside the cluster."""

        async def work() -> Any:
            return function(*arguments)

        return self.do(work())

    def until(self, job_id: JobID, holds: Callable[[JobView], bool]) -> None:
        """Return when it holds for what the master tells of a job: it is told of an attempt after that has begun."""

        async def held() -> None:
            while not holds(await self.rest.cluster.client.request_job(job_id)):
                await asyncio.sleep(0.01)

        self.do(held())

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(LIMIT_S)


@pytest.fixture
def script() -> TaskScript:
    return TaskScript()


@pytest.fixture
def served(tmp_path: Path, script: TaskScript) -> Iterator[Served]:
    made = Served(tmp_path, script)
    yield made
    made.end()


async def question(reader: asyncio.StreamReader) -> bytes:
    """A request's head. Raises ConnectionError for TLS, which endpoints without it end at once, and when nothing is asked."""
    first = await reader.read(1)
    if first in (b"\x16", b""):
        raise ConnectionError("this is no HTTP")
    return first + await reader.readuntil(b"\r\n\r\n")
