"""A server that answers as the API server of Kubernetes does, as far as firesteel asks it: a program for tests.

    python -m tests.durable.fakekubernetes PORT STATE-FILE [CERTIFICATE KEY]

Who sends the token `good` may do everything in the namespaces there are, `reader` may get only; nobody else is known.
What it has is in the file when it has answered, so it may be killed and started again.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

NAMESPACES = ("default", "firesteel")
VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}
GROUPS = {"configmaps": "", "leases": "coordination.k8s.io"}

Object = dict[str, Any]


class Refused(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.answer = JSONResponse({"kind": "Status", "reason": reason, "message": message, "code": code}, code)


class Objects:
    """All there are, by path."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.by_path: dict[str, Object] = json.loads(file.read_text()) if file.exists() else {}
        self.version = max((version_of(each) for each in self.by_path.values()), default=0)
        self.events: list[tuple[str, str, Object]] = []
        self.changed = asyncio.Condition()

    async def put(self, path: str, content: Object, event: str) -> Object:
        self.version += 1
        content["metadata"]["resourceVersion"] = str(self.version)
        if event == "DELETED":
            del self.by_path[path]
        else:
            self.by_path[path] = content
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps(self.by_path))
        written.replace(self._file)  # killed at any moment it leaves a whole file, as etcd does
        async with self.changed:
            self.events.append((path, event, content))
            self.changed.notify_all()
        return content

    def get(self, path: str) -> Object:
        kind, name = path.split("/")[-2:]
        if path not in self.by_path:
            raise Refused(404, "NotFound", f'{kind} "{name}" not found')
        return self.by_path[path]


def version_of(content: Object) -> int:
    return int(content["metadata"]["resourceVersion"])


def merged(old: Any, change: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(change, dict):
        return change
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class Server:
    def __init__(self, file: Path) -> None:
        self._objects = Objects(file)
        place = "/namespaces/{namespace}/{kind:str}"
        paths = [f"/api/v1{place}", f"/apis/coordination.k8s.io/v1{place}"]
        self.app = Starlette(
            routes=[
                *(Route(path, self._collection, methods=["GET", "POST"]) for path in paths),
                *(Route(f"{path}/{{name}}", self._one, methods=["GET", "PATCH", "DELETE"]) for path in paths),
            ],
            exception_handlers={Refused: lambda request, error: error.answer},
        )

    async def _collection(self, request: Request) -> Response:
        if request.method == "GET":
            self._admit(request, "watch")
            name = request.query_params["fieldSelector"].removeprefix("metadata.name=")
            limit_s = float(request.query_params["timeoutSeconds"])
            return StreamingResponse(self._watched(f"{request.url.path}/{name}", limit_s))
        self._admit(request, "create")
        content = await request.json()
        name, namespace = content["metadata"]["name"], request.path_params["namespace"]
        path = f"{request.url.path}/{name}"
        if namespace not in NAMESPACES:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        if path in self._objects.by_path:
            raise Refused(409, "AlreadyExists", f'{request.path_params["kind"]} "{name}" already exists')
        return JSONResponse(await self._objects.put(path, content, "ADDED"), 201)

    async def _one(self, request: Request) -> Response:
        self._admit(request, VERBS[request.method])
        path = request.url.path
        found = self._objects.get(path)
        if request.method == "GET":
            return JSONResponse(found)
        if request.method == "DELETE":
            return JSONResponse(await self._objects.put(path, found, "DELETED"))
        if request.headers["content-type"] != "application/merge-patch+json":
            raise Refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        change = await request.json()
        found = self._objects.get(path)
        if change.get("metadata", {}).get("resourceVersion") not in (None, found["metadata"]["resourceVersion"]):
            raise Refused(
                409, "Conflict", "the object has been modified; please apply your changes to the latest version"
            )
        return JSONResponse(await self._objects.put(path, merged(found, change), "MODIFIED"))

    def _admit(self, request: Request, verb: str) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        kind, namespace = request.path_params["kind"], request.path_params["namespace"]
        if token not in ("good", "reader"):
            raise Refused(401, "Unauthorized", "Unauthorized")
        if token == "reader" and verb != "get":
            what = f'{kind} is forbidden: User "reader" cannot {verb} resource "{kind}" in API group "{GROUPS[kind]}"'
            raise Refused(403, "Forbidden", f'{what} in the namespace "{namespace}"')

    async def _watched(self, path: str, limit_s: float) -> AsyncIterator[bytes]:
        """From what is there on."""
        seen = len(self._objects.events)
        if path in self._objects.by_path:
            yield line("ADDED", self._objects.by_path[path])
        until_s = asyncio.get_running_loop().time() + limit_s
        while (left_s := until_s - asyncio.get_running_loop().time()) > 0:
            for where, event, content in self._objects.events[seen:]:
                seen += 1
                if where == path:
                    yield line(event, content)
            try:
                async with asyncio.timeout(left_s), self._objects.changed:
                    while len(self._objects.events) == seen:
                        await self._objects.changed.wait()
            except TimeoutError:
                return


def line(event: str, content: Object) -> bytes:
    return json.dumps({"type": event, "object": content}).encode() + b"\n"


async def main(port: int, file: str, certificate: str | None = None, key: str | None = None) -> None:
    config = uvicorn.Config(
        Server(Path(file)).app,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
    )
    server = uvicorn.Server(config)
    serving = asyncio.get_running_loop().create_task(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        print(f"serves at 127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
