"""The REST endpoint as something that starts and stops: uvicorn on a socket of ours."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from firesteel.adapters.rpc.settings import rest_tls
from firesteel.adapters.storage.files import DirectoryFiles, Files
from firesteel.model import options
from firesteel.model.options import Configuration
from firesteel.rest.app import rest_app
from firesteel.rest.broadcast import Broadcast
from firesteel.rest.call import Services
from firesteel.rest.forwarding import Forwarding
from firesteel.rest.jars import Jars
from firesteel.rest.listening import Uvicorn, listening, uvicorn_config
from firesteel.rest.operations import Operations
from firesteel.rest.security import LOOPBACK
from firesteel.rest.uploads import Uploads
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.client import ClusterGateway
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.metrics import MetricRegistry
from firesteel.runtime.register import Leadership
from firesteel.runtime.services import Clock

_BYTES_PER_MIB = 1024 * 1024
logger = logging.getLogger(__name__)


class RestServer:
    """Serves from `start` to `stop`. `address` is where."""

    def __init__(self, services: Services) -> None:
        self._services, self._config = services, services.config
        self._app = rest_app(services)
        self._tasks = BackgroundTasks(lambda error: logger.error("the REST endpoint has ended", exc_info=error))
        self._server: Uvicorn | None = None
        self._socket: socket.socket | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    @property
    def host_port(self) -> tuple[str, int]:
        """Host and port at which it listens, once it is started."""
        assert self._socket is not None, "not started"
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    @property
    def address(self) -> str:
        """Like http://127.0.0.1:8081."""
        return self.address_for(self.host_port[0])

    def address_for(self, name: str) -> str:
        """URL for others, who call this machine `name` where the endpoint listens on all its addresses."""
        host, port = self.host_port
        host = name if host in ("0.0.0.0", "::") else host
        scheme = "https" if self._config.get_option(options.REST_CERTIFICATE) else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken, ConfigurationError for certificates that do not fit."""
        host, port = self._config.get_option(options.REST_BIND_ADDRESS), self._config.get_option(options.REST_PORT)
        await asyncio.to_thread(self._services.uploads.clear)
        self._socket = listening(host, port, "the REST endpoint (rest.bind-address, rest.port)")
        try:
            self._server = Uvicorn(uvicorn_config(self._app, self._config))
        except BaseException:
            self._socket.close()
            raise
        can_change = not self._services.read_only
        if can_change and host not in LOOPBACK and not self._config.get_option(options.REST_USERS_FILE):
            logger.warning("whoever reaches %s can run code here: set %s", host, options.REST_USERS_FILE.key)
        self._tasks.start(self._server.serve(sockets=[self._socket]), "rest")
        await self._server.up.wait()
        logger.info("REST endpoint at %s", self.address)

    async def stop(self) -> None:
        """Take no requests any more, cut off those that wait for something, and end. Idempotent."""
        if self._server is not None:
            self._services.waits.stop()
            self._server.should_exit = True
            await self._tasks.join()
        await self._services.operations.close()
        await self._services.broadcast.close()
        if self._services.forwarding is not None:
            await self._services.forwarding.close()
        if self._socket is not None:
            self._socket.close()


def serve_rest(
    gateway: ClusterGateway,
    config: Configuration,
    *,
    work_dir: Path,
    jar_files: Files | None = None,
    log_file: Path | None = None,
    clock: Clock | None = None,
    shut_down: Callable[[], None] | None = None,
    leadership: Leadership | None = None,
    standbys: Callable[[], Sequence[str]] = tuple,
    read_only: str = "",
    registry: MetricRegistry | None = None,
) -> RestServer:
    """The REST endpoint of the master that `gateway` asks, to be started. Raises ConfigurationError.

    The gateway should raise NoLeader at once rather than wait: clients are told to come back. Uploads lie
    in `work_dir/uploads` until their job is safe; what an earlier endpoint has left there is deleted. Files to be run
    later are kept in `jar_files`. `shut_down` is called for DELETE /cluster, which is refused without.
    With `leadership`, requests are handed on while another master leads; `standbys` names those that watch this one. What changes something is refused with the
    sentence `read_only`, where there is one.
    `registry` has what this process measures of itself.
    """
    limit_bytes = config.get_option(options.REST_MAX_CONTENT_LENGTH) * _BYTES_PER_MIB
    clock = clock or SystemClock()
    services = Services(
        gateway=gateway,
        config=config,
        clock=clock,
        broadcast=Broadcast(gateway, clock),
        operations=Operations(),
        uploads=Uploads(work_dir, limit_bytes),
        jars=Jars(jar_files or DirectoryFiles(work_dir / "jars")),
        log_file=log_file,
        shut_down=shut_down,
        forwarding=Forwarding(leadership, rest_tls(config)) if leadership is not None else None,
        standbys=standbys,
        read_only=read_only,
        registry=registry or MetricRegistry(),
    )
    return RestServer(services)
