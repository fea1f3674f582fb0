"""The ASGI application: from a request to its handler, and from whatever comes of that to an answer."""

import json
import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Receive, Scope, Send

from firesteel.model import options
from firesteel.model.stored import UNREADABLE
from firesteel.rest.bodies import chunks
from firesteel.rest.call import Call, Route, Services
from firesteel.rest.codecs import JSON, error_response, json_response
from firesteel.rest.compression import compressed
from firesteel.rest.dashboardfiles import dashboard_files
from firesteel.rest.docs import docs_page
from firesteel.rest.errors import RestError, bad_request, rest_error
from firesteel.rest.openapi import openapi_document
from firesteel.rest.routes import ROUTES, in_order
from firesteel.rest.security import LOOPBACK, NOBODY, Origins, Users, load_users

BODY_BYTES_MAX = 1 << 20
"""Largest body of a request that uploads nothing."""

RETRY_AFTER_S = "1"
"""Time to ask again after, while nobody leads."""

VERSION_PREFIX = "/v1"

_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}

BY_TICKET = "/spark/"
"""Begins the paths of routes by ticket: scripts of isolated pages ask first whether they may send their own headers."""

_TICKET_HEADERS = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "X-Requested-With"}

logger = logging.getLogger(__name__)


def rest_app(services: Services) -> ASGIApp:
    """Everything that the endpoint serves. Raises ConfigurationError for a users file that can't be read."""
    config = services.config
    users = load_users(config.get_option(options.REST_USERS_FILE))
    local_only = users.are_anybody and config.get_option(options.REST_BIND_ADDRESS) in LOOPBACK
    edge = _Edge(services, users, Origins(config.get_option(options.WEB_ALLOW_ORIGIN), local_only=local_only))
    paths = [Path(route.pattern, edge.endpoint(route), methods=[route.method]) for route in in_order(ROUTES)]
    document = json.dumps(openapi_document(ROUTES)).encode()
    own = (
        ("/openapi.json", Response(document, headers={"Content-Type": JSON})),
        ("/docs", HTMLResponse(docs_page(ROUTES))),
    )
    paths += [Path(path, edge.page(response)) for path, response in own]
    paths += [Path(path, file.serve) for path, file in dashboard_files().items()]
    app = Starlette(routes=paths, exception_handlers={HTTPException: edge.refused})
    return _Unversioned(app)


class _Unversioned:
    """Serves without /v1 what is served below it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if path.startswith(f"{VERSION_PREFIX}/"):
                scope = {**scope, "path": path.removeprefix(VERSION_PREFIX), "firesteel.path": path}
        await self._app(scope, receive, send)


class _Edge:
    """The edge that requests come in at: asks who it is, reads the body, and turns errors into answers."""

    def __init__(self, services: Services, users: Users, origins: Origins) -> None:
        self._services, self._users, self._origins = services, users, origins

    def endpoint(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            return await self._guarded(route, request)

        return serve

    def page(self, response: Response) -> Callable[[Request], Awaitable[Response]]:
        """Something that says nothing of this cluster: anybody may read it."""

        async def serve(request: Request) -> Response:
            return response

        return serve

    async def refused(self, request: Request, error: Exception) -> Response:
        """Answer to what no route takes: unknown paths and methods; and to what browsers ask before they ask."""
        assert isinstance(error, HTTPException), "that is what this is registered for"
        if request.method == "OPTIONS" and (allowed := self._origins.allowed(request.headers.get("origin"))):
            return Response(status_code=204, headers={"Access-Control-Allow-Origin": allowed, **_PREFLIGHT_HEADERS})
        if request.method == "OPTIONS" and error.status_code == 405 and request.scope["path"].startswith(BY_TICKET):
            return Response(status_code=204, headers=_TICKET_HEADERS)
        if error.status_code == 404:
            path = request.scope.get("firesteel.path", request.url.path)
            return error_response(RestError(404, f"Not found: {path}"))
        response = error_response(RestError(error.status_code, f"{request.method} is not possible here."))
        response.headers.update(error.headers or {})
        return response

    async def _guarded(self, route: Route, request: Request) -> Response:
        try:
            if route.by_ticket:
                self._origins.check_host(request.headers.get("host", ""))
            else:
                self._origins.check(request.method, request.headers, request.url.scheme, changes=route.changes)
            response = await compressed(request, await self._serve(route, request))
        except Exception as error:
            response = self._problem(request, error)
        if allowed := self._origins.allowed(request.headers.get("origin")):
            response.headers["Access-Control-Allow-Origin"] = allowed
            response.headers.append("Vary", "Origin")
        return response

    def _problem(self, request: Request, error: Exception) -> Response:
        known = bad_request("The client has gone.") if isinstance(error, ClientDisconnect) else rest_error(error)
        if known is not None:
            if isinstance(error, OSError):
                logger.warning("%s %s: %s", request.method, request.url.path, known.message)
            response = error_response(known)
            if known.status == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
            if known.status == 503:
                response.headers["Retry-After"] = RETRY_AFTER_S
            return response
        logger.error("%s %s broke", request.method, request.url.path, exc_info=error)
        trace = "".join(traceback.format_exception(error))
        told = f"<Exception on server side:\n{trace}\nEnd of exception on server side>"
        return error_response(RestError(500, "Internal server error."), told)

    async def _serve(self, route: Route, request: Request) -> Response:
        user = NOBODY if route.by_ticket else self._users.identify(request.headers.get("authorization"))
        if not user.may(route.role):
            raise RestError(403, f"{user.name} may not do this: it takes the role {route.role.value}.")
        if self._services.read_only and route.changes:
            raise RestError(405, self._services.read_only)
        forwarding = self._services.forwarding
        while forwarding is not None and not route.of_this_master and forwarding.is_due(request):
            if (forwarded := await forwarding.forward(request)) is not None:
                return forwarded
        query = {each.name: each.value(request.query_params.get(each.name)) for each in route.query}
        body = None if route.takes_upload else await _body(route, request)
        answer = await route.handler(Call(request, self._services, user, query, body))
        return answer if isinstance(answer, Response) else json_response(answer, route.status)


async def _body(route: Route, request: Request) -> Any:
    """The body as the route's type; clients send one with every request, also where it means nothing."""
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise bad_request("File uploads not allowed.")
    if route.body is None:
        return None
    content = bytearray()
    async for chunk in chunks(request):
        content += chunk
        if len(content) > BODY_BYTES_MAX:
            raise RestError(413, f"The request has more than {BODY_BYTES_MAX} bytes.")
    try:
        return msgspec.json.decode(content or b"{}", type=route.body)
    except UNREADABLE as error:
        raise bad_request(f"Request did not match expected format: {error}") from None
