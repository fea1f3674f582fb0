"""HTTP to whichever of several masters answers."""

import asyncio
import contextlib
import itertools
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol
from urllib.parse import quote, urlsplit

import httpcore
import msgspec

from firesteel.client.multipart import Multipart
from firesteel.client.obstacles import obstacle
from firesteel.model.backoff import ExponentialBackoff
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph
from firesteel.model.stored import UNREADABLE
from firesteel.runtime.client import CancelRefused, DuplicateJob, StorageFull, TooManyJobs, UnknownJob

RETRY_DELAYS_S = ExponentialBackoff(0.1, 2.0)
"""Time between two rounds over all addresses."""

LASTED_S = 3.0
"""A try that may wait for its answer, and fails after so long, was one to a leader that was there until now: what follows is
a new outage. A standby that finds no leader says so sooner (it tries to connect for 2 s)."""

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0
"""An answer begins this long after its request, and after the time that the request says it may wait."""

TOKEN_VARIABLE = "FIRESTEEL_TOKEN"
"""Environment variable with the token that says who asks; on a command line everybody could read it."""

PING = "/v1/overview"
"""A question that only a leader answers, and at once."""

KEPT_MAX = 20
"""Connections that are kept for a next request."""


CONFLICT = 409
NOBODY_SERVES = (502, 503, 504)
"""Said by a master that does not lead, or by a proxy that finds none."""

URL_MARKS = "/?&=%:,+~"
"""In a path with its query; other marks, and letters beyond ASCII, are part of a name that somebody gave."""

BROKEN = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.RemoteProtocolError)
"""A connection that was lost, takes too long, or makes no sense."""
NOT_MADE = (httpcore.ConnectError, httpcore.ConnectTimeout)
"""Nobody has heard of the request."""


class ClusterUnreachable(ConnectionError):
    """No master answers at any address, or none leads, or TLS keeps us apart."""


class Refused(PermissionError):
    """The cluster does not know who we are, or we may not do this."""


class DoneBefore(Exception):
    """Nobody's fault: an earlier try of the same request was done, and its answer lost."""


class RequestFailed(RuntimeError):
    """The cluster's answer is an error that is none of the others."""


class _Errors(msgspec.Struct):
    errors: list[str] = []


class Finder(Protocol):
    """Knows where the leader is."""

    async def find(self) -> str | None:
        """URL of the leader, None while nobody has led. Raises OSError."""

    async def close(self) -> None: ...


class Transport:
    """Sends requests to `addresses` (URLs), starting with the one that answered last, or where `finder` says.

    A request that finds nobody, or no leader, is sent again for `patience_s`, which begin when that is noticed and not
    with the request: it may have waited for its answer for long. A cluster that was never reached is given up after one
    round, for then the address may be wrong. `token_from` names what gave the token, for who has to mend it.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        finder: Finder | None = None,
        token: str = "",
        token_from: str = TOKEN_VARIABLE,
        tls: ssl.SSLContext | None = None,
        patience_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert addresses or finder is not None, "a cluster has an address"
        self._clock = clock
        self._headers: dict[bytes | str, bytes | str] = {"Authorization": f"Bearer {token}"} if token else {}
        self._addresses, self._finder, self._patience_s = list(addresses), finder, patience_s
        self._reached, self._why_not = False, ""
        self._tls, self._token_from = tls, token_from
        self._answered: set[str] = set()
        """Addresses that have answered once: TLS is no obstacle there."""
        self._obstacles: dict[str, str] = {}
        """Why others can't be talked to, in sentences."""
        self._http = httpcore.AsyncConnectionPool(tls, max_connections=None, max_keepalive_connections=KEPT_MAX)

    async def close(self) -> None:
        await self._http.aclose()
        if self._finder is not None:
            await self._finder.close()

    async def request(
        self, method: str, path: str, *, wait_s: float = 0.0, json: bytes = b"", upload: Multipart | None = None
    ) -> bytes:
        """The body of a good answer. Raises ClusterUnreachable, or what the answer's status means.

        A request that an earlier try may have done raises DoneBefore instead of DuplicateJob.
        """
        headers = dict(self._headers)
        if upload is not None:
            headers |= {"Content-Type": upload.kind, "Content-Length": str(upload.size)}
        elif json:
            headers["Content-Type"] = "application/json"
        outage = _Outage(self._patience_s, self._clock, may_wait=wait_s > 0)
        may_be_done = False
        async for address in self._tried(outage):
            if wait_s and outage.is_under_way and await self._is_led(address):
                outage.over()
            try:
                answer = await self._http.request(
                    method,
                    address + quote(path, safe=URL_MARKS),
                    headers=headers,
                    content=json if upload is None else upload.chunks(),
                    extensions=_timeouts(READ_TIMEOUT_S + wait_s),
                )
            except BROKEN as error:
                outage.noticed(error)
                may_be_done = await self._was_heard(address, error) or may_be_done
                continue
            if self._serves(address, answer.status):
                if may_be_done and answer.status == CONFLICT:
                    raise DoneBefore(_text(answer))
                self._check(answer)
                return answer.content
            may_be_done, self._why_not = True, _text(answer)
            outage.noticed()
        raise AssertionError("the addresses end with an error")

    async def request_end(self, job_id: JobID) -> None:
        """Ask for the end of a job. Raises CancelRefused, and what `request` does."""
        try:
            await self.request("PATCH", f"/v1/jobs/{job_id}?mode=cancel")
        except (DuplicateJob, DoneBefore) as error:  # what other requests mean by a conflict
            raise CancelRefused(str(error)) from None

    async def lines(self, path: str) -> AsyncIterator[str]:
        """Lines of a stream, once somebody serves it; ends when the connection does, however it does."""
        outage = _Outage(self._patience_s, self._clock)
        async for address in self._tried(outage):
            is_served = False
            try:
                headers = {**self._headers, "Host": urlsplit(address).netloc}
                url = address + quote(path, safe=URL_MARKS)
                asked = httpcore.Request("GET", url, headers=headers, extensions=_timeouts(READ_TIMEOUT_S))
                answer = await self._http.handle_async_request(asked)
                # Closed here, and not by `stream`: that is a generator too, which a loop that ends would end beside us.
                try:
                    is_served = self._serves(address, answer.status)
                    if not is_served or not _is_success(answer):
                        await answer.aread()
                    if is_served:
                        self._check(answer)
                        begun = b""
                        async for part in answer.aiter_stream():
                            *lines, begun = (begun + part).split(b"\n")
                            for line in lines:
                                yield line.decode()
                    else:
                        self._why_not = _text(answer)
                finally:
                    await answer.aclose()
            except BROKEN as error:
                await self._was_heard(address, error)
            if is_served:
                return  # who listens on connects again, with all his patience
            outage.noticed()

    async def _likeliest(self, addresses: Sequence[str]) -> str:
        """Of several the one that answers first, else the first: a master that is stopped takes a request and says nothing."""
        if len(addresses) == 1:
            return addresses[0]
        answered: list[str] = []

        async def ask(address: str) -> None:
            if await self._is_led(address):
                answered.append(address)
                for task in asking:
                    if task is not asyncio.current_task():
                        task.cancel()

        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(ask(address)) for address in addresses]
        return (*answered, *addresses)[0]

    async def _is_led(self, address: str) -> bool:
        """Whether a question that need not wait is answered: one that may wait says nothing while nothing happens, so that
        leaders who come and go fast would pass for none."""
        try:
            timeouts = _timeouts(CONNECT_TIMEOUT_S)
            answer = await self._http.request("GET", f"{address}{PING}", headers=self._headers, extensions=timeouts)
        except BROKEN:
            return False
        return self._serves(address, answer.status)

    def _serves(self, address: str, status: int) -> bool:
        """Whether there is somebody to answer."""
        self._reached = True
        self._answered.add(address)
        self._obstacles.pop(address, None)
        return status not in NOBODY_SERVES

    async def _was_heard(self, address: str, error: Exception) -> bool:
        """Whether a request may have come to a master before its connection broke."""
        self._obstacles.pop(address, None)
        if address not in self._answered and (found := await obstacle(address, error, self._tls)):
            self._obstacles[address] = found
            return False
        is_heard = not isinstance(error, NOT_MADE)
        self._reached = self._reached or is_heard
        return is_heard

    def _check(self, answer: httpcore.Response) -> None:
        """Raises what the answer's status means."""
        if answer.status == 401 and _asks_for_token(answer):
            if self._headers:
                raise Refused(f"this cluster does not know the token in {self._token_from}")
            raise Refused(f"this cluster asks who you are: set {TOKEN_VARIABLE} to your token")
        _check(answer)

    async def _tried(self, outage: "_Outage") -> AsyncIterator[str]:
        """Addresses to try, again and again; an address that answers is tried first from then on."""
        for rounds in itertools.count(1):
            await self._find()
            left = list(self._addresses)
            while left:
                address = await self._likeliest(left) if outage.is_under_way or not self._reached else left[0]
                left.remove(address)
                outage.asked()
                yield address
                if self._finder is None:
                    self._addresses.remove(address)
                    self._addresses.append(address)
            if not self._reached or outage.is_too_long():
                raise ClusterUnreachable(self._why_unreachable())
            await asyncio.sleep(RETRY_DELAYS_S.after(rounds, chance=random.random()))

    def _why_unreachable(self) -> str:
        """Obstacles first: they are for certain, and who is silent may be a standby that is down."""
        silent = [each for each in self._addresses if each not in self._obstacles]
        said = [self._obstacles[each] for each in self._addresses if each in self._obstacles]
        if silent or not said:
            what = "no master leads" if self._reached else "nobody answers"
            why = f" ({self._why_not})" if self._why_not else ""
            advice = (
                ""
                if self._reached or said
                else ": check the address (--master, rest.address), or start a cluster there"
            )
            said.append(f"{what} at {', '.join(silent) or self._finder}{why}{advice}")
        return "; ".join(said)

    async def _find(self) -> None:
        if self._finder is not None:
            try:
                found = await self._finder.find()
            except OSError as error:
                self._why_not = str(error)
            else:
                self._addresses = [found] if found is not None else []


class _Outage:
    """Outage of one request: since when nobody has answered it."""

    def __init__(self, patience_s: float, clock: Callable[[], float], *, may_wait: bool = False) -> None:
        self._patience_s, self._clock, self._may_wait = patience_s, clock, may_wait
        self._asked_s = clock()
        self._since_s: float | None = None

    @property
    def is_under_way(self) -> bool:
        return self._since_s is not None

    def over(self) -> None:
        """Somebody answers."""
        self._since_s = None

    def asked(self) -> None:
        """A try begins."""
        self._asked_s = self._clock()

    def noticed(self, error: Exception | None = None) -> None:
        """A try has failed: by an error of the connection, or because nobody leads."""
        now_s = self._clock()
        is_silence = isinstance(error, httpcore.TimeoutException)
        has_lasted = self._may_wait and not is_silence and now_s - self._asked_s >= LASTED_S
        if self._since_s is None or has_lasted:
            self._since_s = now_s

    def is_too_long(self) -> bool:
        """Whether to give it up."""
        if self._since_s is None:  # nobody is there to be asked
            self._since_s = self._clock()
        return self._clock() - self._since_s >= self._patience_s


def urls(text: str) -> list[str]:
    """Addresses like `host`, `host:8081` or `https://host:8081`, parted by commas. Raises ValueError."""
    found = []
    for address in filter(None, (part.strip() for part in text.split(","))):
        with_scheme = address if "://" in address else f"http://{address}"
        try:
            url = urlsplit(with_scheme)
            host, number = (url.hostname or "").encode("idna").decode(), url.port
        except ValueError as error:
            raise ValueError(f"{address!r} is no address: {error}") from None
        if url.scheme not in ("http", "https") or not host or any(map(str.isspace, address)):
            raise ValueError(f"{address!r} is no address: write HOST:PORT, or https://HOST:PORT")
        port = f":{number}" if number is not None else ("" if url.scheme == "https" else ":8081")
        host = f"[{host}]" if ":" in host else host
        found.append(f"{url.scheme}://{host}{port}{url.path.rstrip('/')}")
    if not found:
        raise ValueError("no address is given")
    return found


def _timeouts(read_s: float) -> dict[str, dict[str, float]]:
    return {"timeout": {"connect": CONNECT_TIMEOUT_S, "read": read_s, "write": READ_TIMEOUT_S}}


def _text(answer: httpcore.Response) -> str:
    """Text of an error's answer."""
    errors: list[str] = []
    with contextlib.suppress(*UNREADABLE):
        errors = msgspec.json.decode(answer.content, type=_Errors).errors
    reason: bytes = answer.extensions.get("reason_phrase", b"")
    return " ".join(errors) or f"HTTP {answer.status} {reason.decode(errors='replace')}".rstrip()


def _is_success(answer: httpcore.Response) -> bool:
    return 200 <= answer.status < 300


def _asks_for_token(answer: httpcore.Response) -> bool:
    """Whether it is the cluster's, and not that of a proxy with users of its own."""
    return any(name.lower() == b"www-authenticate" and value.startswith(b"Bearer") for name, value in answer.headers)


def _check(answer: httpcore.Response) -> None:
    if _is_success(answer):
        return
    text = _text(answer)
    match answer.status:
        case 401 | 403:
            raise Refused(text)
        case 404:
            raise UnknownJob(text)
        case 409:
            raise DuplicateJob(text)
        case 429:
            raise TooManyJobs(text)
        case 507:
            raise StorageFull(text)
        case 400 | 413:
            raise InvalidJobGraph(text)
        case _:
            raise RequestFailed(text)
