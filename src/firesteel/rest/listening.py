"""uvicorn on a socket of ours, with our limits: what every endpoint for HTTP here stands on."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.rest.connection import BoundedConnection

GRACE_S = 1
"""Time that requests that are being answered have when the endpoint stops; then they are cut off."""

KEEP_ALIVE_S = 30
BACKLOG = 1_024


class Uvicorn(uvicorn.Server):
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


def uvicorn_config(app: ASGIApp, config: Configuration) -> uvicorn.Config:
    """An endpoint with the TLS of REST. Raises ConfigurationError for certificates that do not fit."""
    certificate = config.get_option(options.REST_CERTIFICATE)
    made = uvicorn.Config(
        app,
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
        ssl_keyfile=config.get_option(options.REST_PRIVATE_KEY) or None,
        ssl_ca_certs=config.get_option(options.REST_CA) or None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if config.get_option(options.REST_CA) else ssl.CERT_NONE,
    )
    try:
        made.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{options.REST_CERTIFICATE.key} {certificate}: {error}") from None
    return made


def listening(host: str, port: int, what: str) -> socket.socket:
    """A socket that listens there. Raises OSError, which says what can't be served."""
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
        raise OSError(error.errno, f"{what} can't listen on {host}:{port}: {error.strerror}") from error
    return listener
