"""Messages between the worker and its child processes: length-prefixed msgpack frames on socket pairs."""

import asyncio
import socket
import struct
import threading
from collections.abc import Mapping
from enum import Enum

import msgspec

from firesteel.adapters.blob.artifacts import Placed
from firesteel.model.failures import FailureInfo
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import JobInformation, TaskDeployment, TaskOutcome, TaskProgress

MAX_FRAME_BYTES = 256 * 1024 * 1024
_LENGTH = struct.Struct(">I")


class SparkAddress(msgspec.Struct, frozen=True, array_like=True):
    """A Spark Connect server. `generation` counts the JVMs of one worker."""

    port: int
    token: str
    generation: int
    host: str = "127.0.0.1"
    secure: bool = False
    """Whether it is spoken to by TLS."""
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with each call, beside the token."""


class SessionName(msgspec.Struct, frozen=True, array_like=True):
    """A Connect session: known before it exists, so that the worker can close it without asking anyone."""

    user: str
    session_id: str


# ── worker → child: one of these is the first frame a child gets ─────────────────────────────


class RunningQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A streaming query that runs in the attempt's session, and what of it is known to its task process only."""

    uid: str
    """The sink's."""
    query_id: str
    run_id: str
    """Spark's."""
    ends: bool
    """By itself, when it has read what is there."""
    rows: int = 0
    seen: str = ""
    batch_id: int = -1
    """Rows that were counted; timestamp and batch of the newest progress that was."""


class FollowQueries(msgspec.Struct, frozen=True, kw_only=True):
    """What a task process takes over from one that has died, of the same attempt."""

    queries: tuple[RunningQuery, ...]
    sessions: int
    """Sessions that were opened."""
    number: int
    """Task processes of the attempt before this one."""
    notice: str
    """The reason for it, for the attempt's log."""


class RunTask(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """Run one attempt. Paths are on this machine."""

    job: JobInformation
    deployment: TaskDeployment
    session: SessionName
    operation_tag: str
    endpoint: SparkAddress | None
    """Address of the JVM; None while that starts: the child asks for it when it needs it."""
    code: tuple[str, ...] = ()
    """Unpacked code directories, first on the module path."""
    code_archives: tuple[str, ...] = ()
    """Zip files of the same code, for Spark's Python workers."""
    pickles: tuple[str, ...] = ()
    placed: tuple[Placed, ...] = ()
    """Files and archives for the working directory, and for Spark's Python workers."""
    interpreter: str = ""
    """Path of the job's own interpreter in what was unpacked of these; empty where it has none."""
    directory: str
    """The attempt's own working directory."""
    log: str
    """File for what the user's code prints."""
    pipes: str = ""
    """Directory with the pipes `stdout` and `stderr`, for a script: what it prints goes there instead."""
    partitions: str
    """Directory of this machine for what the attempt has to do with results: rows it returns."""
    lists: str
    """Directory that this machine and Spark's driver share, for lists of what it reads."""
    results: str
    """Location under which it stores its results: the same, or one that the workers share."""
    scheduler_pool: str
    """Scheduler pool of its session, unless the job's settings name another."""
    settings: dict[str, str]
    """The job's own Spark settings, apart from those the backend was started with: some of them can't be set later."""
    is_backend_shared: bool = True
    """Whether all attempts of the worker use that JVM, and its commits do."""
    jvm_cores: int = 1
    """Cores of that JVM, where Spark's tasks run in it, and so know our classes; 0 where they run elsewhere."""
    storage: dict[str, str] = {}
    """Settings of storages, with their secrets: by Hadoop's keys."""
    staged_note: str
    """File in which the attempt notes what it is about to stage."""
    client_directory: str
    """Directory in which relative paths start."""
    checkpoints: dict[str, str] = {}
    """Checkpoint location of each query of a streaming attempt, by its sink's uid."""
    trigger_ms: int = 0
    """Trigger of those queries whose sinks have set none."""
    follow: FollowQueries | None = None
    """Queries that run already: they are followed, and none is started."""
    reattachments_max: int = 0
    """Task processes that may take the place of one that has died, within a while."""
    progress_interval_ms: int
    result_max_bytes: int
    """Largest size of the rows which one function returns to the job's caller."""


class CallFunction(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """Run `module:function(bytes) -> bytes`."""

    entry_point: str
    payload: bytes


GUARD_GIVE_UP_SECONDS = 600.0
"""Time for which a guard tries to close a session on a server that can't be reached."""


class GuardAction(Enum):
    HOLD = "hold"
    """It is in use: keep it alive, and end it with the worker."""
    FORGET = "forget"
    """It is closed."""
    CLOSE = "close"
    """The worker could not close it: do it, as soon as the server can be reached."""


class GuardOrder(msgspec.Struct, frozen=True):
    """A line to the guard of sessions on a server of others; the first line is that server's SparkAddress."""

    action: GuardAction
    session: SessionName


class KeepSessions(msgspec.Struct, frozen=True, kw_only=True, tag="keep"):
    """Be the session keeper of one backend."""

    endpoint: SparkAddress


class UseAddress(msgspec.Struct, frozen=True, kw_only=True, tag="endpoint"):
    """The answer to WantAddress."""

    endpoint: SparkAddress


class UseSplits(msgspec.Struct, frozen=True, kw_only=True, tag="splits"):
    """The answer to WantSplits."""

    drawn: DrawnSplits


class SessionAction(Enum):
    INTERRUPT = "interrupt"
    """Interrupt what runs in it."""
    CLOSE = "close"
    """End what runs in it, release what it has cached, then close it."""
    CLEAR_CACHE = "clear-cache"
    """Release all that is cached in the JVM, and close it."""


class KeeperRequest(msgspec.Struct, frozen=True, kw_only=True, tag="keeper"):
    number: int
    session: SessionName
    action: SessionAction
    was_cut: bool = False
    """Whether its task process ended in the middle: what it had asked Spark for may only just arrive there."""
    cached: tuple["Cached", ...] = ()
    """Plans and names that it has had Spark cache."""


class StopQueries(msgspec.Struct, frozen=True, kw_only=True, tag="stop-queries"):
    """Stop the streaming queries: the attempt then finishes."""

    drain: bool = False
    """Have them read what is there first."""


ToChild = RunTask | CallFunction | KeepSessions | UseAddress | UseSplits | StopQueries | KeeperRequest

# ── child → worker ───────────────────────────────────────────────────────────────────────────


class WantAddress(msgspec.Struct, frozen=True, tag="want-endpoint"):
    """The child needs Spark and was not told where it is."""


class WantSplits(msgspec.Struct, frozen=True, tag="want-splits"):
    """The child has done its draw before this one."""

    number: int


class Running(msgspec.Struct, frozen=True, tag="running"):
    """The user's code begins."""


class Progressed(msgspec.Struct, frozen=True, tag="progress"):
    progress: TaskProgress


class QueriesMayRun(msgspec.Struct, frozen=True, tag="may-run"):
    """Streaming queries of the attempt are about to be started; or, without `yes`, Spark has refused the first of them."""

    yes: bool


class QueriesRun(msgspec.Struct, frozen=True, tag="queries"):
    """All streaming queries of the attempt have been started; sent again when what is known of them has changed."""

    queries: tuple[RunningQuery, ...]
    bound_by: str = ""
    """What of them would be lost with this process, in words; empty for nothing: another process can follow them."""


class SessionKnown(msgspec.Struct, frozen=True, tag="session"):
    """The server's own id of the attempt's session: what its Python workers are marked with."""

    server_session: str


class OpensSession(msgspec.Struct, frozen=True, tag="opens"):
    """The child is about to open a session beside its first one."""

    session: SessionName


class Staging(msgspec.Struct, frozen=True, tag="staging"):
    """Notice of what the attempt is about to write outside the work directory."""

    location: str
    secrets: Mapping[str, str] = {}
    """Secrets that committing or removing it takes and that must not be written anywhere."""


class Cached(msgspec.Struct, frozen=True, tag="cached"):
    """A session is about to have Spark cache this. With neither of the two, what it is can't be told."""

    session_id: str
    relation: bytes = b""
    """A Connect relation."""
    statement: str = ""
    """SQL that releases it."""


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    outcome: TaskOutcome
    used_session: bool


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    failure: FailureInfo
    used_session: bool = False


class CallResult(msgspec.Struct, frozen=True, tag="result"):
    payload: bytes


class KeeperAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="kept"):
    number: int
    error: str = ""
    server_session: str = ""
    """The server's own id of a session that was to be closed, if there was one."""
    interrupted: bool = False
    """Something ran in the session."""
    released: bool = True
    """Nothing is left in Spark's cache of what the session had there."""


FromChild = (
    WantAddress
    | WantSplits
    | Running
    | Progressed
    | QueriesMayRun
    | QueriesRun
    | SessionKnown
    | OpensSession
    | Staging
    | Cached
    | Finished
    | Failed
    | CallResult
    | KeeperAnswer
)

# ── worker ↔ fork server (one datagram each) ─────────────────────────────────────────────────


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Fork a child on the socket that comes with this message."""

    number: int


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    number: int
    pid: int


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    pid: int
    status: int
    """Exit code, or the negative number of the signal."""


FromForkServer = Forked | Exited

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
to_child: msgspec.msgpack.Decoder[ToChild] = msgspec.msgpack.Decoder(ToChild)
from_child: msgspec.msgpack.Decoder[FromChild] = msgspec.msgpack.Decoder(FromChild)
from_fork_server: msgspec.msgpack.Decoder[FromForkServer] = msgspec.msgpack.Decoder(FromForkServer)
fork_request = msgspec.msgpack.Decoder(Fork)


def frame(message: msgspec.Struct) -> bytes:
    """Length and body."""
    body = encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


class ChildChannel:
    """A child's side: blocking. Threads may send at the same time."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket, self._sending = sock, threading.Lock()

    def send(self, message: msgspec.Struct) -> None:
        data = frame(message)
        with self._sending:  # a large one goes in pieces
            self._socket.sendall(data)

    def receive(self) -> ToChild | None:
        """The next message, or None when the worker has gone or has no use for this process."""
        header = self._read(_LENGTH.size)
        if header is None:
            return None
        body = self._read(_LENGTH.unpack(header)[0])
        return None if body is None else to_child.decode(body)

    def _read(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            chunk = self._socket.recv(min(size - len(parts), 1 << 20))
            if not chunk:
                return None
            parts += chunk
        return bytes(parts)


async def read_message(reader: asyncio.StreamReader) -> FromChild | None:
    """The worker's side: the child's next message, or None when it has closed its end."""
    try:
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return from_child.decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
