"""The REST endpoint as something that starts and stops: uvicorn on a socket of ours."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import uvicorn

from firesteel.adapters.rpc.settings import rest_tls
from firesteel.adapters.storage.files import DirectoryFiles, Files
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.rest.app import rest_app
from firesteel.rest.call import Services
from firesteel.rest.connection import BoundedConnection
from firesteel.rest.forwarding import Forwarding
from firesteel.rest.jars import Jars
from firesteel.rest.operations import Operations
from firesteel.rest.security import LOOPBACK
from firesteel.rest.uploads import Uploads
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.client import ClusterGateway
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.register import Leadership
from firesteel.runtime.services import Clock

GRACE_S = 1
"""Time that requests that are being answered have when the endpoint stops; then they are cut off."""

KEEP_ALIVE_S = 30
BACKLOG = 1_024
_BYTES_PER_MIB = 1024 * 1024
logger = logging.getLogger(__name__)


class RestServer:
    """Serves from `start` to `stop`. `address` is where."""

    def __init__(self, services: Services) -> None:
        self._services, self._config = services, services.config
        self._app = rest_app(services)
        self._tasks = BackgroundTasks(lambda error: logger.error("the REST endpoint has ended", exc_info=error))
        self._server: _Uvicorn | None = None
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
        self._socket = _listening(host, port)
        try:
            self._server = _Uvicorn(self._uvicorn_config())
        except BaseException:
            self._socket.close()
            raise
        if host not in LOOPBACK and not self._config.get_option(options.REST_USERS_FILE):
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
        if self._services.forwarding is not None:
            await self._services.forwarding.close()
        if self._socket is not None:
            self._socket.close()

    def _uvicorn_config(self) -> uvicorn.Config:
        certificate = self._config.get_option(options.REST_CERTIFICATE)
        config = uvicorn.Config(
            self._app,
            http=BoundedConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            ssl_certfile=certificate or None,
            ssl_keyfile=self._config.get_option(options.REST_PRIVATE_KEY) or None,
            ssl_ca_certs=self._config.get_option(options.REST_CA) or None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if self._config.get_option(options.REST_CA) else ssl.CERT_NONE,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"{options.REST_CERTIFICATE.key} {certificate}: {error}") from None
        return config


class _Uvicorn(uvicorn.Server):
    """Leaves signals to whoever runs the process, and says when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


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
) -> RestServer:
    """The REST endpoint of the master that `gateway` asks, to be started. Raises ConfigurationError.

    The gateway should raise NoLeader at once rather than wait: clients are told to come back. Uploads lie
    in `work_dir/uploads` until their job is safe; what an earlier endpoint has left there is deleted. Files to be run
    later are kept in `jar_files`. `shut_down` is called for DELETE /cluster, which is refused without.
    With `leadership`, requests are handed on while another master leads.
    """
    limit_bytes = config.get_option(options.REST_MAX_CONTENT_LENGTH) * _BYTES_PER_MIB
    services = Services(
        gateway=gateway,
        config=config,
        clock=clock or SystemClock(),
        operations=Operations(),
        uploads=Uploads(work_dir, limit_bytes),
        jars=Jars(jar_files or DirectoryFiles(work_dir / "jars")),
        log_file=log_file,
        shut_down=shut_down,
        forwarding=Forwarding(leadership, rest_tls(config)) if leadership is not None else None,
    )
    return RestServer(services)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sends without delay only where it is.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        text = f"the REST endpoint can't listen on {host}:{port} (rest.bind-address, rest.port): {error.strerror}"
        raise OSError(error.errno, text) from error
    return listener
