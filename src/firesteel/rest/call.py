"""One request on its way to its handler, and the declaration of a route."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request

from firesteel.model import options
from firesteel.model.ids import JobID
from firesteel.model.options import Configuration
from firesteel.model.views import JobSummary, JobView, VertexView
from firesteel.rest.broadcast import Broadcast
from firesteel.rest.codecs import checked_id
from firesteel.rest.errors import RestError, bad_request, not_found
from firesteel.rest.flamegraphs import KeptSamples
from firesteel.rest.forwarding import Forwarding
from firesteel.rest.jars import Jars
from firesteel.rest.operations import Operations
from firesteel.rest.schema.cluster import Empty
from firesteel.rest.security import Role, User
from firesteel.rest.tickets import Tickets
from firesteel.rest.uploads import Uploads
from firesteel.rest.waits import Waits
from firesteel.runtime.client import ClusterGateway
from firesteel.runtime.metrics import MetricRegistry
from firesteel.runtime.services import Clock

NUMBER_DIGITS_MAX = 18

EndedLine = tuple[JobSummary, msgspec.Raw]
"""Summary of an ended job, and its line of /jobs/overview made of it."""


@dataclass(frozen=True, slots=True)
class Services:
    """The things that handlers work with; one for the whole endpoint."""

    gateway: ClusterGateway
    config: Configuration
    clock: Clock
    operations: Operations
    uploads: Uploads
    jars: Jars
    broadcast: Broadcast
    registry: MetricRegistry
    """What this process measures of itself."""
    waits: Waits = field(default_factory=Waits)
    tickets: Tickets = field(default_factory=Tickets)
    samples: KeptSamples = field(default_factory=KeptSamples)
    sampling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a flame graph is made: one after the other."""
    ended_lines: dict[JobID, EndedLine] = field(default_factory=dict)
    """Lines of the jobs in the last overview: making ten thousand anew is half of what an overview costs."""
    log_file: Path | None = None
    """The master's own log, when it writes one; older parts of it lie beside it."""
    shut_down: Callable[[], None] | None = None
    """Ends the cluster; absent where REST may not."""
    forwarding: Forwarding | None = None
    """Hands on what another master is to answer; absent where this is the only one."""
    standbys: Callable[[], Sequence[str]] = tuple
    """The masters that would take over, by name."""
    read_only: str = ""
    """Why nothing can be changed here, as a sentence; empty where it can."""

    @property
    def users_are_anybody(self) -> bool:
        """Nobody has to say who he is."""
        return not self.config.get_option(options.REST_USERS_FILE)


@dataclass(frozen=True, slots=True)
class Call:
    request: Request
    services: Services
    user: User
    query: Mapping[str, Any]
    """The route's query parameters, converted; those that were not given have their defaults."""
    body: Any = None

    @property
    def gateway(self) -> ClusterGateway:
        return self.services.gateway

    @property
    def now_ms(self) -> int:
        return self.services.clock.now_ms()

    @property
    def job_id(self) -> JobID:
        return JobID(self.id("jobid"))

    def id(self, name: str) -> str:
        """A path parameter of 32 hex digits. Raises RestError 400."""
        return checked_id(self.path(name), name)

    def number(self, name: str) -> int:
        """A path parameter that is a number. Raises RestError 400."""
        text = self.path(name)
        if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
            raise bad_request(f"Cannot resolve path parameter ({name}) from value {text!r}: it is a number.")
        return int(text)

    def path(self, name: str) -> str:
        text: str = self.request.path_params[name]
        return text

    async def job(self) -> JobView:
        """The job that the path names. Raises UnknownJob."""
        return await self.gateway.request_job(self.job_id)

    async def vertex(self) -> VertexView:
        """The vertex that the path names. Raises RestError 404."""
        wanted = self.id("vertexid")
        for vertex in (await self.job()).vertices:
            if vertex.id == wanted:
                return vertex
        raise not_found(f"No vertex with ID {wanted} exists in this job.")

    async def require_control(self) -> None:
        """Check that the caller operates the cluster, or has submitted the job. Raises RestError 403, or UnknownJob."""
        owner = (await self.gateway.request_job_summary(self.job_id)).owner
        is_own = bool(owner) and owner == self.user.name and self.user.may(Role.SUBMIT)
        if not is_own and not self.user.may(Role.OPERATE):
            raise RestError(403, f"{self.user.name} may not end or save this job: that takes the role operate.")


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter: `parse` raises ValueError for what does not fit, and `shape` says what does."""

    name: str
    description: str
    parse: Callable[[str], Any] = str
    default: Any = None
    shape: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})

    def value(self, text: str | None) -> Any:
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError:
            raise bad_request(f"Cannot resolve query parameter ({self.name}) from value {text!r}.") from None


@dataclass(frozen=True, slots=True)
class Route:
    """`path` has parameters in braces; what is served there is also served below /v1."""

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any = Empty
    """Type of the body; None for text that is no JSON."""
    body: Any = field(default=None, kw_only=True)
    """Type of the request's body; None when it is ignored."""
    query: tuple[Query, ...] = field(default=(), kw_only=True)
    role: Role = field(default=Role.VIEW, kw_only=True)
    status: int = field(default=200, kw_only=True)
    takes_upload: bool = field(default=False, kw_only=True)
    of_this_master: bool = field(default=False, kw_only=True)
    """Answered here, also while another master leads."""
    by_ticket: bool = field(default=False, kw_only=True)
    """Its address itself says that one may ask: no token is needed, and pages of any origin may."""
    errors: tuple[int, ...] = field(default=(), kw_only=True)
    """Statuses it may answer beside 400, 404, 500 and 503."""

    @property
    def pattern(self) -> str:
        """The path as Starlette has it: a parameter `page` is all that is left, with its slashes."""
        return self.path.replace("{page}", "{page:path}")

    @property
    def changes(self) -> bool:
        """Whether it changes something, or begins to."""
        return self.method != "GET" or self.role is not Role.VIEW or self.path.endswith("/yarn-cancel")
