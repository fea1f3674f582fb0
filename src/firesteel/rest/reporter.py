"""A worker's own endpoint for Prometheus, where `metrics.reporter.prom.port` asks for one."""

import asyncio
import errno
import logging
import socket

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from firesteel.adapters.metrics.exposition import CONTENT_TYPE, exposition
from firesteel.adapters.metrics.figures import Figures
from firesteel.model import options
from firesteel.model.metric import Scope
from firesteel.model.options import Configuration
from firesteel.rest.codecs import error_response
from firesteel.rest.errors import RestError
from firesteel.rest.listening import Uvicorn, listening, uvicorn_config
from firesteel.rest.security import LOOPBACK, Origins, load_users
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.metrics import MetricRegistry

logger = logging.getLogger(__name__)


class PrometheusReporter:
    """Serves GET /metrics from `start` to `stop`, to users of `rest.users-file` and with the REST endpoint's TLS where
    those are configured for the worker."""

    def __init__(self, registry: MetricRegistry, config: Configuration, worker: str) -> None:
        """Raises ConfigurationError."""
        self._registry, self._config, self._worker = registry, config, worker
        host = config.get_option(options.PROMETHEUS_HOST)
        self._users = load_users(config.get_option(options.REST_USERS_FILE))
        self._origins = Origins("", local_only=self._users.are_anybody and host in LOOPBACK)
        self._tasks = BackgroundTasks(lambda error: logger.error("the metrics endpoint has ended", exc_info=error))
        self._server: Uvicorn | None = None
        self._socket: socket.socket | None = None

    @property
    def port(self) -> int:
        """Port that it serves at, once it is started."""
        assert self._socket is not None, "not started"
        return int(self._socket.getsockname()[1])

    async def start(self) -> None:
        """Raises OSError when no port of the range is free, ConfigurationError for certificates that do not fit."""
        self._socket = self._listen()
        app = Starlette(routes=[Route("/metrics", self._serve)])
        try:
            self._server = Uvicorn(uvicorn_config(app, self._config))
        except BaseException:
            self._socket.close()
            raise
        self._tasks.start(self._server.serve(sockets=[self._socket]), "metrics")
        await self._server.up.wait()
        logger.info("metrics for Prometheus at port %d", self.port)

    async def stop(self) -> None:
        """Idempotent."""
        if self._server is not None:
            self._server.should_exit = True
            await self._tasks.join()
        if self._socket is not None:
            self._socket.close()

    async def _serve(self, request: Request) -> Response:
        try:
            self._origins.check(request.method, request.headers, request.url.scheme)
            self._users.identify(request.headers.get("authorization"))
        except RestError as error:
            response = error_response(error)
            if error.status == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
            return response
        figures = Figures(Scope.TASKMANAGER, self._registry.values(), {"tm_id": self._worker})
        return Response(await asyncio.to_thread(exposition, [figures]), headers={"Content-Type": CONTENT_TYPE})

    def _listen(self) -> socket.socket:
        """The first port of the range that is free."""
        host, ports = self._config.get_option(options.PROMETHEUS_HOST), self._config.get_option(options.PROMETHEUS_PORT)
        what = f"the worker's metrics ({options.PROMETHEUS_HOST.key}, {options.PROMETHEUS_PORT.key})"
        for port in ports:
            try:
                return listening(host, port, what)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port == ports[-1]:
                    raise
        raise AssertionError("a reporter has ports")
