"""The history server as a process of its own: `firesteel historyserver`."""

import asyncio
import contextlib
import logging
import os
from pathlib import Path

from firesteel.adapters.history.gateway import READ_ONLY, HistoryGateway
from firesteel.adapters.history.index import HistoryIndex, Place
from firesteel.adapters.history.places import archive_files
from firesteel.adapters.storage.localdirectories import as_path
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.adapters.storage.schemes import scheme_of
from firesteel.adapters.storage.temporary import temporary_directory
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.rest.server import RestServer, serve_rest
from firesteel.runtime.background import BackgroundTasks

logger = logging.getLogger(__name__)


class HistoryServer:
    """Shows the archives of some directories by REST. `failed` is set to what it can't go on from."""

    def __init__(self, config: Configuration) -> None:
        """Raises ConfigurationError."""
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._interval_s = config.get_option(options.HISTORY_REFRESH_INTERVAL) / 1_000
        self._config = config.merged(
            {
                options.REST_BIND_ADDRESS.key: config.get_option(options.HISTORY_WEB_ADDRESS),
                options.REST_PORT.key: str(config.get_option(options.HISTORY_WEB_PORT)),
                options.WEB_REFRESH_INTERVAL.key: f"{config.get_option(options.HISTORY_WEB_REFRESH_INTERVAL)} ms",
            }
        )
        self._ends = contextlib.AsyncExitStack()
        self._tasks = BackgroundTasks(self._broke)
        retained = config.get_option(options.HISTORY_RETAINED_JOBS)
        if retained == 0 or retained < -1:
            raise ConfigurationError(f"{options.HISTORY_RETAINED_JOBS.key}: {retained} is neither -1 nor above 0")
        with contextlib.ExitStack() as begun:  # a wrong configuration leaves nothing
            self._work_dir = begun.enter_context(temporary_directory("firesteel-historyserver-"))
            places = _places(config, self._work_dir / "archives")
            self._ends.callback(begun.pop_all().close)
        forgets = config.get_option(options.HISTORY_CLEAN_EXPIRED)
        self.index = HistoryIndex(places, forgets_deleted=forgets, retained=retained)
        self._ends.callback(self.index.close)
        self.rest: RestServer = serve_rest(
            HistoryGateway(self.index), self._config, work_dir=self._work_dir, read_only=READ_ONLY
        )

    def __str__(self) -> str:
        return f"history server, REST at {self.rest.address}"

    async def start(self) -> None:
        """Serve at once; jobs are listed as soon as their archives have been found. Raises OSError when the port is taken."""
        self._ends.push_async_callback(self.rest.stop)
        try:
            await self.rest.start()
        except OSError as error:
            await self._ends.aclose()
            keys = f"{options.HISTORY_WEB_ADDRESS.key}, {options.HISTORY_WEB_PORT.key}"
            raise OSError(error.errno, f"{error.strerror} (here: {keys})") from None
        self._ends.push_async_callback(self._tasks.close)
        for place in self.index.places:
            self._tasks.start(self._refresh(place), f"looking for archives in {place.uri}")

    async def stop(self) -> None:
        await self._ends.aclose()

    async def _refresh(self, place: Place) -> None:
        """Each directory for itself: one that hangs holds up no other."""
        await asyncio.to_thread(_announce_missing, place.uri)
        while True:
            await self.index.refresh_place(place)
            await asyncio.sleep(self._interval_s)

    def _broke(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)


def _places(config: Configuration, cache: Path) -> list[Place]:
    key, settings = options.HISTORY_ARCHIVE_DIRS.key, hadoop_settings(config, os.environ)
    uris = [uri for each in config.get_option(options.HISTORY_ARCHIVE_DIRS).split(",") if (uri := each.strip())]
    if not uris:
        text = f"set {key}: which directories of archives to show, parted by commas"
        raise ConfigurationError(f"{text}; masters write there what {options.ARCHIVE_DIR.key} says")
    return [
        Place(uri, archive_files(key, uri, settings, cache / str(number)))
        for number, uri in enumerate(dict.fromkeys(uris))
    ]


def _announce_missing(uri: str) -> None:
    """Blocks, as long as a mount hangs."""
    if scheme_of(uri).ours == "local" and not as_path(uri).is_dir():
        logger.warning("%s is no directory now: its jobs are shown when it is there", uri)
