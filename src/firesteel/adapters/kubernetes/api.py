"""What is asked of the API server of Kubernetes: objects of one namespace, read, created, changed and watched."""

import asyncio
import contextlib
import platform
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpcore
import msgspec

from firesteel.adapters.kubernetes.access import KubernetesAccess
from firesteel.model import options

REQUEST_LIMIT_S = 5.0
"""Time for one request and its answer."""

CONNECT_LIMIT_S = 2.4
"""Of it, time for a new connection, and as much for its TLS. The client's own limit: cancelled from outside, it leaves a half-made one open."""

WATCH_S = 240
"""Time after which the server ends a watch, to be begun anew."""

CHANGE = "application/merge-patch+json"
ROLE = "deploy/kubernetes/access.yaml"
"""Has a Role with all that is needed."""

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

BROKEN = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)

Object = TypeVar("Object")


class ApiError(OSError):
    """The API server can't be reached, or refuses. The text says what would help."""


class Unreachable(ApiError):
    """Nobody answers, which may pass."""


class NotFound(ApiError):
    """There is no such object, or no such namespace."""


class Conflict(ApiError):
    """The object exists, or is not the version that was to be changed."""


class Refused(ApiError):
    """The server knows who asks, and does not let him."""


class _Status(msgspec.Struct):
    """What the server says instead of an object."""

    message: str = ""


class Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] = {}


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


class _Review(msgspec.Struct):
    """Whether who asks may do something."""

    class Status(msgspec.Struct):
        allowed: bool = False

    status: Status


class _Any(msgspec.Struct):
    metadata: Metadata


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class KubernetesApi:
    """Paths are those below the namespace's, with the kind's group: `api/v1/configmaps`. All calls raise ApiError."""

    def __init__(
        self, access: KubernetesAccess, *, role: str = ROLE, namespace_key: str = options.KUBERNETES_NAMESPACE.key
    ) -> None:
        """`role` has a Role with all that is asked, `namespace_key` is what names another namespace: for people."""
        self._access, self._role, self._namespace_key = access, role, namespace_key
        self._pool = httpcore.AsyncConnectionPool(access.tls)

    def __str__(self) -> str:
        return f"the Kubernetes API server at {self._access.server}"

    async def close(self) -> None:
        await self._pool.aclose()

    async def get(self, kind: str, name: str, of: type[Object]) -> Object | None:
        """None when there is none of that name."""
        try:
            return self._read(await self._ask("GET", f"{self._path(kind)}/{name}"), of)
        except NotFound:
            return None

    async def select(self, kind: str, labels: str, of: type[Object]) -> list[Object]:
        """Those with the labels, as `name=value,name=value`."""
        content = await self._ask("GET", f"{self._path(kind)}?labelSelector={quote(labels)}")
        return [self._read(each, of) for each in self._read(content, _List).items]

    async def delete(self, kind: str, labels: str) -> None:
        """Those with the labels."""
        await self._ask("DELETE", f"{self._path(kind)}?labelSelector={quote(labels)}")

    async def has_namespace(self) -> bool:
        """Also when who asks may not know that."""
        try:
            await self._ask("GET", f"/api/v1/namespaces/{self._access.namespace}")
        except NotFound:
            return False
        except Refused:
            pass
        return True

    async def may(self, verb: str, kind: str) -> bool:
        """Whether who asks may do that; everybody may ask."""
        group, _, plural = kind.rpartition("/")
        named = {"namespace": self._access.namespace, "verb": verb, "resource": plural}
        named |= {"group": group.split("/")[1]} if group.startswith("apis/") else {}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        asked = {**review, "spec": {"resourceAttributes": named}}
        content = await self._ask("POST", REVIEWS, asked, "application/json")
        return self._read(content, _Review).status.allowed

    async def create(self, kind: str, content: Mapping[str, Any]) -> None:
        """Raises Conflict when there is one of that name."""
        await self._ask("POST", self._path(kind), content, "application/json")

    async def change(self, kind: str, name: str, content: Mapping[str, Any]) -> bool:
        """Fields are those of `content`, others stay; False when there is none of that name.

        Raises Conflict when `content` names a version, and there is another one.
        """
        try:
            await self._ask("PATCH", f"{self._path(kind)}/{name}", content, CHANGE)
        except NotFound:
            return False
        return True

    async def versions(self, kind: str, name: str) -> AsyncIterator[str]:
        """Versions of an object of that name, from the one that is there on, for some minutes."""
        query = f"watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={WATCH_S}"
        request = await self._request("GET", f"{self._path(kind)}?{query}")
        line = b""
        async with self._answer(request, WATCH_S + REQUEST_LIMIT_S) as answer:
            async for part in answer.aiter_stream():
                *lines, line = (line + part).split(b"\n")
                for event in (self._read(each, _Event) for each in lines if each):
                    if event.type == "ERROR":
                        raise ApiError(f"{self} ends the watch: {self._read(event.object, _Status).message}")
                    yield self._read(event.object, _Any).metadata.resource_version

    # ── requests ─────────────────────────────────────────────────────────────────────────────
    def _path(self, kind: str) -> str:
        group, _, plural = kind.rpartition("/")
        return f"/{group}/namespaces/{self._access.namespace}/{plural}"

    async def _ask(self, method: str, path: str, content: Mapping[str, Any] | None = None, form: str = "") -> bytes:
        request = await self._request(method, path, content, form)
        async with self._answer(request, REQUEST_LIMIT_S) as answer:
            return await answer.aread()

    async def _request(
        self, method: str, path: str, content: Mapping[str, Any] | None = None, form: str = ""
    ) -> httpcore.Request:
        try:
            token = await asyncio.to_thread(self._access.bearer)
        except OSError as error:
            raise ApiError(f"the token of {self._access.origin} can't be read ({error})") from None
        body = msgspec.json.encode(content) if content is not None else b""
        headers = {"Accept": "application/json", "Content-Length": str(len(body)), "User-Agent": "firesteel"}
        headers |= {"Content-Type": form} if form else {}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        url = httpcore.URL(f"{self._access.server}{path}")
        host = url.host if url.port is None else b"%b:%d" % (url.host, url.port)
        return httpcore.Request(
            method,
            url,
            headers=[(b"Host", host), *headers.items()],
            content=body,
            extensions={"timeout": {"connect": CONNECT_LIMIT_S}},
        )

    @contextlib.asynccontextmanager
    async def _answer(self, request: httpcore.Request, limit_s: float) -> AsyncIterator[httpcore.Response]:
        """Of a request that the server has granted."""
        said_by = f": the address is from {self._access.origin}"
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._pool.handle_async_request(request)
                try:
                    if answer.status >= 400:
                        raise self._refused(answer.status, await answer.aread())
                    yield answer
                finally:
                    await answer.aclose()
        except (TimeoutError, httpcore.ConnectTimeout) as late:
            limit_s = CONNECT_LIMIT_S if isinstance(late, httpcore.ConnectTimeout) else limit_s
            raise Unreachable(f"{self} has not answered {platform.node()} in {limit_s:g} s{said_by}") from None
        except BROKEN as error:
            said = str(error) or type(error).__name__
            raise Unreachable(f"{self} can't be reached from {platform.node()} ({said}){said_by}") from None

    def _refused(self, status: int, content: bytes) -> ApiError:
        try:
            said = msgspec.json.decode(content, type=_Status).message
        except msgspec.DecodeError:
            said = content[:200].decode(errors="replace")
        match status:
            case 401:
                return ApiError(
                    f"{self} does not know who asks ({said}): the credentials of {self._access.origin} have expired or"
                    " are of another cluster"
                )
            case 403:
                return Refused(f"{self} refuses: {said}: its Role must allow that, as the one in {self._role} does")
            case 404:
                return NotFound(f"{self}: {said}: create it, or set {self._namespace_key} to another one")
            case 409:
                return Conflict(f"{self}: {said}")
            case _:
                return ApiError(f"{self} answers {status}: {said}")

    def _read(self, content: bytes | msgspec.Raw, of: type[Object]) -> Object:
        try:
            return msgspec.json.decode(content, type=of)
        except msgspec.DecodeError as error:
            raise ApiError(f"{self} answers {bytes(content)[:100]!r}, which can't be read ({error})") from None
